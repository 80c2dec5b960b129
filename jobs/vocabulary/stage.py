"""The stage `vocabulary`: one SentencePiece model for both languages."""

from __future__ import annotations

from jobs.configs import Resources
from jobs.stage import Estimate, Lineage, Stage

SECONDS_PER_PAIR = 120.0 / 2_000_000


def estimate(lineage: Lineage, on: Resources) -> Estimate | None:
    pairs = lineage.corpus.known_pairs()
    if pairs is None:
        return None
    return Estimate(seconds=3.0 + SECONDS_PER_PAIR * min(pairs, lineage.config.sample_pairs))


VOCABULARY = Stage(name="vocabulary", job="jobs.vocabulary.job", estimate=estimate, is_vocabulary=True)
