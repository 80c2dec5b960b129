"""The stage `vocabulary`: one SentencePiece model for both languages."""

from __future__ import annotations

from jobs.configs import Resources
from jobs.stage import Demand, Estimate, Lineage, Stage

SECONDS_PER_PAIR = 120.0 / 2_000_000
THREADS = 4  # not the machine's number: what is learned depends on it


def estimate(lineage: Lineage, on: Resources) -> Estimate | None:
    pairs = lineage.inputs["corpora"].known_pairs()
    if pairs is None:
        return None
    return Estimate(seconds=3.0 + SECONDS_PER_PAIR * min(pairs, lineage.config.sample_pairs))


def demand(on: Resources) -> Demand:
    """SentencePiece always works with THREADS threads; where the profile has fewer CPUs for data, they share those."""
    return Demand(min(float(THREADS), on.data.tasks * on.data.cpus_per_task))


VOCABULARY = Stage(name="vocabulary", job="jobs.vocabulary.job", demand=demand, estimate=estimate, is_vocabulary=True)
