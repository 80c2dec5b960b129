"""A submitted job's log on this terminal: its events as the live table of a local run, its other lines as they are."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from pipelines.steps.plan import Plan
from pipelines.terminal.live_table import RunScreen
from pipelines.terminal.step_events import parse_line, readable


def follow_lines(lines: Iterable[str], console: Console, plan: Plan | None) -> None:
    """Show a log until it ends: as a table on a terminal where the steps are known, else line by line."""
    if plan is None or not console.is_terminal:
        for line in lines:
            console.print(Text(readable(line)), soft_wrap=True)
        return
    rest: list[str] = []
    with RunScreen(console, plan) as screen:
        for line in lines:
            event = parse_line(line)
            if event is None or not screen.receive(event):
                rest.append(line)
    for line in rest:
        console.print(Text(readable(line)), soft_wrap=True)
