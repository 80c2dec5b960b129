"""Is one system really better than another on the same references, or could it be chance? Paired bootstrap resampling.

Both systems' BLEU is counted on the same resamples of the test set. The p-value is the share of resamples whose
difference strays from the mean difference at least as far as the observed difference is from zero (two-sided, ties
counted), so two equal systems have p = 1. With n resamples no p-value is below 1 / (n + 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

TOLERANCE = 1e-9  # of a BLEU point: differences this close are a tie


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Two systems on the same references. `p_value`: how often chance alone would set them this far apart."""

    baseline: float
    system: float
    p_value: float
    floor: float  # no p-value of this many resamples is lower
    signature: str


def compare(
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[str],
    *,
    samples: int = 1_000,
    seed: int = 12_345,
) -> Difference:
    """Is `system` really better or worse than `baseline`, by 13a BLEU?"""
    if not references or not len(baseline) == len(system) == len(references):
        counts = f"{len(baseline)} and {len(system)} translations"
        raise ValueError(f"{counts} cannot be compared on {len(references)} references")
    counted = [counts_of(hypotheses, references) for hypotheses in (baseline, system)]
    first, second = (score(counts.sum(axis=0)) for counts in counted)
    rng = np.random.default_rng(seed)
    differences = np.empty(samples)
    for sample in range(samples):
        chosen = rng.integers(0, len(references), len(references))
        differences[sample] = score(counted[1][chosen].sum(axis=0)) - score(counted[0][chosen].sum(axis=0))
    strays = int(np.sum(np.abs(differences - differences.mean()) >= abs(second - first) - TOLERANCE))
    metric = BLEU(tokenize="13a")
    metric.corpus_score(list(system), [list(references)])
    return Difference(
        baseline=first,
        system=second,
        p_value=(strays + 1) / (samples + 1),
        floor=1 / (samples + 1),
        signature=f"{metric.get_signature().format()}|paired-bootstrap:{samples}|seed:{seed}",
    )


def counts_of(hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.int64]:
    """What BLEU adds up over a corpus, by sentence: two lengths, four counts of right n-grams, four of all n-grams."""
    metric = BLEU(tokenize="13a", effective_order=True)  # of single sentences; the counts are the same
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        found = metric.sentence_score(hypothesis, [reference])
        rows.append([found.sys_len, found.ref_len, *found.counts, *found.totals])
    return np.array(rows, dtype=np.int64)


def score(counts: NDArray[np.int64]) -> float:
    """Corpus BLEU of added-up counts, smoothed as sacreBLEU does by default."""
    sys_len, ref_len, *ngrams = (int(count) for count in counts)
    return float(BLEU.compute_bleu(ngrams[:4], ngrams[4:], sys_len, ref_len, smooth_method="exp").score)
