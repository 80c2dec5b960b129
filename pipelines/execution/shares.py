"""Which waiting steps start now, and on how many workers each: rows of a table share the whole cluster.

A training takes at most the workers of its profile, and several at once share all that the cluster has: eight rows on
32 GPUs train on four each. Several models side by side, each on fewer workers, beat one after the other on all: there
is less waiting for each other, and nothing is idle while a row waits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from jobs.configs import Resources
from jobs.stage import Demand
from pipelines.steps.step import Step

ROUNDING = 1e-9  # CPUs of a worker may be a fraction


class Shares:
    """What each running step holds of the cluster. `have` is what the cluster has, in Ray's names."""

    def __init__(self, on: Resources, have: Mapping[str, float]) -> None:
        self.on = on
        self.have = Demand(have.get("CPU", 1.0), have.get("GPU", 0.0))
        self._held: dict[str, tuple[Step, Demand]] = {}

    def start(self, waiting: Sequence[Step]) -> list[tuple[Step, Resources]]:
        """Those of `waiting`, most urgent first, that start now, with the share of the profile that each gets.

        They hold it from here on, until `release`. With nothing running one starts even if it does not fit: the job
        itself says what is missing.
        """
        started: list[tuple[Step, Resources]] = []
        left = sum(step.stage.divide is not None for step in waiting)  # to share what is free
        for step in waiting:
            on = self._share(step, left)
            need = step.stage.demand(on)
            if self._held and not fits(need, self._free()):
                continue
            left -= step.stage.divide is not None
            self._held[step.key] = step, need
            started.append((step, on))
        return started

    def release(self, step: Step) -> None:
        del self._held[step.key]

    def _share(self, step: Step, among: int) -> Resources:
        """The step's share of what other divided steps do not hold, rounded up: the last of them finds the rest.

        What undivided steps hold is soon free again: a training that will run for hours waits for it.
        """
        divide = step.stage.divide
        if divide is None:
            return self.on
        divided = [need for other, need in self._held.values() if other.stage.divide is not None]
        one = step.stage.demand(divide(self.on, 1))
        if not how_many(one, self.have):
            return self.on  # not even one worker finds room, ever
        return divide(self.on, max(1, math.ceil(how_many(one, minus(self.have, divided)) / among)))

    def _free(self) -> Demand:
        return minus(self.have, [need for _, need in self._held.values()])


def minus(have: Demand, held: Sequence[Demand]) -> Demand:
    return Demand(have.cpus - sum(need.cpus for need in held), have.gpus - sum(need.gpus for need in held))


def fits(need: Demand, free: Demand) -> bool:
    return need.cpus <= free.cpus + ROUNDING and need.gpus <= free.gpus + ROUNDING


def how_many(one: Demand, free: Demand) -> int:
    """How many workers that each need `one` find room."""
    pairs = ((one.cpus, free.cpus), (one.gpus, free.gpus))
    return max(0, min(math.floor(there / each + ROUNDING) for each, there in pairs if each > 0))
