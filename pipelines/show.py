"""The reading commands: `attn recipes`, `attn plan`, `attn report`, `attn data show`. Nothing here makes anything."""

from __future__ import annotations

import argparse
import importlib
import json
import webbrowser
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.errors import UserError
from jobs.profiles import load_profile
from pipelines import ask
from pipelines.estimate import Estimate, estimate, total
from pipelines.graph import PlannedStep, in_order
from pipelines.graph import plan as make_plan
from pipelines.recipes import RECIPES, Recipe
from pipelines.screen import duration
from pipelines.step import Step
from pipelines.workspace import Workspace


def say_json(value: Any) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))


def recipes(asked: argparse.Namespace) -> int:
    costs = {name: _cost(recipe, asked.on) for name, recipe in RECIPES.items()}
    if asked.json:
        known = RECIPES.values()
        say_json([{"name": r.name, "summary": r.summary, "paper": r.paper, "cost": costs[r.name]} for r in known])
        return 0
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("recipe", "what it is", "the paper", "cost"):
        table.add_column(name, no_wrap=name == "recipe", style="bold" if name == "recipe" else "")
    for recipe in RECIPES.values():
        table.add_row(recipe.name, recipe.summary, recipe.paper, costs[recipe.name])
    console = Console(highlight=False)
    console.print(table)
    console.print("\nattn plan RECIPE says what it would make; attn run RECIPE makes it.")
    return 0


def _cost(recipe: Recipe, profile: str | None) -> str:
    """As the recipe says, or as its steps add up on a profile. The user's own text is not known here."""
    if profile is None or recipe.name == "files":
        return recipe.cost
    on = load_profile(profile)
    cost = total(estimate(step, on) for step in in_order([recipe.step()]))
    devices = "GPU" if (on.gpus or 0) > 0 else "CPU"
    return (
        f"{duration(cost.seconds)}, {cost.device_hours:,.1f} {devices}-hours, {cost.kilowatt_hours:,.1f} kWh, "
        f"{cost.flops:.1e} FLOPs"
    )


def plan(asked: argparse.Namespace) -> int:
    recipe, targets = ask.targets(asked)
    workspace = Workspace(asked.workspace)
    planned = make_plan(targets, workspace)
    costs = {each.step.key: estimate(each.step, load_profile(asked.on)) for each in planned.to_do}
    if asked.json:
        say_json([_planned(each, costs.get(each.step.key)) for each in planned.steps])
        return 0
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("step", "fingerprint", "state", "takes", "why"):
        table.add_column(name, no_wrap=name != "why", style="bold" if name == "step" else "")
    for each in planned.steps:
        colour = "green" if each.state == "done" else "cyan"
        cost = costs.get(each.step.key)
        takes = f"~{duration(cost.seconds)}" if cost is not None else ""
        table.add_row(each.step.name, each.step.fingerprint, Text(each.state, style=colour), takes, each.why)
    console = Console(highlight=False)
    console.print(table)
    models = sum(step.step.stage == "train" for step in planned.steps)
    of_models = "1 model" if models == 1 else f"{models} models"
    console.print(
        f"\n{recipe.name}: {len(planned.steps)} steps, {len(planned.to_do)} to do, {of_models}, in {workspace.uri}",
        soft_wrap=True,
    )
    if planned.to_do:
        console.print(_bill(total(costs.values()), asked.on), soft_wrap=True)
    return 0


def _bill(cost: Estimate, profile: str) -> str:
    """The estimate in a sentence, with the devices that the profile has."""
    devices = "GPU" if (load_profile(profile).gpus or 0) > 0 else "CPU"
    return (
        f"On {profile}, one after the other: about {duration(cost.seconds)}, {cost.flops:.1e} FLOPs, "
        f"{cost.device_hours:,.1f} {devices}-hours, {cost.kilowatt_hours:,.1f} kWh (good to a factor of two)"
    )


def _planned(planned: PlannedStep, cost: Estimate | None) -> Mapping[str, Any]:
    step = planned.step
    return {
        "stage": step.stage, "label": step.label, "fingerprint": step.fingerprint,
        "state": planned.state, "why": planned.why, "config": step.identity()["config"],
        "inputs": step.input_fingerprints(), "tags": dict(step.tags),
        "estimate": asdict(cost) if cost is not None else None,
    }  # fmt: skip


def finished(step: Step, workspace: Workspace, recipe: str) -> Mapping[str, Any]:
    """The record of a step that must have been made."""
    record = workspace.record(step)
    if record is None:
        raise UserError(f"{step.stage} of {recipe} is not made yet in {workspace.uri}: `attn run {recipe}` makes it.")
    return record


def report(asked: argparse.Namespace) -> int:
    recipe, targets = ask.targets(asked)
    workspace = Workspace(asked.workspace)
    record = finished(targets[-1], workspace, recipe.name)
    artifact = workspace.artifact(targets[-1])
    page = artifact.at("report.html")
    if asked.json:
        say_json({"html": page, "markdown": artifact.at("report.md"), "csv": artifact.at("results.csv"), **record})
        return 0
    print(artifact.read_text("report.md"))
    print(f"made {record['made']['when']} in {duration(record['made']['seconds'])}; the page: {page}")
    if artifact.is_local:
        webbrowser.open(f"file://{page}")
    return 0


def data(asked: argparse.Namespace) -> int:
    recipe, targets = ask.targets(asked)
    workspace = Workspace(asked.workspace)
    steps = {step.stage: step for step in reversed(in_order(targets)) if step.label in ("", "train")}
    for stage in ("corpora", "vocabulary", "shards"):
        finished(steps[stage], workspace, recipe.name)
    data_facts = importlib.import_module("jobs.data_facts")
    artifacts = {stage: workspace.artifact(steps[stage]) for stage in ("corpora", "vocabulary", "shards")}
    facts = data_facts.data_facts(**artifacts)
    if asked.json:
        say_json(facts)
    else:
        print(data_facts.as_text(facts))
    return 0
