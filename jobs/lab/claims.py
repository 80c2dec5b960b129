"""A claim of the paper, the rule by which figures decide over it, and the verdict. Standard library only.

A rule is a function of the measured figures alone, so that the same figures give the same verdict; its threshold stands
in it, and its words say the same to the reader.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Figures = Mapping[str, float]  # flat: what MLflow takes
Verdict = Literal["holds", "does not hold", "not shown here"]


class Ruling(NamedTuple):
    """A verdict, and the figures it rests on in words."""

    verdict: Verdict
    measured: str


def rule(holds: bool, measured: str) -> Ruling:
    return Ruling("holds" if holds else "does not hold", measured)


def not_shown(measured: str) -> Ruling:
    return Ruling("not shown here", measured)


def by_margin(value: float, margin: float, measured: str) -> Ruling:
    """Holds from `margin` up, does not from -margin down; what lies between is too little to tell."""
    if abs(value) < margin or not math.isfinite(value):
        return not_shown(measured)
    return rule(value > 0, measured)


@dataclass(frozen=True, kw_only=True)
class Claim:
    key: str
    section: str  # of the paper, or who else claims it
    says: str
    rule: str  # in words, with its threshold
    judge: Callable[[Figures], Ruling]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A claim with its ruling; `agree` of `seeds` single seeds come to the same verdict."""

    claim: Claim
    ruling: Ruling
    agree: int = 1
    seeds: int = 1


def findings(claims: Sequence[Claim], by_seed: Sequence[Figures]) -> list[Finding]:
    """The verdicts on the mean figures of all seeds."""
    together = mean(by_seed)
    found = []
    for claim in claims:
        ruling = claim.judge(together)
        agree = sum(claim.judge(figures).verdict == ruling.verdict for figures in by_seed)
        found.append(Finding(claim=claim, ruling=ruling, agree=agree, seeds=len(by_seed)))
    return found


def mean(by_seed: Sequence[Figures]) -> dict[str, float]:
    """Of each figure that every seed has."""
    names = [name for name in by_seed[0] if all(name in figures for figures in by_seed)]
    return {name: statistics.fmean(figures[name] for figures in by_seed) for name in names}


def spread(by_seed: Sequence[Figures]) -> dict[str, float]:
    """The standard deviation over seeds; empty for one seed."""
    if len(by_seed) < 2:
        return {}
    return {name: statistics.stdev(figures[name] for figures in by_seed) for name in mean(by_seed)}
