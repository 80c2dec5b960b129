"""`attn recipes`: what can be run, what the paper got, what it costs."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Table

from jobs.cluster.profiles import load_profile
from jobs.durations import duration
from jobs.errors import UserError
from pipelines.execution.workspace import Workspace
from pipelines.recipes.recipes import RECIPES, Recipe
from pipelines.recipes.saved import find_recipe, kept
from pipelines.steps.estimate import estimate, total
from pipelines.steps.plan import in_order
from pipelines.terminal.json_output import print_json


def recipes(args: argparse.Namespace) -> int:
    workspace = Workspace(args.workspace)
    known = {**RECIPES, **readable(workspace)}
    costs = {name: _cost(recipe, args.on) for name, recipe in known.items()}
    if args.json:
        fields = [(r.name, r.summary, r.paper, costs[r.name]) for r in known.values()]
        print_json([dict(zip(("name", "summary", "paper", "cost"), each, strict=True)) for each in fields])
        return 0
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("recipe", "what it is", "the paper", "cost"):
        table.add_column(name, no_wrap=name == "recipe", style="bold" if name == "recipe" else "")
    for recipe in known.values():
        table.add_row(recipe.name, recipe.summary, recipe.paper, costs[recipe.name])
    console = Console(highlight=False)
    console.print(table)
    console.print("\nattn plan RECIPE says what it would make; attn run RECIPE makes it.")
    return 0


def readable(workspace: Workspace) -> dict[str, Recipe]:
    """The recipes of one's own that were run there; of those that are no recipes any more it is said."""
    found = {}
    for name in kept(workspace):
        try:
            found[name] = find_recipe(name, workspace)
        except UserError as error:
            print(f"attn: {error}", file=sys.stderr)
    return found


def _cost(recipe: Recipe, profile: str | None) -> str:
    """As the recipe says, or as its steps add up on a profile. What a user has to bring is not known here."""
    if profile is None:
        return recipe.cost
    on = load_profile(profile)
    try:
        steps = in_order([recipe.step()])
    except UserError:
        return recipe.cost
    cost = total(estimate(step, on) for step in steps)
    devices = "GPU" if (on.gpus or 0) > 0 else "CPU"
    return (
        f"{duration(cost.seconds)}, {cost.device_hours:,.1f} {devices}-hours, {cost.kilowatt_hours:,.1f} kWh, "
        f"{cost.flops:.1e} FLOPs"
    )
