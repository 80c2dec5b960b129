"""A log read back is the table of a local run: what a run prints, a follower understands."""

from __future__ import annotations

import io

from rich.console import Console
from step_job import StepConfig, stage

from jobs.events import Progress
from pipelines.steps.plan import Plan, PlannedStep
from pipelines.steps.step import Step
from pipelines.terminal.live_table import RunScreen
from pipelines.terminal.remote_log import follow_lines, told

ONE = Step(stage=stage("train"), config=StepConfig(), label="A/h=1")
TWO = Step(stage=stage("train"), config=StepConfig(value=2), label="A/h=16")
LONG = Step(stage=stage("translate"), config=StepConfig(value=3), label="a label longer than its column")
PLAN = Plan([PlannedStep(step, "to do", "never made") for step in (ONE, TWO, LONG)])
RECORD = {"facts": {"bleu": 31.44}, "made": {"seconds": 75.0}}


def said_by_a_run() -> list[str]:
    text = io.StringIO()
    screen = RunScreen(Console(file=text, width=200), PLAN)
    for step in (ONE, TWO, LONG):
        screen.started(step)
    screen.lines[ONE.key].began = screen.lines[ONE.key].said = 0.0
    screen.event(ONE, Progress(1_200, 4_000, "updates", "loss 3.2"))
    screen.finished(ONE, RECORD)
    screen.failed(TWO, "The disk is full.")
    screen.skipped(LONG, TWO)
    return text.getvalue().splitlines()


def test_what_a_run_prints_a_follower_understands() -> None:
    watching = RunScreen(Console(file=io.StringIO()), PLAN)
    steps = {step.name: step for step in (ONE, TWO, LONG)}
    assert all(told(watching, steps, line) for line in said_by_a_run())
    assert [watching.lines[step.key].state for step in (ONE, TWO, LONG)] == ["done", "failed", "skipped"]
    assert "BLEU 31.4" in watching.lines[ONE.key].note
    assert watching.lines[TWO.key].note == "The disk is full."
    progress = watching.lines[ONE.key].progress
    assert progress is not None
    assert (progress.done, progress.total, progress.unit) == (1_200, 4_000, "updates")


def test_other_lines_are_shown_as_they_are() -> None:
    watching = RunScreen(Console(file=io.StringIO()), PLAN)
    assert not told(watching, {ONE.name: ONE}, "Report: somewhere")
    assert not told(watching, {ONE.name: ONE}, "12:00:00  something else")
    text = io.StringIO()
    follow_lines(["a [bold]line[/bold]", "12:00:00  train A/h=1        started"], Console(file=text), PLAN)
    assert text.getvalue() == "a [bold]line[/bold]\n12:00:00  train A/h=1        started\n"


def test_seconds_have_no_rate() -> None:
    text = io.StringIO()
    screen = RunScreen(Console(file=text, width=200), PLAN)
    screen.started(ONE)
    for amount in (Progress(1.0, None, "s", "learning"), Progress(11.0, None, "s", "learning")):
        screen.lines[ONE.key].began = screen.lines[ONE.key].said = 0.0
        screen.event(ONE, amount)
    assert text.getvalue().splitlines()[-1].endswith(" s, learning")
