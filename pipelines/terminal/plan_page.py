"""A plan on the terminal: every step with its reason, or of a large recipe its stages and rows in a few lines."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.cluster.profiles import load_profile
from jobs.durations import duration
from jobs.stage import Estimate
from jobs.train.stage import TRAIN
from pipelines.execution.workspace import Workspace
from pipelines.recipes.recipes import Recipe
from pipelines.steps.estimate import total
from pipelines.steps.fingerprint import LENGTH
from pipelines.steps.plan import Plan, PlannedStep
from transformer.cpu.bf16 import multiplies_bf16

ROOMY, NARROW_DIGITS = 110, 8  # columns from which a fingerprint is shown whole, and how much of it else
MANY = 24  # more steps than this are summed up by stage
COLOURS = {"done": "green", "damaged": "red"}
Costs = Mapping[str, Estimate | None]


def show(
    console: Console, recipe: Recipe, planned: Plan, costs: Costs, workspace: Workspace, args: argparse.Namespace
) -> None:
    summed_up = len(planned.steps) > MANY and not args.steps
    digits = LENGTH if console.width >= ROOMY else NARROW_DIGITS
    console.print(by_stage(planned, costs) if summed_up else by_step(planned, costs, digits))
    trainings = [each for each in planned.steps if each.step.stage.curve]
    models = "1 model" if len(trainings) == 1 else f"{len(trainings)} models"
    to_do = len(planned.to_do)
    console.print(
        f"\n{recipe.name}: {len(planned.steps)} steps, {to_do} to do, {models}, in {workspace.uri}", soft_wrap=True
    )
    if summed_up:
        console.print(f"Rows: {in_words(trainings)}")
        console.print("`--steps` lists every step with its reason, `--rows` and `--until` choose some.", soft_wrap=True)
    if planned.damaged:
        again = " ".join(f"--again {each.step.key}" for each in planned.damaged)
        sentence = f"{len(planned.damaged)} damaged: `attn run {recipe.name} {again}` makes it again."
        console.print(sentence, soft_wrap=True)
    if planned.to_do:
        console.print(estimate_sentence(total(costs.values()), args.on), soft_wrap=True)
    if load_profile(args.on).train.precision == "auto" and any(each.step.stage is TRAIN for each in planned.to_do):
        console.print(precision_sentence(), soft_wrap=True)


def by_step(planned: Plan, costs: Costs, digits: int = LENGTH) -> Table:
    lines: list[tuple[str | Text, ...]] = []
    for each in planned.steps:
        cost = costs.get(each.step.key)
        takes = f"~{duration(cost.seconds)}" if cost is not None else ""
        state = Text(each.state, style=COLOURS.get(each.state, "cyan"))
        lines.append(
            (
                each.step.name,
                each.step.fingerprint[:digits],
                state,
                takes,
                Text(each.why, no_wrap=True, overflow="ellipsis"),
            )
        )
    return _table(("step", "fingerprint", "state", "takes", "why"), lines)


def by_stage(planned: Plan, costs: Costs) -> Table:
    """A line for each stage: how many steps, how many of them are done, what the rest takes, and the first reason."""
    lines: list[tuple[str | Text, ...]] = []
    for name in dict.fromkeys(each.step.stage.name for each in planned.steps):
        of = [each for each in planned.steps if each.step.stage.name == name]
        to_do = [each for each in of if each.state == "to do"]
        cost = total(costs.get(each.step.key) for each in to_do)
        takes = f"~{duration(cost.seconds)}" if cost.seconds else ""
        reasons = dict.fromkeys(each.why for each in to_do)
        why = next(iter(reasons), "") + (f" and {len(reasons) - 1} other reasons" if len(reasons) > 1 else "")
        done = sum(each.state == "done" for each in of)
        lines.append(
            (
                name,
                str(len(of)),
                str(done or ""),
                str(len(to_do) or ""),
                takes,
                Text(why, no_wrap=True, overflow="ellipsis"),
            )
        )
    return _table(("stage", "steps", "done", "to do", "takes", "why"), lines)


def _table(names: Sequence[str], lines: Sequence[tuple[str | Text, ...]]) -> Table:
    """A line each: where the terminal is narrow, the last column is cut short and no other."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for place, name in enumerate(names):
        numeric = name in ("steps", "done", "to do")
        style = "bold" if place == 0 else ""
        table.add_column(name, no_wrap=name != names[-1], justify="right" if numeric else "left", style=style)
    for line in lines:
        table.add_row(*line)
    return table


def in_words(trainings: Sequence[PlannedStep]) -> str:
    """The rows' names, with a mark behind those that are trained already."""
    return ", ".join(f"{each.step.label}{' (done)' if each.state == 'done' else ''}" for each in trainings)


def estimate_sentence(cost: Estimate, profile: str) -> str:
    """The estimate in a sentence, with the devices that the profile has."""
    devices = "GPU" if (load_profile(profile).gpus or 0) > 0 else "CPU"
    known = [
        f"about {duration(cost.seconds)}",
        f"{cost.flops:.1e} FLOPs" if cost.flops else "",
        f"{cost.device_hours:,.1f} {devices}-hours" if cost.device_hours >= 0.05 else "",
        f"{cost.kilowatt_hours:,.1f} kWh" if cost.kilowatt_hours >= 0.05 else "",
    ]
    return f"On {profile}, one after the other: {', '.join(filter(None, known))} (good to a factor of two)"


def precision_sentence() -> str:
    here = "does" if multiplies_bf16() else "does not"
    return f"Training: in bf16 where the hardware of all workers multiplies it, else in fp32; this CPU {here}"
