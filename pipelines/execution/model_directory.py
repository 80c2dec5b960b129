"""A trained model as a local directory: the one that was named, or the one that the named recipe made."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from jobs.average.model_files import require_model_files
from jobs.errors import UserError, refuse_unknown
from pipelines.execution.workspace import Workspace
from pipelines.recipes.recipes import Recipe
from pipelines.recipes.saved import find_recipe, is_recipe
from pipelines.steps.stages import rows_of
from pipelines.steps.step import Step

SEED = "@seed"  # between a row and its seed


@contextlib.contextmanager
def model_directory(args: argparse.Namespace) -> Iterator[Path]:
    """The directory that was named, or the one that the named recipe made: its first model, or that of `--row`."""
    named, workspace = Path(args.model), Workspace(args.workspace)
    if not is_recipe(args.model, workspace) and (named.is_dir() or "/" in args.model):
        if args.row:
            raise UserError(f"--row chooses a row of a recipe, and {args.model} is a directory.")
        require_model_files(named)
        yield named
        return
    recipe = find_recipe(args.model, workspace)
    step = model_step(recipe, args.changes, args.row)
    workspace.finished(step, recipe.name)
    with workspace.artifact(step).directory() as directory:
        require_model_files(directory, f" `attn run {recipe.name} --again {step.key}` makes it again.")
        yield directory


def model_step(recipe: Recipe, changes: Sequence[str], row: str | None) -> Step:
    """The step that makes the model of a row, e.g. C/N=2, or base@seed2 for another seed than the first."""
    made = models(recipe, changes)
    if row is None:
        return made[0]
    name, marked, seed = row.partition(SEED)
    if marked and not seed.isdigit():
        raise UserError(f"--row takes a row such as base, or base{SEED}2, not {row!r}.")
    if marked and row not in [step.label for step in made]:
        made = models(recipe, [*changes, f"training.seed={seed}"])
    found = [step for step in made if step.label == row] or [step for step in made if row_of(step) == name]
    if not found:
        refuse_unknown("row", name, dict.fromkeys(row_of(step) for step in made))
    return found[0]


def models(recipe: Recipe, changes: Sequence[str]) -> list[Step]:
    return [row.model for row in rows_of(recipe.step(changes))]


def row_of(step: Step) -> str:
    return step.label.partition(SEED)[0]
