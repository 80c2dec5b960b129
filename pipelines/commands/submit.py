"""`attn submit`: the same run, as a job on a Ray cluster."""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from jobs.cluster.profiles import load_profile_to_run
from jobs.cluster.submit import client
from jobs.cluster.submit.submission import Finding, Submission, SubmittedJob
from jobs.errors import UserError
from jobs.passwords import VARIABLES, has_password
from pipelines.execution.provenance import commit, user
from pipelines.execution.workspace import Workspace
from pipelines.recipes import from_arguments, saved
from pipelines.steps.fingerprint import LENGTH
from pipelines.steps.plan import Plan, plan
from pipelines.steps.step import Step
from pipelines.terminal.findings import print_findings
from pipelines.terminal.remote_log import follow_lines
from pipelines.tracking.server import require_kept, tracking_uri


def submit(args: argparse.Namespace) -> int:
    recipe, targets = from_arguments.targets(args)
    refuse_passwords(args)
    workspace = Workspace(args.workspace)
    require_kept(workspace, untracked=args.untracked, elsewhere=True)
    saved.keep(recipe, workspace)
    submission = make_submission(args, recipe.name, target_fingerprint(targets), workspace)
    connection = client.connect(args.address)
    console = Console(highlight=False)
    with console.status("Looking at the cluster"):
        findings = client.examine(connection, submission)
    print_findings(console, (finding for finding in findings if finding.level != "ok"))
    client.require_no_error(findings)
    job, started = client.submit(connection, submission)
    console.print(f"{'Submitted' if started else 'Already under way'}: {job.id}", soft_wrap=True)
    if not args.follow:
        console.print(f"Watch it with: attn logs {job.id} --address {connection.address} --follow", soft_wrap=True)
        return 0
    return follow_job(connection, job, console, _plan_or_none(targets, workspace))


def refuse_passwords(args: argparse.Namespace) -> None:
    """What is taken out of an address here would be missing there."""
    for what, address, instead in (
        ("workspace", args.workspace or os.environ.get("ATTN_WORKSPACE", ""), VARIABLES["s3"]),
        ("MLflow address", os.environ.get("MLFLOW_TRACKING_URI", ""), VARIABLES["http"]),
    ):
        if has_password(address):
            raise UserError(
                f"The {what} has a secret in it, which every user of the cluster could read. Take it out of the "
                f"address and set {' and '.join(instead)} in the environment of the cluster's nodes."
            )


def target_fingerprint(targets: Sequence[Step]) -> str:
    """A name for the steps to reach: the same request has the same name, so that it is not run twice at once."""
    if len(targets) == 1:
        return targets[0].fingerprint
    return hashlib.sha256(" ".join(step.key for step in targets).encode()).hexdigest()[:LENGTH]


def make_submission(args: argparse.Namespace, recipe: str, fingerprint: str, workspace: Workspace) -> Submission:
    """The arguments of `attn submit` without those about submitting, as arguments of `attn run` on the cluster."""
    words = [args.recipe, "--on", args.on, "--workspace", workspace.uri]
    for change in args.changes:
        words += ["--set", change]
    for option in ("rows", "rows_from", "until"):
        if getattr(args, option):
            words += [f"--{option.replace('_', '-')}", str(getattr(args, option))]
    if args.seeds > 1:
        words += ["--seeds", str(args.seeds)]
    if args.untracked:
        words.append("--untracked")
    tracking = tracking_uri(workspace)
    return Submission(
        recipe=recipe,
        fingerprint=fingerprint,
        arguments=tuple(words),
        profile=load_profile_to_run(args.on),
        workspace=workspace.uri,
        tracking=None if tracking.startswith("sqlite:") else tracking,
        commit=commit(),
        user=user(),
        carried=tuple(path for path in (args.recipe, args.rows_from, args.on) if path and Path(path).is_file()),
    )


def _plan_or_none(targets: list[Step], workspace: Workspace) -> Plan | None:
    """The steps to show; None where only the cluster can reach the workspace."""
    try:
        return plan(targets, workspace)
    except (UserError, OSError):
        return None


def follow_job(connection: client.Connection, job: SubmittedJob, console: Console, steps: Plan | None) -> int:
    """Follow a job until it ends; Ctrl-C ends the following, not the job."""
    try:
        follow_lines(client.log_lines(connection, job.id, follow=True), console, steps)
    except KeyboardInterrupt:
        console.print(f"\nThe job goes on. attn logs {job.id} --follow watches again, attn stop {job.id} stops it.")
        return 130
    ended = client.find(connection, job.id)
    console.print(f"{ended.id}: {ended.status}")
    return 0 if ended.status == "done" else 1


def examine(args: argparse.Namespace, recipe: str, workspace: Workspace) -> list[Finding]:
    """For `attn doctor --address http://...`: the checks that a submission to this cluster would go through."""
    submission = Submission(
        recipe=recipe,
        fingerprint="",
        arguments=(recipe,),
        profile=load_profile_to_run(args.on),
        workspace=workspace.uri,
        tracking=None if tracking_uri(workspace).startswith("sqlite:") else tracking_uri(workspace),
    )
    return client.examine(client.connect(args.address), submission)
