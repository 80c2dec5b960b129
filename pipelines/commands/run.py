"""`attn run`: follow the plan of a recipe, show how it goes, and end with what was found and what to try next."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console
from rich.text import Text

from jobs.cluster.connect import capacity, connect, require_profile
from jobs.cluster.profiles import load_profile_to_run
from jobs.configs import Resources
from jobs.durations import duration
from jobs.errors import refuse_unknown
from jobs.passwords import hidden
from jobs.report.stage import REPORT
from jobs.stage import Demand
from jobs.storage.artifacts import RECORD
from pipelines.execution.provenance import command_line
from pipelines.execution.runner import Outcome, Runner
from pipelines.execution.workspace import Workspace
from pipelines.recipes import from_arguments, saved
from pipelines.recipes.recipes import Recipe
from pipelines.steps.estimate import estimate, how_far_off
from pipelines.steps.plan import Plan, in_order, plan
from pipelines.steps.stages import rows_of
from pipelines.steps.step import Step
from pipelines.terminal import interrupt, run_summary
from pipelines.terminal.live_table import RunScreen
from pipelines.terminal.redirect_output import log_file, output_to, prints_everything
from pipelines.tracking.server import require_answer, require_kept, tracking_uri
from pipelines.tracking.writer import Tracker

CHECKPOINT = re.compile(r"/update-(\d+)/state\.json$")  # its last file (transformer/checkpoint.py)


def run(args: argparse.Namespace) -> int:
    recipe, targets = from_arguments.targets(args)
    return follow(args, name=recipe.name, summary=recipe.summary, targets=targets, recipe=recipe)


def follow(
    args: argparse.Namespace,
    *,
    name: str,
    summary: str,
    targets: Sequence[Step],
    recipe: Recipe | None = None,
    ending: Callable[[Console, Workspace], None] | None = None,
) -> int:
    """Make these steps as the arguments say where, tracked under `name`; `ending` is shown when all went well."""
    on = load_profile_to_run(args.on)
    workspace = Workspace(args.workspace)
    require_kept(workspace, untracked=args.untracked)
    workspace.check_writable()
    require_answer(tracking_uri(workspace))
    make_again(args.again, targets, workspace)
    planned = plan(targets, workspace)
    for each in planned.damaged:
        workspace.require_whole(each.step, each.record or {}, name)
    if recipe is not None:
        saved.keep(recipe, workspace)
    everything = prints_everything(args.address)
    log = None if everything else log_file(workspace.local_directory("logs"), name)
    signal.signal(signal.SIGTERM, _interrupt)
    with output_to(log) as console:
        began = time.time()
        _print_header(console, summary, planned, workspace)
        tracker: Tracker | None = None
        try:
            if planned.to_do:
                with doing(console, f"Joining Ray at {args.address}" if args.address else "Starting Ray"):
                    dashboard = connect(args.address, dashboard=args.dashboard, log_to_driver=everything)
                require_profile(on, demands([each.step for each in planned.to_do], on), capacity(on))
                if dashboard:
                    console.print(f"Ray's dashboard: {dashboard}")
            tracker = _tracker(workspace, name, on)
            have = capacity(on) if planned.to_do else {}
            costs = {each.step.key: cost.seconds for each in planned.to_do if (cost := estimate(each.step, on))}
            with RunScreen(console, planned, json_lines=args.events == "json", costs=costs) as screen:
                outcome = Runner(workspace, on, tracker, screen, have).run(planned)
            if lost := tracker.close("FAILED" if outcome.failures else "FINISHED"):
                console.print(f"{lost} writes to MLflow were lost: {hidden(tracker.uri)} did not take them.")
        except KeyboardInterrupt:
            _exit_interrupted(console, tracker, standing(planned, workspace))
        if outcome.failures:
            return _failed(console, outcome, log)
        _print_what_was_made(console, planned, outcome, on, time.time() - began)
        if ending is not None:
            ending(console, workspace)
        if recipe is not None and targets[-1].stage is REPORT:
            rows = rows_of(targets[-1])
            if len(rows) > 1:
                show_scores(console, recipe, [row.scores for row in rows], outcome)
            changed, report = bool(args.changes or args.rows), workspace.artifact(targets[-1])
            run_summary.show(console, recipe, changed, outcome, workspace, report, rows)
        return 0


def _print_what_was_made(console: Console, planned: Plan, outcome: Outcome, on: Resources, seconds: float) -> None:
    """How many steps, how long it took, and how far off the plan's estimate was."""
    made = [each.step for each in planned.to_do if each.step.key in outcome.made]
    found = len(outcome.records) - len(outcome.made)
    console.print(f"\n{len(outcome.made)} steps made, {found} found done, in {duration(seconds)}.")
    estimated, took = how_far_off(made, outcome.records, on)
    if estimated:  # there is no estimate for text of unknown size
        console.print(f"Steps added up: {duration(took)}; the plan had estimated {duration(estimated)}.")


def show_scores(console: Console, recipe: Recipe, scores: Sequence[Step], outcome: Outcome) -> None:
    """The table that the run made."""
    query, results = (importlib.import_module(f"pipelines.{name}") for name in ("tracking.query", "commands.results"))
    found = [query.result_of_step(recipe.name, step, outcome.records[step.key]) for step in scores]
    console.print()
    if recipe.table:
        results.show_table(found, recipe.table, "table", console)
    else:
        results.print_rows([results.listed(each) for each in found], "table", console)


@contextlib.contextmanager
def doing(console: Console, what: str) -> Iterator[None]:
    """What takes a while and reports nothing by itself: a spinner on a terminal; elsewhere a line before and after."""
    began = time.time()
    if console.is_terminal:
        with console.status(what):
            yield
        return
    console.print(f"{what} ...", highlight=False)
    yield
    console.print(f"{what}: done in {duration(time.time() - began)}", highlight=False)


def demands(steps: Sequence[Step], on: Resources) -> list[Demand]:
    """What training needs at once. Several trainings share the profile, so that one worker each is the least."""
    trainings = [step.stage for step in steps if step.stage.curve is not None]
    if len(trainings) == 1:
        return [trainings[0].demand(on)]
    return [stage.demand(stage.divide(on, 1)) for stage in trainings if stage.divide is not None]


def make_again(words: Sequence[str], targets: Sequence[Step], workspace: Workspace) -> None:
    """Forget the results that `--again` names, by their stage, their fingerprint, or both; the run makes them."""
    steps = in_order(targets)
    chosen = []
    for word in words:
        named = [step for step in steps if word in (step.stage.name, step.fingerprint, step.key)]
        if not named:
            refuse_unknown("stage", word, dict.fromkeys(step.stage.name for step in steps))
        chosen += named
    for step in dict.fromkeys(chosen):
        workspace.forget(step)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _print_header(console: Console, summary: str, planned: Plan, workspace: Workspace) -> None:
    done = len(planned.steps) - len(planned.to_do)
    console.print(f"[bold]{summary}[/]")
    console.print(f"{len(planned.steps)} steps, {done} done already, in {workspace.uri}")


def _tracker(workspace: Workspace, recipe: str, on: Resources) -> Tracker:
    uri = tracking_uri(workspace)
    artifacts = workspace.local_directory("mlflow") / "artifacts" if uri.startswith("sqlite:") else None
    command = command_line() or ""
    return Tracker(uri, recipe, artifacts=artifacts, command=command, profile=on.name, workspace=workspace)


def standing(planned: Plan, workspace: Workspace) -> list[str]:
    """From which update each unfinished training will go on: that of its last whole checkpoint."""
    sentences = []
    for step in [each.step for each in planned.to_do if each.step.stage.curve and workspace.is_local]:
        place = workspace.artifact(step)
        if not place.exists() or place.exists(RECORD):
            continue
        kept = [int(found[1]) for name in place.names() if (found := CHECKPOINT.search(name))]
        sentences.append(
            f"{step.name} will go on from update {max(kept):,}." if kept else f"{step.name} will start anew."
        )
    return sentences


def _exit_interrupted(console: Console, tracker: Tracker | None, standing: Sequence[str]) -> NoReturn:
    """Ctrl-C: print that nothing is lost, close the tracking, and exit at once, whatever the threads are waiting for.

    A Ray that was started here ends with this process; shutting it down under threads that use it would not end well.
    """
    interrupt.end_in_order()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    console.print("\nStopped. Nothing is lost: the same command carries on from here.")
    for sentence in standing:
        console.print(sentence, soft_wrap=True, markup=False)
    if tracker is not None:
        tracker.close("KILLED")
    os._exit(interrupt.INTERRUPTED)


def _failed(console: Console, outcome: Outcome, log: Path | None) -> int:
    console.print()
    for key, sentence in outcome.failures.items():
        console.print(Text(f"{key.partition('/')[0]} failed: {sentence}"), soft_wrap=True)
    if log is not None:
        console.print(f"Everything that was printed along the way is in {log}", soft_wrap=True)
    return 2 if all(_is_sentence(text) for text in outcome.failures.values()) else 1


def _is_sentence(text: str) -> bool:
    """Whether a failure is a UserError, and not the name of an exception with its message."""
    return not text.partition(":")[0].endswith(("Error", "Exception"))
