"""From a notebook or a script: plan a recipe, run it, and translate with what it made.

    from pipelines.notebook import plan, run, translator

    settings = {"training.steps": 300}
    print([each.step.name for each in plan("demo", settings).to_do])
    done = run("demo", settings)
    print(done.scores["model"]["bleu"], done.page)
    print(translator("demo", settings).translate(["The old cat sleeps."])[0].text)

The same workspace, steps and results as those of `attn`. A recipe is a name, or the path of a file of one's own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jobs.cluster.profiles import load_profile_to_run
from pipelines.execution.model_directory import model_step
from pipelines.execution.workspace import Workspace
from pipelines.recipes.recipes import Choice
from pipelines.recipes.saved import find_recipe, keep
from pipelines.recipes.settings import spelled
from pipelines.steps import plan as planning
from pipelines.steps.plan import Plan
from pipelines.steps.stages import rows_of
from pipelines.steps.step import Step
from pipelines.terminal.environment import call_nobody, keep_ray_private

if TYPE_CHECKING:
    from transformer.translator import Translator

Settings = Mapping[str, Any]  # {"training.steps": 300}: what `--set` takes


@dataclass(frozen=True)
class Done:
    """`scores` by row, `page` is the report's address."""

    scores: Mapping[str, Mapping[str, Any]]
    page: str
    made: int  # steps; the others were found done


def plan(
    recipe: str,
    settings: Settings | None = None,
    *,
    rows: Sequence[str] | None = None,
    seeds: int = 1,
    workspace: str | None = None,
) -> Plan:
    """What would be made, what is done already, and why."""
    place = Workspace(workspace)
    return planning.plan([_last(place, recipe, settings, rows, seeds)], place)


def run(
    recipe: str,
    settings: Settings | None = None,
    *,
    rows: Sequence[str] | None = None,
    seeds: int = 1,
    workspace: str | None = None,
    on: str = "laptop",
    address: str | None = None,
) -> Done:
    """Make what is to do, here or on the Ray cluster at `address`, and say how it goes, a line each."""
    call_nobody()
    if not (address or os.environ.get("RAY_ADDRESS")):
        keep_ray_private()
    place, profile = Workspace(workspace), load_profile_to_run(on)
    place.check_writable()
    last = _last(place, recipe, settings, rows, seeds)
    planned = planning.plan([last], place)
    keep(find_recipe(recipe, place), place)
    records = import_module("pipelines.execution.in_process").follow(planned, place, profile, _name(recipe), address)
    scores = {row.name: records[row.scores.key]["facts"] for row in rows_of(last)}
    return Done(scores, place.artifact(last).at("report.html"), len(planned.to_do))


def translator(
    recipe: str, settings: Settings | None = None, *, row: str | None = None, workspace: str | None = None
) -> Translator:
    """The model of a recipe, or of a row of its table: `.translate(texts)[0].text`."""
    place = Workspace(workspace)
    found = find_recipe(recipe, place)
    step = model_step(found, _changes(settings), row)
    place.finished(step, found.name)
    with place.artifact(step).directory() as directory:
        loaded: Translator = import_module("transformer.translator").Translator.load(directory)
    return loaded


def _last(place: Workspace, recipe: str, settings: Settings | None, rows: Sequence[str] | None, seeds: int) -> Step:
    return find_recipe(recipe, place).step(_changes(settings), Choice(rows=rows, seeds=seeds))


def _changes(settings: Settings | None) -> list[str]:
    return [f"{name}={spelled(value)}" for name, value in (settings or {}).items()]


def _name(recipe: str) -> str:
    return find_recipe(recipe, Workspace()).name if recipe.endswith(".toml") else recipe
