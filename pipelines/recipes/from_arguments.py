"""From what was typed to a recipe's steps: shared by every command that names a recipe."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobs.errors import UserError, reason_of, refuse_unknown
from jobs.settings_file import read_settings_file
from pipelines.execution.workspace import Workspace
from pipelines.recipes.recipes import Choice, Recipe
from pipelines.recipes.saved import find_recipe
from pipelines.recipes.table3 import differences
from pipelines.steps.plan import in_order, until
from pipelines.steps.step import Step


def targets(args: argparse.Namespace) -> tuple[Recipe, list[Step]]:
    """The recipe, and the step or steps to get to."""
    recipe, last = last_step(args)
    if args.until is None:
        return recipe, [last]
    stopping = until(last, args.until)
    if not stopping:
        refuse_unknown("stage", args.until, dict.fromkeys(step.stage.name for step in in_order([last])))
    return recipe, stopping


def last_step(args: argparse.Namespace) -> tuple[Recipe, Step]:
    """The recipe, and the report that it ends with."""
    recipe = find_recipe(args.recipe, Workspace(args.workspace))
    return recipe, recipe.step(args.changes, choice_of(args))


def choice_of(args: argparse.Namespace) -> Choice:
    """Which rows and how many seeds."""
    if args.rows is not None and not args.rows.strip(" ,"):
        raise UserError("--rows names no row: leave it out for all of them, or name some, e.g. --rows base,A/h=1.")
    named = dict.fromkeys(name.strip() for name in (args.rows or "").split(","))
    rows = [name for name in named if name] or None
    file = Path(args.rows_from) if args.rows_from else None
    extra = differences(own_rows(file), file) if file else {}
    return Choice(rows=rows, seeds=args.seeds, extra=extra)


def own_rows(file: Path) -> Mapping[str, Any]:
    """What the file of `--rows-from` holds."""
    try:
        return tomllib.loads(read_settings_file(file))
    except OSError as error:
        raise UserError(f"The rows in {file} cannot be read: {reason_of(error)}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is not TOML: {error}.") from error
