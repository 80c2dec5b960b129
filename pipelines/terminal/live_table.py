"""What a run shows: a live table of steps on a terminal; elsewhere an event per line, as text or as JSON."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.live import Live

from jobs.durations import duration
from jobs.events import Event, Note, Progress
from pipelines.steps.plan import Plan, PlannedStep
from pipelines.steps.step import Step
from pipelines.terminal.step_events import StepEvent, json_line, text_line
from pipelines.terminal.step_lines import Line, RunTable, Work, amount, count, pace

PLAIN_EVERY_S = 10.0


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

    def __init__(
        self, console: Console, plan: Plan, *, json_lines: bool = False, costs: Mapping[str, float] | None = None
    ) -> None:
        """`costs` are the seconds that each step was estimated to take: from them comes the time left of the whole."""
        self.console = console
        self.work = Work(costs or {}, time.time())
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
            text = f"{amount(line)}, {pace(line)}".strip(", ")
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

    def render(self) -> RunTable:
        with self.lock:
            return RunTable([replace(line) for line in self.lines.values()], self.work)
