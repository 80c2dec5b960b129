"""A pool of encoded pairs to micro-batches of like lengths: the second half of `shards`, one pool at a time.

Reads   shards/<id>/work/encoded/*.arrow      Writes  shards/<id>/pools/pool-00000.parquet, a micro-batch a row group

Legend  N pairs of the pool, in the order of their keys; lengths count END.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.shards.cleaning import SAMPLES
from jobs.shards.encode import Array
from jobs.shards.layout import INDEX_SCHEMA, encoded_name, pool_name, pool_schema
from jobs.storage.artifacts import Artifact
from jobs.storage.object_store import filesystem

PADDED = 2.0  # a side of a micro-batch, padding included, is at most so many times its share of tokens
BIN = 8  # width of a bar in the histograms of lengths


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """The parameters of `make_pool`."""

    encoded: Artifact
    pieces: int
    out: Artifact
    vocabulary_size: int
    micro_batch_tokens: int
    seed: int
    drop_duplicates: bool


def make_pool(pooling: Pooling, pool: int) -> dict[str, Any]:
    """Write one pool. Returns its micro-batches (rows of the index), the duplicates dropped, histograms of lengths."""
    gathered = gather(pooling, pool)
    stays = distinct(gathered) if pooling.drop_duplicates else np.ones(len(gathered), dtype=bool)
    pairs = gathered.filter(pa.array(stays))
    source_N, target_N = lengths(pairs["source"]) + 1, lengths(pairs["target"]) + 1
    batches = [pairs.take(members) for members in micro_batches(source_N, target_N, pooling.micro_batch_tokens)]
    batches.sort(key=lambda batch: random_order(digest(batch), pooling.seed))
    with pooling.out.writing(pool_name(pool)) as draft:
        write(draft, batches, pooling.vocabulary_size)
    return {
        "pool": pool,
        "index": columns_of([describe(pool, group, batch) for group, batch in enumerate(batches)]),
        "duplicates": int((~stays).sum()),
        "duplicate_samples": gathered.filter(pa.array(~stays)).slice(0, SAMPLES).to_pylist(),
        "source_lengths": np.bincount(source_N // BIN).tolist(),
        "target_lengths": np.bincount(target_N // BIN).tolist(),
    }


def gather(pooling: Pooling, pool: int) -> pa.RecordBatch:
    """The pairs that every piece of the corpus sent to this pool, in an order that only their content decides."""
    batches = []
    for number in range(pooling.pieces):
        system, path = filesystem(pooling.encoded, encoded_name(number))
        with system.open_input_file(path) as file:
            batches.append(pa.ipc.open_file(file).get_batch(pool))
    pairs = pa.concat_batches(batches)
    order = np.lexsort((lengths(pairs["source"]), lengths(pairs["target"]), pairs["key"].to_numpy()))
    return pairs.take(pa.array(order))


def lengths(lists: pa.ListArray) -> Array:
    return np.asarray(np.diff(lists.offsets.to_numpy()), dtype=np.int64)


def distinct(pairs: pa.RecordBatch) -> Array:
    """True for all but the later ones of equal pairs. Equal keys are candidates; the ids decide."""
    keys, source, target = pairs["key"].to_numpy(), pairs["source"], pairs["target"]
    stays = np.ones(len(pairs), dtype=bool)
    for at in map(int, np.flatnonzero(keys[1:] == keys[:-1]) + 1):
        stays[at] = not (source[at].equals(source[at - 1]) and target[at].equals(target[at - 1]))
    return stays


def micro_batches(source_N: Array, target_N: Array, tokens: int) -> list[Array]:
    """Cut the pairs into micro-batches of about `tokens` target tokens with as little padding as may be.

    All have as many tokens of source and target together, so that they take equally long: an update waits for the
    slowest worker. The pool is halved again and again, each time along the side that would be padded most, so that in
    the end both sides are of like lengths. (Sorting by the target alone leaves 13 % padding in the source.)
    """
    both_N = source_N + target_N
    total = int(target_N.sum())
    share = int(both_N.sum()) / max(1, round(total / tokens))  # of both in a micro-batch, so that none is left over
    limits = PADDED * tokens * max(1.0, int(source_N.sum()) / max(total, 1)), PADDED * tokens
    finished: list[Array] = []
    waiting = [np.arange(len(target_N))] if total else []
    while waiting:
        members = waiting.pop()
        source, target, both = source_N[members], target_N[members], both_N[members]
        padded = len(members) * int(source.max()), len(members) * int(target.max())
        shares = round(int(both.sum()) / share)
        if len(members) == 1 or (shares <= 1 and padded[0] <= limits[0] and padded[1] <= limits[1]):
            finished.append(members[np.lexsort((source, target))])
            continue
        shares = max(shares, 2)
        worse = source if padded[0] * int(target.sum()) > padded[1] * int(source.sum()) else target
        order = np.argsort(worse, kind="stable")
        middle = int(np.searchsorted(np.cumsum(both[order]), int(both.sum()) * (shares // 2) / shares, side="right"))
        middle = min(max(middle, 1), len(members) - 1)
        waiting += [members[order[:middle]], members[order[middle:]]]
    return finished


def digest(batch: pa.RecordBatch) -> str:
    """A name for the content of a micro-batch: equal content, equal name, whatever file it stands in."""
    content = blake2b(digest_size=16)
    for lists in (batch["source"], batch["target"]):
        content.update(lengths(lists).astype("<u4").tobytes())
        content.update(lists.flatten().to_numpy().astype("<u4").tobytes())
    return content.hexdigest()


def random_order(name: str, seed: int) -> bytes:
    """What the micro-batches of a file are sorted by: random, the same for the same content and seed."""
    return blake2b(name.encode(), digest_size=16, key=str(seed).encode()).digest()


def describe(pool: int, row_group: int, batch: pa.RecordBatch) -> dict[str, Any]:
    """A row of the index."""
    source, target = lengths(batch["source"]) + 1, lengths(batch["target"]) + 1
    return {
        "pool": pool,
        "row_group": row_group,
        "pairs": len(batch),
        "source_tokens": int(source.sum()),
        "target_tokens": int(target.sum()),
        "longest_source": int(source.max()),
        "longest_target": int(target.max()),
        "digest": digest(batch),
    }


def columns_of(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """The rows of the index as columns: a tenth of the size, and what Arrow takes."""
    return {name: [row[name] for row in rows] for name in INDEX_SCHEMA.names}


def write(path: Path, batches: Sequence[pa.RecordBatch], vocabulary_size: int) -> None:
    """Parquet as training reads it: any micro-batch by itself, in a fraction of a millisecond."""
    columns = pool_schema(vocabulary_size)
    with pq.ParquetWriter(
        path, columns, compression="zstd", compression_level=1, use_dictionary=False, write_statistics=False
    ) as writer:
        for batch in batches:
            writer.write_batch(batch.select(columns.names), row_group_size=len(batch))
