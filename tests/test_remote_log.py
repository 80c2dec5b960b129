"""A log read back is the table of a local run: the events that a run prints are the events that a follower shows."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from step_job import StepConfig, stage

from jobs.events import Note, Progress
from pipelines.steps.plan import Plan, PlannedStep
from pipelines.steps.step import Step
from pipelines.terminal.live_table import Line, RunScreen
from pipelines.terminal.remote_log import follow_lines
from pipelines.terminal.step_events import parse_line, readable

ONE = Step(stage=stage("train"), config=StepConfig(), label="A/h=1")
TWO = Step(stage=stage("train"), config=StepConfig(value=2), label="A/h=16")
LONG = Step(stage=stage("translate"), config=StepConfig(value=3), label="a label longer than its column")
PLAN = Plan([PlannedStep(step, "to do", "never made") for step in (ONE, TWO, LONG)])
RECORD = {"facts": {"bleu": 31.44}, "made": {"seconds": 75.0}}


def a_run(*, json_lines: bool) -> tuple[RunScreen, list[str]]:
    """The screen of a run that is over, and what it printed."""
    text = io.StringIO()
    screen = RunScreen(Console(file=text, width=40), PLAN, json_lines=json_lines)
    for step in (ONE, TWO, LONG):
        screen.started(step)
    screen.event(TWO, Note("A note in\u2028two lines, [bold]as it is[/bold]"))
    screen.silent(TWO, 61.0)
    screen.lines[ONE.key].began = screen.lines[ONE.key].printed = 1.0
    screen.event(ONE, Progress(1_200, 4_000, "updates", "loss 3.2"))
    screen.finished(ONE, RECORD)
    screen.failed(TWO, "The disk is full.")
    screen.skipped(LONG, TWO)
    return screen, text.getvalue().removesuffix("\n").split("\n")


def shown(line: Line) -> tuple[str, str, float, Progress | None]:
    return line.state, line.note, line.silent, line.progress


def test_a_follower_shows_what_the_run_shows() -> None:
    run, printed = a_run(json_lines=True)
    watching = RunScreen(Console(file=io.StringIO()), PLAN)
    for line in printed:
        event = parse_line(line)
        assert event is not None
        assert watching.receive(event)
        assert watching.lines[event.key].silent == event.silent
    for step in (ONE, TWO, LONG):
        assert shown(watching.lines[step.key]) == shown(run.lines[step.key])
        assert watching.lines[step.key].ended == run.lines[step.key].ended
    assert any(event.silent == 61.0 for event in map(parse_line, printed) if event)
    assert [watching.lines[step.key].state for step in (ONE, TWO, LONG)] == ["done", "failed", "skipped"]
    assert watching.lines[ONE.key].progress == Progress(1_200, 4_000, "updates", "loss 3.2")


def test_an_event_is_one_line_of_json_and_reads_as_the_text_of_a_run() -> None:
    as_json, as_text = a_run(json_lines=True)[1], a_run(json_lines=False)[1]
    assert all(json.loads(line)["name"] for line in as_json)
    assert [readable(line).split("  ", 1)[1] for line in as_json] == [line.split("  ", 1)[1] for line in as_text]


@pytest.mark.parametrize(
    "line", ["Report: somewhere", "", '{"attn_step": "cut sh', '{"attn_step": "x", "new": 1}', "{}"]
)
def test_other_lines_are_shown_as_they_are(line: str) -> None:
    assert parse_line(line) is None
    assert readable(line) == line


def test_a_log_is_printed_line_by_line_where_there_is_no_terminal() -> None:
    text = io.StringIO()
    printed = a_run(json_lines=True)[1]
    follow_lines(["a [bold]line[/bold]", printed[0], "the end"], Console(file=text), PLAN)
    assert text.getvalue() == f"a [bold]line[/bold]\n{readable(printed[0])}\nthe end\n"


def test_on_a_terminal_the_events_are_a_table_and_the_rest_follows_it() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=120, color_system=None)
    follow_lines(["Greeting", *a_run(json_lines=True)[1], "0 found done"], console, PLAN)
    assert "attn_step" not in text.getvalue()
    assert "The disk is full." in text.getvalue()
    assert text.getvalue().endswith("Greeting\n0 found done\n")


def test_seconds_have_no_rate() -> None:
    text = io.StringIO()
    screen = RunScreen(Console(file=text, width=200), PLAN)
    screen.started(ONE)
    for amount in (Progress(1.0, None, "s", "learning"), Progress(11.0, None, "s", "learning")):
        screen.lines[ONE.key].began = screen.lines[ONE.key].printed = 1.0
        screen.event(ONE, amount)
    assert text.getvalue().splitlines()[-1].endswith(" s, learning")
