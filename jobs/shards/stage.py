"""The stage `shards`: micro-batches of subword ids as Parquet, with an index."""

from __future__ import annotations

from jobs.configs import Resources
from jobs.stage import Demand, Estimate, Lineage, Stage, data_time

PAIRS_PER_CPU_SECOND = 8_000.0


def demand(on: Resources) -> Demand:
    return Demand(on.data.tasks * on.data.cpus_per_task)


def estimate(lineage: Lineage, on: Resources) -> Estimate | None:
    return data_time(lineage.inputs["corpora"].known_pairs(), PAIRS_PER_CPU_SECOND, on, start_s=5.0)


SHARDS = Stage(
    name="shards",
    job="jobs.shards.job",
    version=2,
    demand=demand,
    estimate=estimate,
    is_dataset=True,
    columns=(("source", "[long]"), ("target", "[long]")),
)
