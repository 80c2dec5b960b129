"""`attn plan`: what would be made, what is done already, and why; nothing is made."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.cluster.profiles import load_profile
from jobs.durations import duration
from jobs.stage import Estimate
from jobs.train.stage import TRAIN
from pipelines.execution.workspace import Workspace
from pipelines.recipes import from_arguments
from pipelines.steps.estimate import estimate, total
from pipelines.steps.plan import PlannedStep
from pipelines.steps.plan import plan as make_plan
from pipelines.terminal.json_output import print_json


def plan(args: argparse.Namespace) -> int:
    recipe, targets = from_arguments.targets(args)
    on = load_profile(args.on)
    workspace = Workspace(args.workspace)
    planned = make_plan(targets, workspace)
    costs = {each.step.key: estimate(each.step, on) for each in planned.to_do}
    if args.json:
        print_json([_planned(each, costs.get(each.step.key)) for each in planned.steps])
        return 0
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("step", "fingerprint", "state", "takes", "why"):
        table.add_column(name, no_wrap=name != "why", style="bold" if name == "step" else "")
    for each in planned.steps:
        colour = {"done": "green", "damaged": "red"}.get(each.state, "cyan")
        cost = costs.get(each.step.key)
        takes = f"~{duration(cost.seconds)}" if cost is not None else ""
        table.add_row(each.step.name, each.step.fingerprint, Text(each.state, style=colour), takes, each.why)
    console = Console(highlight=False)
    console.print(table)
    models = sum(step.step.stage is TRAIN for step in planned.steps)
    of_models = "1 model" if models == 1 else f"{models} models"
    console.print(
        f"\n{recipe.name}: {len(planned.steps)} steps, {len(planned.to_do)} to do, {of_models}, in {workspace.uri}",
        soft_wrap=True,
    )
    if planned.damaged:
        again = " ".join(f"--again {each.step.key}" for each in planned.damaged)
        console.print(
            f"{len(planned.damaged)} damaged: `attn run {recipe.name} {again}` makes it again.", soft_wrap=True
        )
    if planned.to_do:
        console.print(_estimate_sentence(total(costs.values()), args.on), soft_wrap=True)
    return 0


def _estimate_sentence(cost: Estimate, profile: str) -> str:
    """The estimate in a sentence, with the devices that the profile has."""
    devices = "GPU" if (load_profile(profile).gpus or 0) > 0 else "CPU"
    return (
        f"On {profile}, one after the other: about {duration(cost.seconds)}, {cost.flops:.1e} FLOPs, "
        f"{cost.device_hours:,.1f} {devices}-hours, {cost.kilowatt_hours:,.1f} kWh (good to a factor of two)"
    )


def _planned(planned: PlannedStep, cost: Estimate | None) -> Mapping[str, Any]:
    step = planned.step
    return {
        "stage": step.stage.name, "label": step.label, "fingerprint": step.fingerprint,
        "state": planned.state, "why": planned.why, "config": step.identity()["config"],
        "inputs": step.input_fingerprints(), "tags": dict(step.tags),
        "estimate": asdict(cost) if cost is not None else None,
    }  # fmt: skip
