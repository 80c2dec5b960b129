"""`attn gc`: what takes how much room in the workspace, and what nothing needs; that is deleted if you say so."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from jobs.errors import UserError
from pipelines.execution.garbage import Found, Survey, remove, survey
from pipelines.execution.workspace import Workspace
from pipelines.recipes import lab
from pipelines.recipes.recipes import RECIPES
from pipelines.recipes.saved import find_recipe, kept
from pipelines.steps.step import Step
from pipelines.terminal.json_output import print_json


def gc(args: argparse.Namespace) -> int:
    workspace = Workspace(args.workspace)
    found = survey(workspace, wanted(workspace))
    chosen = [] if found.under_way else found.unneeded
    if args.json:
        deleted = [each.key for each in chosen if args.yes and remove(workspace, each)]
        print_json({**as_data(found), "deleted": deleted})
        return 0
    console = Console(highlight=False)
    show(console, found, workspace)
    if not chosen:
        return 0
    if not (args.yes or confirmed(console, chosen)):
        console.print("Nothing was deleted.")
        return 0
    freed = sum(each.bytes for each in chosen if remove(workspace, each))
    console.print(f"{size(freed)} freed.")
    return 0


def wanted(workspace: Workspace) -> Iterator[Step]:
    """The last steps of every recipe as it stands, with one's own; those that lack their text have none."""
    for name in [*RECIPES, *kept(workspace)]:
        with contextlib.suppress(UserError):
            yield find_recipe(name, workspace).step()
    yield lab.page([lab.ALL])


def confirmed(console: Console, chosen: list[Found]) -> bool:
    """Asked of a person at a terminal; nobody else says yes by accident."""
    if not sys.stdin.isatty():
        console.print("`attn gc --yes` deletes it.")
        return False
    console.print(f"Delete {size(sum(each.bytes for each in chosen))}? \\[y/N] ", end="")
    return input().strip().lower() in ("y", "yes")


def show(console: Console, found: Survey, workspace: Workspace) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("in " + workspace.uri, "results", "size", "nothing needs"):
        table.add_column(name, justify="left" if name.startswith("in ") else "right", overflow="fold")
    stages: dict[str, list[Found]] = {}
    for each in found.results:
        stages.setdefault(each.key.partition("/")[0], []).append(each)
    total = {name: sum(each.bytes for each in of) for name, of in stages.items()}
    for name in sorted(total, key=lambda name: -total[name]):
        unneeded = sum(each.bytes for each in stages[name] if each.why)
        count = len({each.key for each in stages[name]})
        table.add_row(name, str(count), size(total[name]), size(unneeded) if unneeded else "")
    for name, amount in sorted(found.other.items()):
        table.add_row(name, "", size(amount), "")
    console.print(table)
    if found.under_way:
        keys = ", ".join(found.under_way[:3])
        console.print(f"\n{keys} is being made: nothing is deleted while a run is under way here.", soft_wrap=True)
        return
    console.print("" if found.unneeded else "\nEverything there is of use.")
    for why in dict.fromkeys(each.why for each in found.unneeded):
        of = [each for each in found.unneeded if each.why == why]
        console.print(f"{size(sum(each.bytes for each in of)):>9}  {why}", soft_wrap=True)
        for each in of[:5]:
            console.print(f"           {each.key}  {size(each.bytes)}", style="dim", soft_wrap=True)
        if len(of) > 5:
            console.print(f"           and {len(of) - 5} more (--json lists all)", style="dim")


def size(amount: int) -> str:
    """Bytes for people: 3.1 MB."""
    value, unit = float(amount), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def as_data(found: Survey) -> dict[str, Any]:
    listed = [{"result": each.key, "bytes": each.bytes, "unneeded": each.why or None} for each in found.results]
    return {"results": listed, "under_way": list(found.under_way), "other": dict(found.other)}
