"""Fair comparisons of trainings: every side at its own best learning rate, and settled by several draws.

A draw is a training with initial values and batches of its own. Every rate of the list is tried on the first draw, and
the best is taken for the others. A verdict needs the draws to be apart: one lucky training decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from jobs.lab.bench import Bench
from jobs.lab.claims import Figures, Ruling, not_shown, rule

Side = TypeVar("Side")
Result = Mapping[str, Any]  # what a training gives: its "loss", at the least
WORST = 99.0
EDGE = 0.05  # by how much the last rate of a list must beat its neighbour for one beyond it to be worth a try


class Try(NamedTuple):
    """One training of one side."""

    side: Any
    rate: float
    draw: int


@dataclass(frozen=True)
class Tuned:
    """A side at its best rate: what each draw gave."""

    rate: float
    at_edge: bool  # a rate beyond the list may do better
    draws: Sequence[Result]
    tried: Mapping[float, float]  # the first draw's loss by rate

    def figures(self, name: str, figure: str = "loss") -> dict[str, float]:
        """Mean and range over draws, the rate, and whether that is one at which the list ends."""
        values = [float(one[figure]) for one in self.draws]
        return ranged(name, figure, values) | {f"{name}/rate": self.rate, f"{name}/at_edge": float(self.at_edge)}


def bounded(loss: float) -> float:
    """A loss that is no number, or has no bound, counts as `WORST`: means and ranges stay numbers."""
    return min(loss, WORST) if math.isfinite(loss) else WORST


def ranged(name: str, figure: str, values: Sequence[float]) -> dict[str, float]:
    mean = math.fsum(values) / len(values)
    return {f"{name}/{figure}": mean, f"{name}/{figure}_least": min(values), f"{name}/{figure}_most": max(values)}


def seed_of(seed: int, draw: int) -> int:
    """The seed of a draw: the first is the experiment's own, and no two experiments' seeds share another."""
    return seed + 1_000 * draw


def tuned(
    bench: Bench, act: Callable[[Try], Result], sides: Sequence[Side], rates: Sequence[float], draws: int
) -> list[Tuned]:
    """Every side at its own best rate of the list: that with the least `loss` of the first draw."""
    ordered = sorted(rates)
    first = bench.each(act, [Try(side, rate, 0) for side in sides for rate in ordered])
    grids = [first[place : place + len(ordered)] for place in range(0, len(first), len(ordered))]
    losses = [[float(one["loss"]) for one in grid] for grid in grids]
    best = [own.index(min(own)) for own in losses]
    more = [Try(side, ordered[at], draw) for side, at in zip(sides, best, strict=True) for draw in range(1, draws)]
    later = iter(bench.each(act, more) if more else [])
    return [
        Tuned(
            rate=ordered[at],
            at_edge=is_at_edge(own, at),
            draws=[grid[at], *(next(later) for _ in range(1, draws))],
            tried=dict(zip(ordered, own, strict=True)),
        )
        for grid, own, at in zip(grids, losses, best, strict=True)
    ]


def is_at_edge(losses: Sequence[float], best: int) -> bool:
    """Is the best at an end of the list, and clearly better than its neighbour?"""
    if 0 < best < len(losses) - 1:
        return False
    neighbour = losses[1] if best == 0 else losses[-2]
    return len(losses) < 2 or not neighbour - losses[best] < EDGE


def gap(figures: Figures, lower: str, higher: str, figure: str = "loss") -> tuple[float, float]:
    """How far `higher` lies above `lower`: at least (its lowest draw over the other's highest), and at most."""
    return (
        figures[f"{higher}/{figure}_least"] - figures[f"{lower}/{figure}_most"],
        figures[f"{higher}/{figure}_most"] - figures[f"{lower}/{figure}_least"],
    )


def by_draws(least: float, most: float, margin: float, measured: str) -> Ruling:
    """Holds if the difference is at least `margin` between any two draws, does not if it is less between any two."""
    if least >= margin:
        return rule(True, measured)
    return rule(False, measured) if most < margin else not_shown(measured)


def either_way(least: float, most: float, margin: float, measured: str) -> Ruling:
    """Holds if the difference is at least `margin` between any two draws, does not if it is so the other way round."""
    if least >= margin:
        return rule(True, measured)
    return rule(False, measured) if most <= -margin else not_shown(measured)


def needed(figures: Figures, with_it: str, without: str, margin: float, measured: str) -> Ruling:
    """Does leaving something out cost `margin` of loss? Not shown where the loser may lack a better learning rate."""
    ruling = by_draws(*gap(figures, with_it, without), margin, measured)
    loser = {"holds": without, "does not hold": with_it}.get(ruling.verdict)
    if loser and figures[f"{loser}/at_edge"]:
        return not_shown(f"{measured}; but the loser's best rate is the last of the list")
    return ruling


def spread(figures: Figures, name: str, figure: str = "loss") -> str:
    """A mean with its range over draws, in words."""
    mean, least, most = (figures[f"{name}/{figure}{part}"] for part in ("", "_least", "_most"))
    return f"{mean:.3g}" if least == most else f"{mean:.3g} ({least:.3g} to {most:.3g})"
