"""The submission of a recipe to a cluster: its id, its command, and the checks of the cluster before it.

Nothing here opens a connection: client.py does, and preflight.py runs on the cluster itself. What is sent along is in
code_bundle.py. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from jobs.cluster.submit.code_bundle import CARRIED
from jobs.configs import Resources
from jobs.errors import UserError

SECRETS = re.compile(r"secret|password|token|access_key|credential|sas|signature", re.IGNORECASE)
LINES_OF_RAY = re.compile(  # its own log, and what its workers print
    r"Running entrypoint for job |[\d-]+ [\d:,]+\s+INFO \w+\.py:\d+ --"
    r"|(\x1b\[\d+m)*\([^()]*(\([^()]*\))?[^()]*\bpid=\d+"
)
RUNNING = ("waiting", "running")


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A recipe, as it will be run on the cluster."""

    recipe: str
    fingerprint: str  # of its last step: the same request has the same one
    arguments: tuple[str, ...]  # what follows `attn run`: the recipe and its options
    profile: Resources
    workspace: str
    tracking: str | None = None  # MLflow's address; None: SQLite in the workspace
    commit: str | None = None
    user: str = ""
    carried: tuple[str, ...] = ()  # local files that the arguments name (--rows-from, --on), sent along
    driver_cpus: float = 0  # reserved for the driver; with 0 it runs on the head

    @property
    def environment(self) -> dict[str, str]:
        variables = {
            "ATTN_WORKSPACE": self.workspace,
            "ATTN_USER": self.user,
            "ATTN_COMMIT": self.commit,
            "MLFLOW_TRACKING_URI": self.tracking,
        }
        return {name: value for name, value in variables.items() if value}

    @property
    def metadata(self) -> dict[str, str]:
        """For the cluster's list of jobs."""
        return {
            "attn.recipe": self.recipe,
            "attn.fingerprint": self.fingerprint,
            "attn.profile": self.profile.name,
            "attn.commit": self.commit or "unknown",
            "attn.user": self.user or "unknown",
            "attn.workspace": self.workspace,
        }


@dataclass(frozen=True, kw_only=True)
class Node:
    id: str
    ip: str
    is_head: bool
    resources: Mapping[str, float]  # CPU, GPU, memory, object_store_memory


@dataclass(frozen=True, kw_only=True)
class ClusterFacts:
    """Versions and resources of a cluster."""

    address: str
    ray: str
    python: str
    nodes: tuple[Node, ...]
    autoscales: bool  # nodes may be added on demand
    interpreter: str  # the Python that Ray itself runs with on the head

    def total(self, resource: str) -> float:
        return sum(node.resources.get(resource, 0) for node in self.nodes)


@dataclass(frozen=True)
class Finding:
    """The result of one check. An error stops a submission, a warning does not."""

    level: Literal["ok", "warning", "error"]
    what: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class SubmittedJob:
    """A job in the cluster's list. `status`: waiting, running, done, failed or stopped."""

    id: str
    status: str
    recipe: str = ""
    fingerprint: str = ""
    user: str = ""
    workspace: str = ""
    profile: str = ""
    commit: str = ""
    started: float | None = None  # seconds since 1970
    ended: float | None = None
    message: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return self.status not in RUNNING


STATUS = {"PENDING": "waiting", "RUNNING": "running", "SUCCEEDED": "done", "FAILED": "failed", "STOPPED": "stopped"}


def job_from(details: Any) -> SubmittedJob:
    """Ours from Ray's."""
    metadata: Mapping[str, str] = details.metadata or {}
    return SubmittedJob(
        id=str(details.submission_id or details.job_id),
        status=STATUS.get(str(details.status.value), str(details.status.value).lower()),
        recipe=metadata.get("attn.recipe", ""),
        fingerprint=metadata.get("attn.fingerprint", ""),
        user=metadata.get("attn.user", ""),
        workspace=metadata.get("attn.workspace", ""),
        profile=metadata.get("attn.profile", ""),
        commit=metadata.get("attn.commit", ""),
        started=details.start_time / 1000 if details.start_time else None,
        ended=details.end_time / 1000 if details.end_time else None,
        message=str(details.message or ""),
        metadata=metadata,
    )


# --- what is sent ------------------------------------------------------------------------------------------------


def submission_id(submission: Submission, attempt: int = 1) -> str:
    """The same for the same request of one user in one workspace, so that two at once become one job; a further
    attempt carries its number."""
    name, user = (re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-") for word in (submission.recipe, submission.user))
    request = f"{submission.fingerprint} {submission.user} {submission.workspace}"
    words = ["attn", name, user, hashlib.sha256(request.encode()).hexdigest()[:12], str(attempt) if attempt > 1 else ""]
    return "-".join(filter(None, words))


def next_id(submission: Submission, known: Iterable[SubmittedJob]) -> str:
    """An id that no job has had: Ray does not take one twice."""
    taken = {job.id for job in known}
    attempt = 1
    while submission_id(submission, attempt) in taken:
        attempt += 1
    return submission_id(submission, attempt)


def find_running(submission: Submission, known: Iterable[SubmittedJob]) -> SubmittedJob | None:
    """The job of the same request that is waiting or running, if there is one: this user's, in this workspace."""
    wanted = (submission.fingerprint, submission.user, submission.workspace)
    same = [job for job in known if (job.fingerprint, job.user, job.workspace) == wanted and not job.is_over]
    return max(same, key=lambda job: job.started or 0.0) if same else None


def newest_of(recipe: str, known: Iterable[SubmittedJob], user: str, workspace: str | None) -> SubmittedJob | None:
    """A user's newest job of a recipe, one under way before those that are over; None if nobody has one.

    Refuses, with the ids to choose from, where all such jobs are others' or several workspaces have one under way.
    """
    of_recipe = [job for job in known if job.recipe == recipe and workspace in (None, job.workspace)]
    mine = sorted((job for job in of_recipe if job.user == user), key=lambda job: job.started or 0.0, reverse=True)
    under_way = [job for job in mine if not job.is_over]
    if of_recipe and not mine:
        theirs = ", ".join(f"{job.id} ({job.user or 'unknown'})" for job in of_recipe[:5])
        raise UserError(f"No job of {recipe} is {user}'s. Others' are {theirs}: name one by its id.")
    if len({job.workspace for job in under_way}) > 1:
        places = ", ".join(f"{job.id} ({job.workspace})" for job in under_way)
        raise UserError(f"{recipe} is under way in several workspaces: {places}. Name one by its id, or --workspace.")
    return next(iter(under_way or mine), None)


def entrypoint(submission: Submission, interpreter: str) -> str:
    """The command that the cluster runs, in the code bundle's directory; it reports its steps in JSON."""
    places = {path: f"{CARRIED}/{Path(path).name}" for path in submission.carried}
    arguments = [places.get(argument, argument) for argument in submission.arguments]
    return shlex.join([interpreter, "-m", "pipelines.cli", "run", *arguments, "--events", "json"])


def refuse_secrets(submission: Submission) -> None:
    """An address with a password in it would stand in the cluster's list of jobs for anyone to read."""
    for what, address, instead in (
        ("workspace", submission.workspace, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("MLflow address", submission.tracking or "", "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"),
    ):
        parts = urlsplit(address)
        named = [name for name, _ in parse_qsl(parts.query) if SECRETS.search(name)]
        if parts.password or named:
            raise UserError(
                f"The {what} has a secret in it, which every user of the cluster could read. Take it out of the "
                f"address and set {instead} in the environment of the cluster's nodes."
            )


def is_loopback(address: str) -> bool:
    return (urlsplit(address).hostname or "") in {"localhost", "127.0.0.1", "::1", "0.0.0.0"}


# --- what must be true -------------------------------------------------------------------------------------------


def check_cluster(submission: Submission, facts: ClusterFacts, *, ray: str, python: str) -> list[Finding]:
    """The cluster against this machine (`ray`, `python`: its versions) and against what the profile asks for."""
    return [*_versions(facts, ray, python), *_resources(submission.profile, facts), *_places(submission, facts)]


def _versions(facts: ClusterFacts, ray: str, python: str) -> Iterator[Finding]:
    """A release that differs in its last number runs what this one sends: the job runs with the cluster's own."""
    for what, ours, theirs in (("Ray", ray, facts.ray), ("Python", python, facts.python)):
        if theirs.split(".")[:2] != ours.split(".")[:2]:
            sentence = f"the cluster runs {theirs} and this is {ours}: use the image of this version"
            yield Finding("error", what, sentence)
        else:
            yield Finding("ok", what, f"{ours} here and there" if ours == theirs else f"{ours} here, {theirs} there")


def _resources(profile: Resources, facts: ClusterFacts) -> Iterator[Finding]:
    train = profile.train
    least = train.min_workers or train.workers
    for name, each, most in (
        ("CPU", train.cpus_per_worker, profile.cpus),
        ("GPU", train.gpus_per_worker, profile.gpus),
    ):
        wanted, needed, have = max(most or 0, train.workers * each), least * each, facts.total(name)
        if have >= wanted:
            yield Finding("ok", f"{name}s", f"{have:g}, and {profile.name} asks for {wanted:g}")
        elif facts.autoscales:
            yield Finding(
                "warning", f"{name}s", f"{have:g} now, {profile.name} asks for {wanted:g}: nodes must be added"
            )
        elif have >= needed:
            yield Finding("warning", f"{name}s", f"{have:g}, fewer than the {wanted:g} of {profile.name}: slower")
        else:
            yield Finding(
                "error", f"{name}s", f"{have:g}, and {profile.name} needs {needed:g}: choose another --on or add nodes"
            )
    store, planned = facts.total("object_store_memory") / 2**30, profile.data.memory_gb
    if store < planned and not facts.autoscales:
        yield Finding(
            "warning", "memory", f"{store:.1f} GB for objects, {profile.name} plans with {planned:g}: data spills"
        )


def _places(submission: Submission, facts: ClusterFacts) -> Iterator[Finding]:
    if "://" not in submission.workspace:
        if not os.path.isabs(submission.workspace):
            yield Finding("error", "workspace", f"{submission.workspace} is not an absolute path")
        elif facts.autoscales:
            yield Finding(
                "error",
                "workspace",
                f"{submission.workspace} is a local path, which nodes that are still to come would not have: "
                f"give an object store, such as --workspace s3://bucket/attn",
            )
        elif len(facts.nodes) > 1:
            yield Finding("warning", "workspace", f"{submission.workspace} is a local path: every node must mount it")
        elif not is_loopback(facts.address):
            yield Finding(
                "warning", "workspace", f"{submission.workspace} will be a directory there, not on this machine"
            )
    for word in submission.arguments:
        name, _, value = word.partition("=")
        if value and os.path.isfile(value) and not is_loopback(facts.address):
            yield Finding(
                "error", name, f"{value} is a file of this machine, which the cluster does not have: put it there"
            )
    if submission.tracking and is_loopback(submission.tracking) and not is_loopback(facts.address):
        yield Finding(
            "error", "MLflow", f"{submission.tracking} is this machine's own address: the cluster has another"
        )


# --- what comes back ---------------------------------------------------------------------------------------------


def whole_lines(chunks: Iterable[str]) -> Iterator[str]:
    """Lines from pieces that begin and end anywhere."""
    rest = ""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split("\n")
        yield from lines
    if rest:
        yield rest


def without_ray_lines(lines: Iterable[str]) -> Iterator[str]:
    """The job's own lines: Ray logs its start into the same file, not always before the job begins."""
    return (line for line in lines if not LINES_OF_RAY.match(line))


def interpreter_of(raylet_command: Sequence[str]) -> str:
    """The Python that Ray's head runs its workers with, from the command line of its raylet."""
    for argument in raylet_command:
        option, _, command = argument.partition("=")
        if option == "--python_worker_command" and command:
            return shlex.split(command)[0]
    return "python"
