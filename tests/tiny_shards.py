"""Small shards in the format of jobs/shard.py, made directly: a language of numbers, reversed by translation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.artifacts import Artifact

VOCABULARY = 24


def tiny_shards(
    directory: Path, *, micro_batches: int = 12, pairs: int = 6, pools: int = 2, seed: int = 0, longest: int = 9
) -> Artifact:
    """`micro_batches` of `pairs` pairs each, spread over `pools` files. A target is its source backwards."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, int | str]] = []
    (directory / "pools").mkdir(parents=True)
    schema = pa.schema([("source", pa.list_(pa.uint16())), ("target", pa.list_(pa.uint16()))])
    for pool in range(pools):
        with pq.ParquetWriter(directory / "pools" / f"pool-{pool:05d}.parquet", schema) as writer:
            for group in range(len(range(pool, micro_batches, pools))):
                length = int(rng.integers(2, longest))
                sources = [rng.integers(4, VOCABULARY, int(rng.integers(1, length + 1))).tolist() for _ in range(pairs)]
                targets = [source[::-1] for source in sources]
                writer.write_table(pa.table({"source": sources, "target": targets}, schema=schema))
                rows.append(describe(pool, group, sources, targets))
    pq.write_table(pa.Table.from_pylist(rows), directory / "index.parquet")
    tokens = sum(int(row["target_tokens"]) for row in rows) // len(rows)
    about = {"vocabulary_size": VOCABULARY, "micro_batch_tokens": tokens, "micro_batches": micro_batches}
    (directory / "about.json").write_text(json.dumps(about))
    return Artifact(str(directory))


def describe(pool: int, group: int, sources: list[list[int]], targets: list[list[int]]) -> dict[str, int | str]:
    return {
        "pool": pool,
        "row_group": group,
        "pairs": len(sources),
        "source_tokens": sum(len(s) + 1 for s in sources),
        "target_tokens": sum(len(t) + 1 for t in targets),
        "longest_source": max(len(s) + 1 for s in sources),
        "longest_target": max(len(t) + 1 for t in targets),
        "digest": "",
    }
