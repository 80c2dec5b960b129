"""The live table is readable at 80 columns and fuller at 130: which step, which row, how far, how much time is left."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console
from step_job import StepConfig, stage

from jobs.events import Progress
from pipelines.steps.plan import Plan, PlannedStep
from pipelines.steps.step import Step
from pipelines.terminal.live_table import RunScreen
from pipelines.terminal.step_events import StepEvent
from pipelines.terminal.step_lines import MANY


def steps(count: int) -> list[Step]:
    return [Step(stage=stage("train"), config=StepConfig(value=n), label=f"C/d=1024@seed{n}") for n in range(count)]


def screen_of(count: int, width: int) -> tuple[RunScreen, list[Step]]:
    made = steps(count)
    plan = Plan([PlannedStep(step, "to do", "never made") for step in made])
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    return RunScreen(console, plan, costs={step.key: 100.0 for step in made}), made


def report(screen: RunScreen, step: Step, ago: float, state: str = "running", done: float | None = None) -> None:
    progress = None if done is None else Progress(done, 100_000, "updates", "loss 3.21, 1,234 tokens/s, epoch 4")
    event = StepEvent(key=step.key, name=step.name, time=time.time() - ago, state=state, progress=progress)
    assert screen.receive(event)


def drawn(screen: RunScreen) -> list[str]:
    screen.console.print(screen.render())
    return screen.console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("width", [80, 130])
def test_it_says_which_row_how_far_and_how_long(width: int) -> None:
    screen, made = screen_of(3, width)
    report(screen, made[0], 100, "running")
    report(screen, made[0], 50, done=10_000)
    report(screen, made[0], 0, done=60_000)
    lines = drawn(screen)
    assert max(len(line.rstrip()) for line in lines) <= width
    line = next(line for line in lines if line.startswith(made[0].name))
    assert "60,000 of 100,000" in line
    assert "40 s left" in line
    assert ("60%" in line) == (width == 80)
    assert ("updates/s" in line) == ("loss 3.21" in line) == (width == 130)
    assert sum(line.startswith("train ") for line in lines) == 3


def test_the_time_left_of_the_whole_goes_by_what_is_done_of_all_steps() -> None:
    screen, made = screen_of(4, 80)
    screen.work = type(screen.work)(screen.work.costs, time.time() - 60)
    assert drawn(screen)[-1].startswith("0 of 4 steps done, 1:00 min so far"), "nothing is known yet"
    assert "left" not in drawn(screen)[-1]
    report(screen, made[0], 60, "running")
    report(screen, made[0], 30, "done")
    report(screen, made[1], 30, "running")
    report(screen, made[1], 0, done=50_000)
    last = drawn(screen)[-1]
    assert last.startswith("1 of 4 steps done")
    assert "about 1:40 min left" in last, "1.5 of 4 in a minute"


def test_of_many_steps_those_under_way_are_shown() -> None:
    screen, made = screen_of(MANY + 40, 80)
    report(screen, made[5], 10)
    lines = drawn(screen)
    assert [line.split()[1] for line in lines if line.startswith("train ")] == ["C/d=1024@seed5"]
    assert f"0 of {MANY + 40} steps done" in lines[-1]
