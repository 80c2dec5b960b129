"""A job's log as the live table of a local run: the plain lines that a run prints are read back, one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from jobs.events import Progress
from pipelines.steps.plan import Plan
from pipelines.steps.step import Step
from pipelines.terminal.live_table import RunScreen

LINE = re.compile(r"^\d\d:\d\d:\d\d {2}(?P<rest>.*)$")
STATES = {"started": "running", "found done": "found", "done in ": "done", "failed: ": "failed", "skipped: ": "skipped",
          "waits: ": "waiting"}  # fmt: skip
AMOUNT = re.compile(r"^(?P<done>[\d,.]+)(?: of (?P<total>[\d,.]+))? (?P<unit>[a-z-]+)(?:, (?P<detail>.*))?$")


def follow_lines(lines: Iterable[str], console: Console, plan: Plan | None) -> None:
    """Show a log until it ends: as a table on a terminal where the steps are known, else line by line."""
    if plan is None or not console.is_terminal:
        for line in lines:
            console.print(Text(line), soft_wrap=True)
        return
    after: list[str] = []
    with RunScreen(console, plan) as screen:
        steps = {planned.step.name: planned.step for planned in plan.steps}
        for line in lines:
            if not told(screen, steps, line):
                after.append(line)
    for line in after:
        console.print(Text(line), soft_wrap=True)


def told(screen: RunScreen, steps: dict[str, Step], line: str) -> bool:
    """Tell the screen what a line says; False if it is not about a step."""
    found = LINE.match(line)
    if not found:
        return False
    named = [name for name in steps if found["rest"].startswith(f"{name} ")]
    if not named:
        return False
    step = steps[max(named, key=len)]
    text = found["rest"][len(step.name) :].strip()
    for opening, state in STATES.items():
        if text.startswith(opening):
            screen.told(step, state, text.removeprefix(opening) if opening.endswith(": ") else text)
            return True
    amount = AMOUNT.match(text)
    if amount:
        total = amount["total"]
        screen.event(step, Progress(number(amount["done"]), number(total) if total else None, amount["unit"]))
    else:
        screen.told(step, "running", text)
    return True


def number(text: str) -> float:
    return float(text.replace(",", ""))
