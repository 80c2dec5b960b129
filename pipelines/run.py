"""`attn run`: follow the plan of a recipe, show how it goes, and end with what was found and what to try next."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console

from jobs import cluster
from jobs.artifacts import Artifact
from jobs.profiles import load_profile
from pipelines import ask, ending
from pipelines.graph import Plan, plan
from pipelines.quiet import log_file, output_to
from pipelines.recipes import Recipe
from pipelines.runner import Outcome, Runner
from pipelines.screen import RunScreen, duration
from pipelines.tracking import Tracker, shown, tracking_uri
from pipelines.workspace import Workspace


def run(asked: argparse.Namespace) -> int:
    recipe, targets = ask.targets(asked)
    on = load_profile(asked.on)
    workspace = Workspace(asked.workspace)
    workspace.check_writable()
    planned = plan(targets, workspace)
    log = log_file(workspace.local_directory("logs"), recipe.name)
    signal.signal(signal.SIGTERM, _interrupt)
    with output_to(log) as console:
        began = time.time()
        _greet(console, recipe, planned, workspace)
        tracker: Tracker | None = None
        try:
            if planned.to_do:
                with console.status("Starting Ray"):
                    cluster.connect(asked.address)
            tracker = _tracker(workspace, recipe)
            have = cluster.totals() if planned.to_do else {}
            with RunScreen(console, planned) as screen:
                outcome = Runner(workspace, on, tracker, screen, have).run(planned)
            if lost := tracker.close("FAILED" if outcome.failures else "FINISHED"):
                console.print(f"{lost} writes to MLflow were lost: {shown(tracker.uri)} did not take them.")
        except KeyboardInterrupt:
            _stopped(console, tracker)
        return _end(console, recipe, targets[-1].stage, outcome, workspace, log, time.time() - began)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _greet(console: Console, recipe: Recipe, planned: Plan, workspace: Workspace) -> None:
    done = len(planned.steps) - len(planned.to_do)
    console.print(f"[bold]{recipe.summary}[/]")
    console.print(f"{len(planned.steps)} steps, {done} done already, in {workspace.uri}")


def _tracker(workspace: Workspace, recipe: Recipe) -> Tracker:
    uri = tracking_uri(workspace)
    artifacts = workspace.local_directory("mlflow") / "artifacts" if uri.startswith("sqlite:") else None
    command = "attn " + " ".join(shlex.quote(word) for word in sys.argv[1:])
    return Tracker(uri, recipe.name, artifacts=artifacts, command=command)


def _stopped(console: Console, tracker: Tracker | None) -> NoReturn:
    """Ctrl-C: say that nothing is lost, close the books, and leave at once, whatever the threads are waiting for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    console.print("\nStopped. Nothing is lost: the same command carries on from here.")
    if tracker is not None:
        tracker.close("KILLED")
    cluster.leave()
    os._exit(130)


def _end(
    console: Console, recipe: Recipe, last: str, outcome: Outcome, workspace: Workspace, log: Path, seconds: float
) -> int:
    if outcome.failures:
        console.print()
        for key, sentence in outcome.failures.items():
            console.print(f"[red]{key.partition('/')[0]} failed:[/] {sentence}", soft_wrap=True, markup=True)
        console.print(f"Everything that was printed along the way is in {log}", soft_wrap=True)
        return 2 if all(_is_sentence(text) for text in outcome.failures.values()) else 1
    made = len(outcome.made)
    console.print(f"\n{made} steps made, {len(outcome.records) - made} found done, in {duration(seconds)}.")
    reports = [key for key in outcome.records if key.startswith("report/")]
    if last == "report" and reports:
        ending.show(console, recipe, outcome, workspace, Artifact(workspace.root.at(reports[-1])))
    return 0


def _is_sentence(text: str) -> bool:
    """Did we write it for the user, or is it a surprise?"""
    return not text.partition(":")[0].endswith(("Error", "Exception"))
