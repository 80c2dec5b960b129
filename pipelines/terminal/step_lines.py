"""The lines of the live table: how far each step is, and how they are drawn on a terminal of any width from 80 on.

Narrow: step, state, how far in per cent and figures, time. From 110 columns on also a bar and the rate.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from jobs.durations import duration
from jobs.events import Progress
from pipelines.steps.step import Step

MANY = 24  # with more steps than this, only those that are under way are shown
ROOMY = 110  # columns from which there is room for bars and rates
SURE = 0.02  # share of the work that must be done before anything is said of the time left
COLOURS = {"done": "green", "found": "green", "running": "cyan", "failed": "red", "skipped": "yellow"}


@dataclass
class Line:
    """One step as it is shown."""

    step: Step
    state: str = "to do"
    note: str = ""
    began: float = 0.0
    ended: float = 0.0
    progress: Progress | None = None
    first: tuple[float, float] | None = None  # time and amount of the first progress, to compute a rate from
    updated: float = 0.0  # time of the last progress
    printed: float = 0.0
    silent: float = 0.0  # seconds since the step last reported, where that is long ago

    def rate(self) -> float | None:
        if self.progress is None or self.first is None or self.progress.done <= self.first[1]:
            return None
        return (self.progress.done - self.first[1]) / max(1e-6, self.updated - self.first[0])

    def left(self) -> float | None:
        rate = self.rate()
        if rate is None or self.progress is None or self.progress.total is None:
            return None
        return max(0.0, self.progress.total - self.progress.done) / rate


def count(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 or amount == int(amount) else f"{amount:,.1f}"


def amount(line: Line, detail: bool = True) -> str:
    progress = line.progress
    if progress is None:
        return ""
    of = f" of {count(progress.total)}" if progress.total is not None else ""
    return f"{count(progress.done)}{of} {progress.unit}" + (
        f", {progress.detail}" if progress.detail and detail else ""
    )


def rate(line: Line) -> str:
    found = line.rate() if line.state == "running" else None
    if found is None or line.progress is None or line.progress.unit == "s":  # seconds pass at one speed
        return ""
    return f"{count(found)} {line.progress.unit}/s"


def pace(line: Line) -> str:
    left = line.left()
    return f"{rate(line)}, {duration(left)} left" if left is not None else rate(line)


def passed(line: Line) -> str:
    if line.state == "found":
        return "found"
    if line.state == "running":
        left = line.left()
        since = duration(time.time() - line.began)
        return f"{since}, {duration(left)} left" if left is not None else since
    return duration(line.ended - line.began) if line.ended and line.began else ""


def share(line: Line) -> float:
    """How much of a step is done."""
    if line.state in ("done", "found"):
        return 1.0
    if line.state != "running" or line.progress is None or not line.progress.total:
        return 0.0
    return min(1.0, line.progress.done / line.progress.total)


@dataclass(frozen=True)
class Work:
    """How much of everything is done, by what the plan estimated of each step that was to do, in seconds."""

    costs: Mapping[str, float]
    began: float

    def left(self, lines: Sequence[Line]) -> float | None:
        """Seconds, at the speed so far: that of this machine, with as many steps at once as there were."""
        whole = sum(self.costs.values())
        done = sum(self.costs.get(line.step.key, 0.0) * share(line) for line in lines)
        if not whole or done < SURE * whole:
            return None
        return (time.time() - self.began) * (whole - done) / done


@dataclass(frozen=True)
class RunTable:
    """All lines, or of many those that matter now, above a line about the whole."""

    lines: Sequence[Line]
    work: Work

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= ROOMY
        shown = self.lines
        if len(shown) > MANY:
            shown = [line for line in shown if line.state in ("running", "failed")]
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        least = max([len("step"), *(len(line.step.name) for line in shown)])
        table.add_column("step", style="bold", no_wrap=True, min_width=least)
        table.add_column("state", no_wrap=True, min_width=7)
        if wide:
            table.add_column("progress", no_wrap=True)
        table.add_column("" if wide else "progress")  # the one that gives way
        if wide:
            table.add_column("rate", no_wrap=True)
        table.add_column("time", no_wrap=True)
        for line in shown:
            table.add_row(*(wide_row(line) if wide else narrow_row(line)))
        yield Group(table, Text(self.whole(), style="dim"))

    def whole(self) -> str:
        done = sum(line.state in ("done", "found") for line in self.lines)
        left = self.work.left(self.lines)
        about = f", about {duration(left)} left" if left else ""
        return f"{done} of {len(self.lines)} steps done, {duration(time.time() - self.work.began)} so far{about}"


def state(line: Line) -> Text:
    return Text("done" if line.state == "found" else line.state, style=COLOURS.get(line.state, "dim"))


def middle(line: Line, text: str) -> Text:
    if line.silent and line.state == "running":
        return Text(f"no report for {duration(line.silent)}", style="yellow", no_wrap=True, overflow="ellipsis")
    return Text(text, no_wrap=True, overflow="ellipsis")


def narrow_row(line: Line) -> list[RenderableType]:
    progress = line.progress if line.state == "running" else None
    text = line.note
    if progress is not None:
        text = (f"{share(line):4.0%}  " if progress.total else "") + amount(line, detail=False)
    return [line.step.name, state(line), middle(line, text), Text(passed(line), style="dim")]


def wide_row(line: Line) -> list[RenderableType]:
    progress = line.progress if line.state == "running" else None
    bar: RenderableType = Text("")
    if progress is not None and progress.total is not None:
        bar = ProgressBar(total=progress.total, completed=progress.done, width=16)
    text = amount(line) if progress is not None else line.note
    return [line.step.name, state(line), bar, middle(line, text), Text(rate(line)), Text(passed(line), style="dim")]
