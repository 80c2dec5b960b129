"""`attn submit`, `jobs`, `logs`, `stop`, `status`: the same run, as a job on a Ray cluster."""

from __future__ import annotations

import argparse
import getpass
import hashlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from jobs import submit as server
from jobs.errors import UserError
from jobs.profiles import load_profile
from jobs.submission import Finding, Submission, SubmittedJob
from pipelines import ask
from pipelines.fingerprint import LENGTH
from pipelines.follow import follow_lines
from pipelines.graph import Plan, plan
from pipelines.provenance import commit
from pipelines.screen import duration
from pipelines.show import say_json
from pipelines.step import Step
from pipelines.tracking import tracking_uri
from pipelines.workspace import Workspace

MARKS = {"ok": "[green]ok[/]  ", "but": "[yellow]but[/] ", "no": "[red]no[/]  "}


def submit(asked: argparse.Namespace) -> int:
    recipe, targets = ask.targets(asked)
    workspace = Workspace(asked.workspace)
    submission = submission_of(asked, recipe.name, question(targets), workspace)
    connection = server.connect(asked.address)
    console = Console(highlight=False)
    with console.status("Looking at the cluster"):
        findings = server.examine(connection, submission)
    _say(console, (finding for finding in findings if finding.level != "ok"))
    server.require(findings)
    job, started = server.submit(connection, submission)
    console.print(f"{'Submitted' if started else 'Already under way'}: {job.id}", soft_wrap=True)
    if not asked.follow:
        console.print(f"Watch it with: attn logs {job.id} --address {connection.address} --follow", soft_wrap=True)
        return 0
    return watch(connection, job, console, _plan_or_none(targets, workspace))


def question(targets: Sequence[Step]) -> str:
    """What is asked for, named as a result is: two who ask for the same thing meet."""
    if len(targets) == 1:
        return targets[0].fingerprint
    return hashlib.sha256(" ".join(step.key for step in targets).encode()).hexdigest()[:LENGTH]


def submission_of(asked: argparse.Namespace, recipe: str, fingerprint: str, workspace: Workspace) -> Submission:
    """The words that were typed, less those that are about submitting, as the words of a run on the cluster."""
    words = [recipe, "--on", asked.on, "--workspace", workspace.uri]
    for change in asked.changes:
        words += ["--set", change]
    for option in ("rows", "rows_from", "until"):
        if getattr(asked, option):
            words += [f"--{option.replace('_', '-')}", str(getattr(asked, option))]
    if asked.seeds > 1:
        words += ["--seeds", str(asked.seeds)]
    tracking = tracking_uri(workspace)
    return Submission(
        recipe=recipe,
        fingerprint=fingerprint,
        arguments=tuple(words),
        profile=load_profile(asked.on),
        workspace=workspace.uri,
        tracking=None if tracking.startswith("sqlite:") else tracking,
        commit=commit(),
        user=getpass.getuser(),
        carried=tuple(path for path in (asked.rows_from, asked.on) if path and Path(path).is_file()),
    )


def _plan_or_none(targets: list[Step], workspace: Workspace) -> Plan | None:
    """The steps to show. A workspace that only the cluster can reach is no reason not to watch."""
    try:
        return plan(targets, workspace)
    except (UserError, OSError):
        return None


def watch(connection: server.Connection, job: SubmittedJob, console: Console, steps: Plan | None) -> int:
    """Until the job is over; Ctrl-C ends the watching, not the job."""
    try:
        follow_lines(server.log_lines(connection, job.id, follow=True), console, steps)
    except KeyboardInterrupt:
        console.print(f"\nThe job goes on. attn logs {job.id} --follow watches again, attn stop {job.id} stops it.")
        return 130
    ended = server.find(connection, job.id)
    console.print(f"{ended.id}: {ended.status}")
    return 0 if ended.status == "done" else 1


def jobs(asked: argparse.Namespace) -> int:
    found = server.listing(server.connect(asked.address))
    if asked.json:
        say_json([asdict(job) for job in found])
        return 0
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("job", "recipe", "status", "user", "profile", "started (UTC)", "took"):
        table.add_column(name, no_wrap=True)
    for job in found:
        started = f"{datetime.fromtimestamp(job.started, UTC):%Y-%m-%d %H:%M}" if job.started else ""
        took = duration(job.ended - job.started) if job.started and job.ended else ""
        table.add_row(job.id, job.recipe, job.status, job.user, job.profile, started, took)
    Console(highlight=False).print(table if found else "No recipe was submitted to this cluster yet.")
    return 0


def logs(asked: argparse.Namespace) -> int:
    connection = server.connect(asked.address)
    job = server.find(connection, asked.job)
    if asked.follow:
        return watch(connection, job, Console(highlight=False), None)
    for line in server.log_lines(connection, job.id):
        print(line)
    return 0


def stop(asked: argparse.Namespace) -> int:
    connection = server.connect(asked.address)
    job = server.find(connection, asked.job)
    if server.stop(connection, job.id):
        print(f"{job.id} is being stopped. What it finished stays; submitting it again carries on.")
    else:
        print(f"{job.id} was {job.status} already.")
    return 0


def status(asked: argparse.Namespace) -> int:
    job = server.find(server.connect(asked.address), asked.job)
    if asked.json:
        say_json(asdict(job))
        return 0
    print(f"{job.id}: {job.status}{f', {job.message}' if job.message and job.status == 'failed' else ''}")
    return 0 if job.status in ("done", "running", "waiting") else 1


def examine(asked: argparse.Namespace, recipe: str, workspace: Workspace) -> list[Finding]:
    """For `attn doctor --address http://...`: what a submission to this cluster would be told."""
    submission = Submission(
        recipe=recipe,
        fingerprint="",
        arguments=(recipe,),
        profile=load_profile(asked.on),
        workspace=workspace.uri,
        tracking=None if tracking_uri(workspace).startswith("sqlite:") else tracking_uri(workspace),
    )
    return server.examine(server.connect(asked.address), submission)


def _say(console: Console, findings: Iterable[Finding]) -> None:
    for finding in findings:
        console.print(f"{MARKS[finding.level]}{finding.what:<12} {finding.sentence}", soft_wrap=True)
    sys.stdout.flush()
