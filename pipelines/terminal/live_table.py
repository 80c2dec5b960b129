"""What a run shows: a live table of steps on a terminal; elsewhere an event per line, as text or as JSON."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from jobs.durations import duration
from jobs.events import Event, Note, Progress
from pipelines.steps.plan import Plan, PlannedStep
from pipelines.steps.step import Step
from pipelines.terminal.step_events import StepEvent, json_line, text_line

MANY = 24  # with more steps than this, only those that are under way are shown
PLAIN_EVERY_S = 10.0
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


def headline(record: Mapping[str, Any]) -> str:
    """The most important figure of a result."""
    facts = record["facts"]
    if "bleu" in facts:
        return f"BLEU {facts['bleu']:.1f}"
    if "f1" in facts:
        return f"F1 {facts['f1']:.1f}"
    if verdicts := [value for name, value in facts.items() if name.startswith("verdict_")]:
        return f"{verdicts.count('holds')} of {len(verdicts)} claims hold"
    if "dev_perplexity" in facts:
        return f"{count(facts.get('parameters', 0))} parameters, dev perplexity {facts['dev_perplexity']:.2f}"
    for name in ("sentences", "micro_batches", "pairs", "size", "parameters", "checkpoints"):
        if isinstance(facts.get(name), int | float):
            return f"{count(facts[name])} {name.replace('_', '-')}"
    return ""


class RunScreen:
    """The runner reports to it from several threads; it draws itself a few times a second."""

    def __init__(self, console: Console, plan: Plan, *, json_lines: bool = False) -> None:
        self.console = console
        self.lines = {planned.step.key: Line(planned.step) for planned in plan.steps}
        self.lock = threading.Lock()
        self.live: Live | None = None
        self.json_lines = json_lines

    def __enter__(self) -> RunScreen:
        if self.console.is_terminal and not self.json_lines:
            self.live = Live(
                get_renderable=self.render, console=self.console, refresh_per_second=4, redirect_stdout=False,
                redirect_stderr=False,
            )  # fmt: skip
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    # --- reports of the runner ------------------------------------------------------------------------------------

    def found(self, planned: PlannedStep) -> None:
        record = planned.record or {"facts": {}}
        self._report(planned.step, "found", "found done", headline(record))

    def started(self, step: Step) -> None:
        self._report(step, "running", "started")

    def waits(self, step: Step, why: str) -> None:
        self._report(step, "waiting", f"waits: {why}", why)

    def event(self, step: Step, event: Event) -> None:
        line = self.lines[step.key]
        if isinstance(event, Note):
            self._report(step, line.state, event.text, event.text)
        elif isinstance(event, Progress):
            self._progress(line, event)

    def silent(self, step: Step, seconds: float) -> None:
        line = self.lines[step.key]
        self._report(step, line.state, f"no report for {duration(seconds)}", line.note, silent=seconds)

    def finished(self, step: Step, record: Mapping[str, Any]) -> None:
        self._report(step, "done", f"done in {duration(record['made']['seconds'])}", headline(record))

    def failed(self, step: Step, sentence: str) -> None:
        self._report(step, "failed", f"failed: {sentence}", sentence)

    def skipped(self, step: Step, because: Step) -> None:
        self._report(step, "skipped", f"skipped: needs {because.name}", f"needs {because.name}")

    def _report(self, step: Step, state: str, text: str, note: str = "", *, silent: float = 0.0) -> None:
        whole = f"{text}, {note}" if note and note not in text and not silent else text
        event = StepEvent(
            key=step.key, name=step.name, time=time.time(), state=state, text=whole, note=note, silent=silent
        )
        self.receive(event)
        self._print(event)

    def _progress(self, line: Line, progress: Progress) -> None:
        """Always to the table; to the log every PLAIN_EVERY_S seconds."""
        event = StepEvent(
            key=line.step.key, name=line.step.name, time=time.time(), state=line.state, text="", progress=progress
        )
        self.receive(event)
        if event.time - max(line.printed, line.began) > PLAIN_EVERY_S:
            text = f"{self._amount(line)}, {self._pace(line)}".strip(", ")
            self._print(replace(event, text=text))

    def _print(self, event: StepEvent) -> None:
        if self.live is not None:
            return
        self.lines[event.key].printed = event.time
        self.console.out(json_line(event) if self.json_lines else text_line(event), highlight=False)

    def receive(self, event: StepEvent) -> bool:
        """Show an event of this run or of another one's log; False if it is about no step of this plan."""
        line = self.lines.get(event.key)
        if line is None:
            return False
        with self.lock:
            line.state, line.silent = event.state, event.silent
            if event.state == "running" and not line.began:
                line.began = event.time
            if event.state in ("done", "failed"):
                line.ended = event.time
            if event.progress is None:
                line.note = event.note
            else:
                if line.first is None or line.progress is None or event.progress.unit != line.progress.unit:
                    line.first = (event.time, event.progress.done)
                line.progress, line.updated = event.progress, event.time
        return True

    # --- drawing --------------------------------------------------------------------------------------------------

    def render(self) -> RenderableType:
        with self.lock:
            lines = list(self.lines.values())
            table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
            for name in ("step", "state", "progress", "", "rate", "time"):
                least = {"state": 7, "time": 18}.get(name)
                table.add_column(name, style="bold" if name == "step" else "", no_wrap=True, min_width=least)
            shown = lines if len(lines) <= MANY else [line for line in lines if line.state in ("running", "failed")]
            for line in shown:
                self._row(table, line)
            if len(shown) == len(lines):
                return table
            done = sum(line.state in ("done", "found") for line in lines)
            return Group(table, Text(f"{done} of {len(lines)} steps done", style="dim"))

    def _row(self, table: Table, line: Line) -> None:
        state = Text("done" if line.state == "found" else line.state, style=COLOURS.get(line.state, "dim"))
        progress = line.progress if line.state == "running" else None
        if progress is None or progress.total is None:
            bar: RenderableType = Text("")
        else:
            bar = ProgressBar(total=progress.total, completed=progress.done, width=24)
        middle = Text(self._amount(line) if progress else line.note, overflow="ellipsis")
        if line.silent and line.state == "running":
            middle = Text(f"no report for {duration(line.silent)}", style="yellow")
        table.add_row(line.step.name, state, bar, middle, Text(self._rate(line)), Text(self._time(line), style="dim"))

    def _amount(self, line: Line) -> str:
        progress = line.progress
        if progress is None:
            return ""
        of = f" of {count(progress.total)}" if progress.total is not None else ""
        return f"{count(progress.done)}{of} {progress.unit}" + (f", {progress.detail}" if progress.detail else "")

    def _rate(self, line: Line) -> str:
        rate = line.rate() if line.state == "running" else None
        if rate is None or line.progress is None or line.progress.unit == "s":  # seconds pass at one speed
            return ""
        return f"{count(rate)} {line.progress.unit}/s"

    def _pace(self, line: Line) -> str:
        left = line.left()
        return f"{self._rate(line)}, {duration(left)} left" if left is not None else self._rate(line)

    def _time(self, line: Line) -> str:
        if line.state == "found":
            return "found"
        if line.state == "running":
            left = line.left()
            passed = duration(time.time() - line.began)
            return f"{passed}, {duration(left)} left" if left is not None else passed
        return duration(line.ended - line.began) if line.ended and line.began else ""
