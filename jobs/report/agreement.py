"""Our differences to base beside the paper's (Table 3), for the report and `attn results`. Standard library.

A sign is given only where a row differs from base by more than chance explains: by more than a margin that comes from
the spread of base over its seeds. With one seed of base nothing is known of chance, and there is no sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

LEVEL = 0.005  # the paper gives two decimals at most: a smaller difference of its figures is none
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # t for 95 %, by seeds of base from two on
MANY = 2.0  # t for more seeds than that
NO_SPREAD = "No signs: what chance does is known from several seeds of base, and there is one (--seeds 3)."


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A figure of a row: the mean over its seeds, and their standard deviation if there are several."""

    value: float
    spread: float | None = None
    seeds: int = 1


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A row minus base: ours, the paper's where it has both, and what chance explains of ours where that is known."""

    ours: float
    paper: float | None = None
    margin: float | None = None

    @property
    def agrees(self) -> bool | None:
        """Whether ours has the sign of the paper's; None where the paper sees no difference or ours may be chance."""
        if self.paper is None or abs(self.paper) < LEVEL:
            return None
        if self.margin is None or abs(self.ours) <= self.margin:
            return None
        return (self.ours > 0) == (self.paper > 0)


@dataclass(frozen=True, kw_only=True)
class Bleu:
    """One row's BLEU by both protocols, and what the paper has for it."""

    sacrebleu: Mean | None = None
    paper_protocol: Mean | None = None
    paper: float | None = None


def bleu_difference(row: Bleu, base: Bleu) -> Difference | None:
    """By the paper's protocol where both rows have it, else by sacreBLEU; None where one of them has no score."""
    both = row.paper_protocol is not None and base.paper_protocol is not None
    pair = (row.paper_protocol, base.paper_protocol) if both else (row.sacrebleu, base.sacrebleu)
    return difference(*pair, row.paper, base.paper)


def difference(
    row: Mean | None, base: Mean | None, paper_row: float | None, paper_base: float | None
) -> Difference | None:
    """None where one of the rows has no figure."""
    if row is None or base is None:
        return None
    paper = paper_row - paper_base if paper_row is not None and paper_base is not None else None
    return Difference(ours=row.value - base.value, paper=paper, margin=margin(row, base))


def margin(row: Mean, base: Mean) -> float | None:
    """What a row of so many seeds differs from base by chance, in 95 of 100 cases; the row's own spread is base's."""
    if base.spread is None or base.seeds < 2:
        return None
    student = STUDENT[base.seeds - 2] if base.seeds - 2 < len(STUDENT) else MANY
    return student * base.spread * math.sqrt(1 / row.seeds + 1 / base.seeds)


def rule(base: Mean | None, unit: str) -> str:
    """A sentence for below the table: when there is a sign."""
    one = Mean(value=0.0)
    if base is None or (chance := margin(one, base)) is None:
        return NO_SPREAD
    return (
        f"A sign is given where a row differs from base by more than the spread of base explains (95 %, {base.seeds} "
        f"seeds, ± {base.spread:.2f}): by more than {chance:.2f} {unit} for a row of one seed."
    )
