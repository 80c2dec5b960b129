"""Our differences to base beside the paper's (Table 3), for the report and `attn results`. Standard library."""

from __future__ import annotations

from dataclasses import dataclass

LEVEL = 0.005  # the paper gives two decimals at most: a smaller difference of its figures is none


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A row minus base: ours, and the paper's where it has both."""

    ours: float
    paper: float | None = None

    @property
    def agrees(self) -> bool | None:
        """Whether ours has the sign of the paper's; None where the paper has no figure or sees no difference."""
        if self.paper is None or abs(self.paper) < LEVEL:
            return None
        return (self.ours > 0) == (self.paper > 0) and self.ours != 0


@dataclass(frozen=True, kw_only=True)
class Bleu:
    """One row's BLEU by both protocols, and what the paper has for it."""

    sacrebleu: float | None = None
    paper_protocol: float | None = None
    paper: float | None = None


def bleu_difference(row: Bleu, base: Bleu) -> Difference | None:
    """By the paper's protocol where both rows have it, else by sacreBLEU; None where one of them has no score."""
    ours = _minus(row.paper_protocol, base.paper_protocol)
    if ours is None:
        ours = _minus(row.sacrebleu, base.sacrebleu)
    return None if ours is None else Difference(ours=ours, paper=_minus(row.paper, base.paper))


def perplexity_difference(
    row: float | None, base: float | None, paper_row: float | None, paper_base: float | None
) -> Difference | None:
    ours = _minus(row, base)
    return None if ours is None else Difference(ours=ours, paper=_minus(paper_row, paper_base))


def _minus(left: float | None, right: float | None) -> float | None:
    return left - right if left is not None and right is not None else None
