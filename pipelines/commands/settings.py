"""`attn settings`: everything that `--set` reaches, with its default, its meaning and the paper's section."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.errors import refuse_unknown
from pipelines.execution.workspace import Workspace
from pipelines.recipes import settings as changes
from pipelines.recipes.experiment import Experiment
from pipelines.recipes.meanings import Setting, settings_of
from pipelines.recipes.saved import find_recipe
from pipelines.terminal.json_output import print_json

WIDE = 160  # columns of a pipe or a file


def settings(args: argparse.Namespace) -> int:
    found = find_recipe(args.recipe, Workspace(args.workspace)).experiment if args.recipe else Experiment()
    listed = list(settings_of(changes.apply(found, args.changes)))
    if args.section:
        sections = dict.fromkeys(each.name.partition(".")[0] for each in listed)
        if args.section not in sections:
            refuse_unknown("section", args.section, sections)
        listed = [each for each in listed if each.name.startswith(f"{args.section}.")]
    if args.json:
        print_json([as_data(each) for each in listed])
    else:
        console = Console(highlight=False)
        show(console if console.is_terminal else Console(highlight=False, width=WIDE), listed, args.recipe)
    return 0


def as_data(setting: Setting) -> dict[str, Any]:
    return {
        "setting": setting.name,
        "value": setting.value,
        "default": setting.paper,
        "meaning": setting.meaning,
        "section": setting.section,
    }


def show(console: Console, listed: Sequence[Setting], recipe: str | None) -> None:
    """A line each, under the name of its section; what a recipe sets otherwise than the paper is bold."""
    differ = any(each.value != each.paper for each in listed)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("setting", no_wrap=True)
    table.add_column(recipe or "default", max_width=24, overflow="fold")
    if differ:
        table.add_column("default", style="dim", no_wrap=True)
    table.add_column("meaning")
    table.add_column("paper", style="dim", max_width=9)
    section = ""
    for each in listed:
        before, (section, _, name) = section, each.name.rpartition(".")
        if section != before:
            table.add_row(Text(section, style="bold cyan"))
        other = each.value != each.paper
        value = Text(changes.spelled(each.value), style="bold" if other else "")
        default = [changes.spelled(each.paper) if other else ""] if differ else []
        table.add_row(f"  {name}", value, *default, Text(each.meaning), each.section)
    console.print(table)
    first = listed[0].name
    console.print(
        f"\nChange any, as SECTION.NAME: --set {first}=VALUE. `attn settings RECIPE` shows a recipe's: "
        f"`files` is your own text.", soft_wrap=True,
    )  # fmt: skip
