"""`attn jobs`, `logs`, `stop`, `status`: recipes that were submitted to a cluster."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from jobs.cluster.submit import client
from jobs.cluster.submit.submission import SubmittedJob
from jobs.durations import duration
from pipelines.commands.submit import follow_job
from pipelines.execution.provenance import user
from pipelines.execution.workspace import Workspace
from pipelines.terminal.json_output import print_json
from pipelines.terminal.step_events import readable


def jobs(args: argparse.Namespace) -> int:
    found = client.listing(client.connect(args.address))
    if args.json:
        print_json([asdict(job) for job in found])
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


def _job(args: argparse.Namespace) -> tuple[client.Connection, SubmittedJob]:
    """The job that is meant: by its id anybody's, by its recipe this user's."""
    connection = client.connect(args.address)
    chosen = args.workspace or os.environ.get("ATTN_WORKSPACE")
    workspace = Workspace(chosen).uri if chosen else None
    return connection, client.find_own(connection, args.job, user(), workspace)


def logs(args: argparse.Namespace) -> int:
    connection, job = _job(args)
    if args.follow:
        return follow_job(connection, job, Console(highlight=False), None)
    for line in client.log_lines(connection, job.id):
        print(readable(line))
    return 0


def stop(args: argparse.Namespace) -> int:
    connection, job = _job(args)
    if client.stop(connection, job.id):
        print(f"{job.id} is being stopped. What it finished stays; submitting it again carries on.")
    else:
        print(f"{job.id} was {job.status} already.")
    return 0


def status(args: argparse.Namespace) -> int:
    _, job = _job(args)
    if args.json:
        print_json(asdict(job))
        return 0
    print(f"{job.id}: {job.status}{f', {job.message}' if job.message and job.status == 'failed' else ''}")
    return 0 if job.status in ("done", "running", "waiting") else 1
