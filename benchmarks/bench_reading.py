"""How fast is training fed from an object store? Micro-batches per second, beside one reader that opens pools anew.

The store      a directory of this machine behind a Python file system that waits before every request (20 and 50 ms).
The shards     45 pools of 1,000 micro-batches of 3,125 tokens, as WMT14 English to German has; --pools for fewer.
The reference  one thread, 16 pools open at a time, a footer read whenever a pool is opened: how it was done at first.
Ours           `read_ahead` of jobs/train/stream.py, as a worker of a training reads.

A base model on an A100 wants a micro-batch every 23 ms by calculation (43 a second), a big one every 48.

By hand   python benchmarks/bench_reading.py [--pools 45] [--batches 600]
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "fixtures"))

from slow_store import SlowStore  # noqa: E402  of the tests

from jobs.shards.cut import columns_of, describe, write  # noqa: E402
from jobs.shards.layout import pool_name, pool_schema  # noqa: E402
from jobs.storage.artifacts import Artifact  # noqa: E402
from jobs.train import pool_files  # noqa: E402
from jobs.train.stream import Index, Stream, ragged, read_ahead, read_index  # noqa: E402
from transformer.batching import Batch, batch  # noqa: E402

VOCABULARY, LENGTH, TOKENS, GROUPS = 37_000, 28, 3_125, 1_000
OPEN_POOLS = 16  # of the reference
AT_STORE = Artifact("s3://bucket/shards")


def make_shards(directory: Path, pools: int) -> Artifact:
    """Random subwords: what they are makes no difference to who reads them."""
    numbers = np.random.default_rng(1)
    (directory / "pools").mkdir(parents=True)
    pairs = TOKENS // (LENGTH + 1)
    offsets = np.arange(pairs + 1, dtype=np.int32) * LENGTH
    kind = pool_schema(VOCABULARY)
    batches = []
    for _ in range(GROUPS):
        sides = [numbers.integers(4, VOCABULARY, pairs * LENGTH).astype(np.uint16) for _ in range(2)]
        lists = [pa.ListArray.from_arrays(offsets, pa.array(side), type=kind.field(0).type) for side in sides]
        batches.append(pa.record_batch(lists, schema=kind))
    rows = []
    write(directory / pool_name(0), batches, VOCABULARY)
    for pool in range(pools):
        if pool:
            (directory / pool_name(pool)).symlink_to(directory / pool_name(0))
        rows += [describe(pool, group, each) for group, each in enumerate(batches)]
    pq.write_table(pa.table(columns_of(rows)), directory / "index.parquet")
    return Artifact(str(directory))


def reference(store: fs.FileSystem, shards: Artifact, index: Index, rows: Iterator[int]) -> Iterator[Batch]:
    opened: OrderedDict[int, pq.ParquetFile] = OrderedDict()
    for row in rows:
        pool = int(index.pool[row])
        if pool not in opened:
            if len(opened) >= OPEN_POOLS:
                opened.popitem(last=False)[1].close()
            opened[pool] = pq.ParquetFile(shards.at(pool_name(pool)), filesystem=store)
        opened.move_to_end(pool)
        table = opened[pool].read_row_group(int(index.row_group[row]))
        yield batch(ragged(table.column("source")), ragged(table.column("target")))


def rate(batches: Iterator[Batch], count: int) -> float:
    """A second, once it is under way."""
    for _ in islice(batches, count // 4):
        pass
    began = time.perf_counter()
    for _ in islice(batches, count):
        pass
    return count / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=int, default=45)
    parser.add_argument("--batches", type=int, default=600)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="attn-") as directory:
        shards = make_shards(Path(directory) / "shards", args.pools)
        index = read_index(shards)
        stream = Stream(index, seed=1, per_update=8)
        for milliseconds in (20, 50):
            measure(shards, index, stream, milliseconds, args.batches)
    print(f"memory of this process at most: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


def measure(shards: Artifact, index: Index, stream: Stream, milliseconds: int, count: int) -> None:
    slow = SlowStore(milliseconds / 1000)
    system = fs.PyFileSystem(slow)
    total = len(index)

    def rows() -> Iterator[int]:
        return (stream.row(position) for position in range(total))

    few = max(20, count // 10)
    before = rate(reference(system, shards, index, rows()), few)
    requests_before, slow.requests = slow.requests / (few + few // 4), 0
    with (
        patch.object(pool_files, "filesystem", lambda artifact, name: (system, shards.at(name))),
        closing(read_ahead(AT_STORE, index, rows())) as batches,
    ):
        ours = rate(batches, count)
        requests_ours = slow.requests / (count + count // 4)
    print(
        f"{milliseconds} ms a request: {ours:6.1f} micro-batches/s, {requests_ours:.2f} requests each; "
        f"the reference {before:5.1f}, {requests_before:.2f} each; {ours / before:.1f} times as many"
    )


if __name__ == "__main__":
    main()
