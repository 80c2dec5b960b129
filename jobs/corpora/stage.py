"""The stage `corpora`: aligned pairs as Parquet."""

from __future__ import annotations

from jobs.configs import Resources
from jobs.stage import Estimate, Lineage, Stage, data_time

PAIRS_PER_CPU_SECOND = 60_000.0


def estimate(lineage: Lineage, on: Resources) -> Estimate | None:
    return data_time(lineage.config.known_pairs(), PAIRS_PER_CPU_SECOND, on, start_s=2.0)


COLUMNS = (("source", "string"), ("target", "string"))

CORPORA = Stage(name="corpora", job="jobs.corpora.job", estimate=estimate, is_dataset=True, columns=COLUMNS)
