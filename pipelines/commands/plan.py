"""`attn plan`: what would be made, what is done already, and why; nothing is made."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from jobs.cluster.profiles import load_profile
from jobs.stage import Estimate
from pipelines.execution.workspace import Workspace
from pipelines.recipes import from_arguments, saved
from pipelines.recipes.recipes import Recipe
from pipelines.steps.estimate import estimate
from pipelines.steps.plan import PlannedStep
from pipelines.steps.plan import plan as make_plan
from pipelines.terminal import plan_page
from pipelines.terminal.json_output import print_json


def plan(args: argparse.Namespace) -> int:
    recipe, targets = from_arguments.targets(args)
    on = load_profile(args.on)
    workspace = Workspace(args.workspace)
    if args.save:
        return save(args, recipe)
    planned = make_plan(targets, workspace)
    costs = {each.step.key: estimate(each.step, on) for each in planned.to_do}
    if args.json:
        print_json([_planned(each, costs.get(each.step.key)) for each in planned.steps])
        return 0
    console = wide_enough(Console(highlight=False))
    plan_page.show(console, recipe, planned, costs, workspace, args)
    return 0


def wide_enough(console: Console) -> Console:
    """A pipe or a file takes lines of any length."""
    return console if console.is_terminal else Console(highlight=False, width=160)


def save(args: argparse.Namespace, recipe: Recipe) -> int:
    """Write what was typed as a recipe of one's own."""
    file = Path(args.save)
    own = from_arguments.own_rows(Path(args.rows_from)) if args.rows_from else {}
    saved.save(file, recipe, args.changes, from_arguments.choice_of(args), own)
    print(f"{file} is a recipe now: `attn run {file}` makes it; then every command knows it as {file.stem}.")
    return 0


def _planned(planned: PlannedStep, cost: Estimate | None) -> Mapping[str, Any]:
    step = planned.step
    return {
        "stage": step.stage.name, "label": step.label, "fingerprint": step.fingerprint,
        "state": planned.state, "why": planned.why, "config": step.identity()["config"],
        "inputs": step.input_fingerprints(), "tags": dict(step.tags),
        "estimate": asdict(cost) if cost is not None else None,
    }  # fmt: skip
