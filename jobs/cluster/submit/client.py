"""A Ray cluster's job server: submit a recipe, list, follow, stop. Queue, logs and restarts are Ray's own.

`connect` once, then `examine` (checks), `submit`, `listing`, `find`, `log_lines`, `stop`.
Every request carries the token where the cluster asks for one; no token goes to a cluster that does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import platform
import shlex
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import ray
from ray.exceptions import AuthenticationError
from ray.job_submission import JobSubmissionClient

from jobs.cluster.submit.code_bundle import fill_bundle
from jobs.cluster.submit.preflight import MARK
from jobs.cluster.submit.submission import (
    ClusterFacts,
    Finding,
    Node,
    Submission,
    SubmittedJob,
    check_cluster,
    entrypoint,
    find_running,
    interpreter_of,
    job_from,
    newest_of,
    next_id,
    refuse_secrets,
    whole_lines,
    without_ray_lines,
)
from jobs.errors import UserError

T = TypeVar("T")
DEFAULT_ADDRESS = "http://127.0.0.1:8265"
ANSWER_TIMEOUT_S = 10.0  # of the job server
PREFLIGHT_TIMEOUT_S = 180.0  # for the preflight job, the first start of our code on the cluster included


@dataclass(frozen=True)
class Connection:
    address: str
    headers: dict[str, str]
    client: Any  # JobSubmissionClient


# --- connecting --------------------------------------------------------------------------------------------------


def connect(address: str | None = None) -> Connection:
    """The job server at `address` (http://host:8265), or at RAY_API_SERVER_ADDRESS, or on this machine."""
    address = (address or os.environ.get("RAY_API_SERVER_ADDRESS") or DEFAULT_ADDRESS).rstrip("/")
    address = address if "://" in address else f"http://{address}"
    if not address.startswith(("http://", "https://")):
        raise UserError(
            f"{address} is no address of a job server: that is where the dashboard is, such as {DEFAULT_ADDRESS}."
        )
    headers = _authorisation(address)
    _get(address, "/api/version", headers)
    logging.getLogger("ray").setLevel(logging.WARNING)  # it logs every package it uploads
    return Connection(address, headers, _call(lambda: JobSubmissionClient(address, headers=dict(headers)), address))


def _authorisation(address: str) -> dict[str, str]:
    mode = _get(address, "/api/authentication_mode", {}).get("authentication_mode", "disabled")
    if mode == "disabled":
        return {}
    token = _token()
    if not token:
        raise UserError(
            f"The cluster at {address} asks for a token and there is none here. Put it (`ray get-auth-token` "
            f"prints it there) into ~/.ray/auth_token, or set RAY_AUTH_TOKEN_PATH to a file with it."
        )
    return {"Authorization": f"Bearer {token}"}


def _token() -> str:
    """Where Ray looks for it, in Ray's order."""
    if os.environ.get("RAY_AUTH_TOKEN"):
        return os.environ["RAY_AUTH_TOKEN"]
    file = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _get(address: str, path: str, headers: dict[str, str]) -> dict[str, Any]:
    request = urllib.request.Request(address + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise UserError(
                f"The cluster at {address} does not accept this token. Is it the token of that cluster?"
            ) from None
        raise UserError(f"{address} answered {path} with status {error.code}: is that a Ray dashboard?") from error
    except ValueError as error:
        raise UserError(f"What answers at {address} is not a Ray dashboard.") from error
    except OSError as error:
        why = getattr(error, "reason", error)
        raise UserError(f"No Ray cluster answers at {address} ({why}). Is it up, and is its port forwarded?") from error


def _call(act: Callable[[], T], address: str, job: str = "") -> T:
    """Call Ray; its errors become UserErrors, none of which repeats a header."""
    try:
        return act()
    except AuthenticationError:
        raise UserError(
            f"The cluster at {address} does not accept this token. Is it the token of that cluster?"
        ) from None
    except ConnectionError as error:
        raise UserError(f"The cluster at {address} no longer answers. Is it up, and is its port forwarded?") from error
    except RuntimeError as error:
        if "does not exist" in str(error) and job:
            raise UserError(f"There is no job {job} on {address}; `attn jobs` lists them.") from None
        last = [line for line in str(error).splitlines() if any(letter.isalpha() for letter in line)][-1:]
        raise UserError(f"The cluster at {address} refused: {''.join(last).strip(' .')}.") from error


# --- checks before submitting ------------------------------------------------------------------------------------


def cluster_facts(connection: Connection) -> ClusterFacts:
    """Versions, nodes and autoscaling of the cluster, from its dashboard."""

    def get(path: str) -> Any:
        return _get(connection.address, path, connection.headers)["data"]

    metadata, listed = get("/api/v0/cluster_metadata"), get("/api/v0/nodes?detail=1&limit=10000")["result"]["result"]
    nodes = tuple(
        Node(
            id=node["node_id"],
            ip=node["node_ip"],
            is_head=bool(node["is_head_node"]),
            resources={name: float(amount) for name, amount in node["resources_total"].items()},
        )
        for node in listed
        if node["state"] == "ALIVE"
    )
    head = next((node.id for node in nodes if node.is_head), "")
    return ClusterFacts(
        address=connection.address,
        ray=metadata["rayVersion"],
        python=metadata["pythonVersion"],
        nodes=nodes,
        autoscales=_autoscales(get("/api/cluster_status")),
        interpreter=interpreter_of((get(f"/nodes/{head}")["detail"].get("cmdline") or []) if head else []),
    )


def _autoscales(status: Any) -> bool:
    """A cluster without an autoscaler names the type of each node after the node itself."""
    report = (status.get("clusterStatus") or {}).get("autoscalerReport") or {}
    types = report.get("nodeTypeMapping") or {}
    return any(kind != f"node_{node}" for node, kind in types.items())


def examine(connection: Connection, submission: Submission, *, preflight: bool = True) -> list[Finding]:
    """All checks of a cluster against a submission. `preflight` runs a short job there that checks every node."""
    refuse_secrets(submission)
    facts = cluster_facts(connection)
    access = "with a token" if connection.headers else "and asks for no token: anyone who reaches it can run code there"
    findings = [
        Finding("ok" if connection.headers else "warning", "cluster", f"{connection.address} answers, {access}")
    ]
    findings += check_cluster(submission, facts, ray=ray.__version__, python=platform.python_version())
    if preflight and not any(finding.level == "error" for finding in findings):
        findings += _preflight(connection, submission, facts)
    return findings


def require_no_error(findings: Iterable[Finding]) -> None:
    """Refuse with every reason at once."""
    reasons = [f"{finding.what}: {finding.sentence}" for finding in findings if finding.level == "error"]
    if reasons:
        raise UserError("The cluster cannot run this. " + "; ".join(reasons) + ".")


def _preflight(connection: Connection, submission: Submission, facts: ClusterFacts) -> Iterator[Finding]:
    job = f"attn-preflight-{os.getpid()}-{time.time_ns():x}"
    command = shlex.join(
        [facts.interpreter, "-m", "jobs.cluster.submit.preflight", submission.workspace, submission.tracking or ""]
    )
    _send(connection, submission, job, command, {"attn.preflight": submission.recipe})
    _wait(connection, job, PREFLIGHT_TIMEOUT_S)
    text = connection.client.get_job_logs(job)
    reports = [line.removeprefix(MARK) for line in text.splitlines() if line.startswith(MARK)]
    if not reports:
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "it printed nothing")
        yield Finding("error", "code", f"our code does not start there: {last.strip()}")
        return
    report = json.loads(reports[-1])
    if report["missing"]:
        yield Finding("error", "code", f"the nodes lack {', '.join(report['missing'])}: use the image (infra/docker)")
        return
    yield Finding("ok", "code", f"starts on the cluster, Python {report['python']}")
    for what, key, address in (
        ("workspace", "workspace", submission.workspace),
        ("MLflow", "tracking", submission.tracking),
    ):
        trouble = [f"{node['node']}: {node[key]}" for node in report["nodes"] if node[key]]
        if trouble:
            yield Finding("error", what, f"{address} cannot be used from {'; '.join(trouble[:3])}")
        elif address:
            yield Finding("ok", what, f"{address} is there for all {len(report['nodes'])} nodes")


def _wait(connection: Connection, job: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not find(connection, job).is_over:
        if time.monotonic() > until:
            stop(connection, job)
            raise UserError(f"The cluster did not start a job within {seconds:g} s: is it busy, or waiting for nodes?")
        time.sleep(0.5)


# --- jobs --------------------------------------------------------------------------------------------------------


def submit(connection: Connection, submission: Submission) -> tuple[SubmittedJob, bool]:
    """Start a job, or find the same one running already. Returns the job and whether this call started it."""
    refuse_secrets(submission)
    known = listing(connection)
    same = find_running(submission, known)
    if same:
        return same, False
    job, facts = next_id(submission, known), cluster_facts(connection)
    try:
        _send(connection, submission, job, entrypoint(submission, facts.interpreter), submission.metadata)
    except UserError as error:
        if "already exists" not in str(error):
            raise
        return find(connection, job), False  # submitted by another client since we listed the jobs
    return find(connection, job), True


def _send(connection: Connection, submission: Submission, job: str, command: str, metadata: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix="attn-") as bundle:
        fill_bundle(Path(bundle), submission.carried)
        runtime = {"working_dir": bundle, "env_vars": submission.environment}
        _call(
            lambda: connection.client.submit_job(
                entrypoint=command,
                submission_id=job,
                runtime_env=runtime,
                metadata=metadata,
                entrypoint_num_cpus=submission.driver_cpus or None,
            ),
            connection.address,
        )


def listing(connection: Connection) -> list[SubmittedJob]:
    """Our jobs on the cluster, newest first."""
    found = [job_from(details) for details in _call(connection.client.list_jobs, connection.address)]
    return sorted((job for job in found if job.recipe), key=lambda job: job.started or 0.0, reverse=True)


def find(connection: Connection, job: str) -> SubmittedJob:
    """The job with that id, whoever submitted it."""
    return job_from(_call(lambda: connection.client.get_job_info(job), connection.address, job))


def find_own(connection: Connection, name: str, user: str, workspace: str | None = None) -> SubmittedJob:
    """The job with that id, or the user's newest of the recipe with that name (in that workspace, if one is given)."""
    return newest_of(name, listing(connection), user, workspace) or find(connection, name)


def stop(connection: Connection, job: str) -> bool:
    """Ask it to stop; False if it was over already. What it finished stays; the same submission carries on."""
    return bool(_call(lambda: connection.client.stop_job(job), connection.address, job))


def log_lines(connection: Connection, job: str, *, follow: bool = False) -> Iterator[str]:
    """The lines of a job's log; with `follow`, until the job is over, through lost connections."""
    if not follow:
        text = _call(lambda: connection.client.get_job_logs(job), connection.address, job)
        yield from without_ray_lines(whole_lines([text]))
    else:
        yield from without_ray_lines(whole_lines(_chunks(connection, job)))


def _chunks(connection: Connection, job: str, tries: int = 10) -> Iterator[str]:
    """The log as it grows. A new connection begins at the beginning again: what was seen is passed over."""
    find(connection, job)
    seen, failures = 0, 0
    while True:
        at = 0
        try:
            for chunk in _tail(connection, job):
                fresh = chunk[max(0, seen - at) :]
                at += len(chunk)
                seen, failures = max(seen, at), 0
                if fresh:
                    yield fresh
            if find(connection, job).is_over:
                return
        except (RuntimeError, OSError, aiohttp.ClientError, UserError) as error:
            failures += 1
            if failures == tries:
                raise UserError(f"The log of {job} cannot be followed any more: {error} The job goes on.") from error
        time.sleep(min(10.0, 0.5 * 2**failures))


def _tail(connection: Connection, job: str) -> Iterator[str]:
    """Ray's asynchronous log, as an ordinary iterator."""
    log = connection.client.tail_job_logs(job)

    async def next_chunk() -> str | None:
        return await anext(log, None)

    with asyncio.Runner() as runner:
        try:
            while (chunk := runner.run(next_chunk())) is not None:
                yield chunk
        finally:
            with contextlib.suppress(RuntimeError):  # interrupted in the middle: the runner ends what is left
                runner.run(log.aclose())
