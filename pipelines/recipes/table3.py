"""The rows of Table 3, each a difference from one base: written once, applied to the paper's base or to a small one.

A row is a factor on fields of the base, or values for them, so that it means the same on a base of any size.
Adding a row is adding a line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from jobs.errors import UserError, refuse_unknown
from pipelines.recipes.experiment import Experiment
from transformer.config import ModelConfig, TrainingConfig


@dataclass(frozen=True)
class Difference:
    """What one row changes. `times` multiplies fields of the model, `model` and `training` put values in place."""

    times: Mapping[str, Fraction] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    longer: int = 1  # times as many updates

    def applied(self, base: Experiment, row: str) -> Experiment:
        widths: dict[str, Any] = {name: scaled(base, name, factor, row) for name, factor in self.times.items()}
        keep = 20 if self.longer > 1 else base.training.keep_checkpoints
        training = {"steps": base.training.steps * self.longer, "keep_checkpoints": keep, **self.training}
        try:
            model: Any = replace(base.model, **{**widths, **self.model})
            return replace(base, model=model, training=replace(base.training, **training))
        except (TypeError, ValueError) as error:
            raise UserError(f"Row {row}: {str(error).removeprefix('ModelConfig.__init__() ')}.") from error


def scaled(base: Experiment, name: str, factor: Fraction, row: str) -> int | float:
    """A fraction of the base's value, whole where that is; d_k and d_v are those that the base really has."""
    real = {"d_k": base.model.key_width, "d_v": base.model.value_width}
    value = real.get(name) or getattr(base.model, name)
    if isinstance(value, float):
        return float(Fraction(str(value)) * factor)
    result = value * factor
    if result.denominator != 1 or result < 1:
        raise UserError(
            f"Row {row} takes {factor} of model.{name}={value}, which is no whole number: choose another base."
        )
    return int(result)


def times(**factors: str) -> Difference:
    return Difference(times={name: Fraction(factor) for name, factor in factors.items()})


def differences(tables: Mapping[str, Any], file: Path) -> Mapping[str, Difference]:
    """Rows of the user's own, a line of TOML each:

    "F/wide" = { model = { d_ff = 8192 } }
    "F/half" = { times = { d_model = "1/2" }, training = { label_smoothing = 0.0 } }
    """
    for name in tables:
        if name in TABLE_3:
            raise UserError(f"{file}: the row {name!r} is the paper's: give yours another name.")
        if "@seed" in name or "," in name or not name.strip():
            raise UserError(f"{file}: a row's name has no comma and no @seed in it, and {name!r} has: give it another.")
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
        known_fields = [each.name for each in dataclasses.fields(config)]
        for one in values:
            if one not in known_fields:
                refuse_unknown("field", one, known_fields, where=f"{file}: row {name!r}: ", prefix=f"{section}.")
    try:
        factors = {width: Fraction(str(factor)) for width, factor in given.get("times", {}).items()}
    except (ValueError, ZeroDivisionError) as error:
        raise UserError(f"{file}: row {name!r}: {error}.") from error
    longer = given.get("longer", 1)
    if type(longer) is not int or longer < 1:
        raise UserError(f"{file}: row {name!r}: longer is how many times as many updates, 1 or more, not {longer!r}.")
    return Difference(times=factors, model=given.get("model", {}), training=given.get("training", {}), longer=longer)


TABLE_3: Mapping[str, Difference] = {  # in the paper's order
    "base": Difference(),
    "A/h=1": times(num_heads="1/8"),
    "A/h=4": times(num_heads="1/2"),
    "A/h=16": times(num_heads="2"),
    "A/h=32": times(num_heads="4"),
    "B/dk=16": times(d_k="1/4"),
    "B/dk=32": times(d_k="1/2"),
    "C/N=2": times(layers="1/3"),
    "C/N=4": times(layers="2/3"),
    "C/N=8": times(layers="4/3"),
    "C/d=256": times(d_model="1/2"),
    "C/d=1024": times(d_model="2"),
    "C/ff=1024": times(d_ff="1/2"),
    "C/ff=4096": times(d_ff="2"),
    "D/drop=0.0": times(dropout="0"),
    "D/drop=0.2": times(dropout="2"),
    "D/ls=0.0": Difference(training={"label_smoothing": 0.0}),
    "D/ls=0.2": Difference(training={"label_smoothing": 0.2}),
    "E/learned": Difference(model={"positions": "learned"}),
    "big": replace(times(d_model="2", d_ff="2", num_heads="2", dropout="3"), longer=3),
}
