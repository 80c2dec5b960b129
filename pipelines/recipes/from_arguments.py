"""From what was typed to a recipe's steps: shared by every command that names a recipe."""

from __future__ import annotations

import argparse
import dataclasses
import tomllib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from jobs.errors import UserError, refuse_unknown
from pipelines.recipes.recipes import Choice, Recipe, recipe_named
from pipelines.recipes.table3 import TABLE_3, Difference
from pipelines.steps.plan import in_order, until
from pipelines.steps.step import Step
from transformer.config import ModelConfig, TrainingConfig


def targets(args: argparse.Namespace) -> tuple[Recipe, list[Step]]:
    """The recipe, and the step or steps to get to."""
    recipe = recipe_named(args.recipe)
    if args.seeds < 1:
        raise UserError(f"--seeds must be at least 1, not {args.seeds}.")
    if args.rows is not None and not args.rows.strip(" ,"):
        raise UserError("--rows names no row: leave it out for all of them, or name some, e.g. --rows base,A/h=1.")
    named = dict.fromkeys(name.strip() for name in (args.rows or "").split(","))
    rows = [name for name in named if name] or None
    extra = own_rows(Path(args.rows_from)) if args.rows_from else {}
    last = recipe.step(args.changes, Choice(rows=rows, seeds=args.seeds, extra=extra))
    if args.until is None:
        return recipe, [last]
    stopping = until(last, args.until)
    if not stopping:
        refuse_unknown("stage", args.until, dict.fromkeys(step.stage.name for step in in_order([last])))
    return recipe, stopping


def own_rows(file: Path) -> Mapping[str, Difference]:
    """Rows of the user's own, a line of TOML each:

    "F/wide" = { model = { d_ff = 8192 } }
    "F/half" = { times = { d_model = "1/2" }, training = { label_smoothing = 0.0 } }
    """
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"The rows in {file} cannot be read: {(error.strerror or str(error)).lower()}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is not TOML: {error}.") from error
    for name in tables:
        if name in TABLE_3:
            raise UserError(f"{file}: the row {name!r} is the paper's: give yours another name.")
    return {name: _difference(name, given, file) for name, given in tables.items()}


def _difference(name: str, given: Any, file: Path) -> Difference:
    known = {"times", "model", "training", "longer"}
    if not isinstance(given, dict) or set(given) - known:
        raise UserError(
            f"{file}: row {name!r} may hold {', '.join(sorted(known))}, e.g. {{ model = {{ d_ff = 8192 }} }}."
        )
    for section, config in (("times", ModelConfig), ("model", ModelConfig), ("training", TrainingConfig)):
        values = given.get(section, {})
        if not isinstance(values, dict):
            raise UserError(f"{file}: row {name!r}: {section} is a table, e.g. {{ d_ff = 8192 }}.")
        known_fields = [one.name for one in dataclasses.fields(config)]
        for field in values:
            if field not in known_fields:
                refuse_unknown("field", field, known_fields, where=f"{file}: row {name!r}: ", prefix=f"{section}.")
    try:
        factors = {field: Fraction(str(factor)) for field, factor in given.get("times", {}).items()}
    except (ValueError, ZeroDivisionError) as error:
        raise UserError(f"{file}: row {name!r}: {error}.") from error
    longer = given.get("longer", 1)
    if type(longer) is not int or longer < 1:
        raise UserError(f"{file}: row {name!r}: longer is how many times as many updates, 1 or more, not {longer!r}.")
    return Difference(times=factors, model=given.get("model", {}), training=given.get("training", {}), longer=longer)
