"""What a step would cost, before a GPU-second is spent: as its stage says, from the configs that lead to it.

Training and translating are counted in FLOPs (matrix products). The other stages are a rate per CPU, measured on real
text. An estimate is good to a factor of two, and a finished run says how far off it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jobs.configs import Resources
from jobs.stage import Estimate, Lineage
from pipelines.steps.plan import in_order
from pipelines.steps.step import Step


def lineage(step: Step) -> Lineage:
    inputs = {name: value.config for name, value in step.inputs.items() if isinstance(value, Step)}
    return Lineage(config=step.config, inputs=inputs, configs=[each.config for each in in_order([step])])


def estimate(step: Step, on: Resources) -> Estimate | None:
    """None where nobody can tell, for instance for the user's own text."""
    return step.stage.estimate(lineage(step), on)


def flops(step: Step) -> float:
    """Matrix products that a step is known to take; 0 where its stage does not count them."""
    return step.stage.flops(lineage(step)) if step.stage.flops else 0.0


def total(estimates: Iterable[Estimate | None]) -> Estimate:
    """One after the other; a cluster that runs rows side by side needs less time, not less work."""
    known = [each for each in estimates if each is not None]
    return Estimate(
        seconds=sum(each.seconds for each in known),
        flops=sum(each.flops for each in known),
        device_hours=sum(each.device_hours for each in known),
        kilowatt_hours=sum(each.kilowatt_hours for each in known),
    )


def how_far_off(steps: Iterable[Step], records: Mapping[str, Mapping[str, Any]], on: Resources) -> tuple[float, float]:
    """After the run: the seconds that were estimated and those that it took, of the steps that had an estimate."""
    estimated = {step.key: cost for step in steps if (cost := estimate(step, on)) is not None and step.key in records}
    return total(estimated.values()).seconds, sum(float(records[key]["made"]["seconds"]) for key in estimated)
