"""The endless stream of micro-batches that training reads, straight from the shards' Parquet files.

`index.parquet` lists the micro-batches; an epoch is a seeded permutation of it; each update takes the next `per_update`
positions. A micro-batch is one row group, read when it is wanted: memory does not grow with the corpus.

Reads   shards/<id>/index.parquet, pools/pool-*.parquet
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from jobs.errors import UserError
from jobs.shards.layout import INDEX, PLACE, SIZES, pool_name
from jobs.storage.artifacts import Artifact
from jobs.storage.object_store import filesystem
from jobs.train.local_copies import LocalCopies, copying
from jobs.train.pool_files import PoolFiles
from transformer.batching import Batch, Ragged, batch

S = TypeVar("S")
T = TypeVar("T")
STORE_READERS = 16  # requests to a store at once: at 50 ms each they are 320 micro-batches a second


@dataclass(frozen=True)
class Index:
    """What each micro-batch holds, one array per column; END is counted in every length."""

    pool: NDArray[np.int64]
    row_group: NDArray[np.int64]
    pairs: NDArray[np.int64]
    source_tokens: NDArray[np.int64]
    target_tokens: NDArray[np.int64]
    longest_source: NDArray[np.int64]
    longest_target: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.pool)

    @property
    def longest(self) -> int:
        return int(max(self.longest_source.max(), self.longest_target.max()))

    @property
    def padded_tokens(self) -> NDArray[np.int64]:
        """Places of both sides' rectangles, real or padding."""
        return self.pairs * (self.longest_source + self.longest_target)


def read_index(shards: Artifact) -> Index:
    store, path = filesystem(shards, INDEX)
    try:
        table = pq.read_table(path, filesystem=store, columns=[*PLACE, *SIZES])
    except FileNotFoundError as error:
        raise UserError(f"There are no shards at {shards.uri}: {INDEX} is missing. Make them first.") from error
    index = Index(**{name: table.column(name).to_numpy().astype(np.int64) for name in (*PLACE, *SIZES)})
    if len(index) == 0:
        raise UserError(
            f"The shards at {shards.uri} are empty: no pair was left after cleaning. "
            f"Loosen shards.cleaning, or give more text."
        )
    return index


@dataclass(frozen=True)
class Stream:
    """Position p of the stream is a row of the index: epoch p // n, place p % n of that epoch's permutation."""

    index: Index
    seed: int
    per_update: int

    def row(self, position: int) -> int:
        epoch, place = divmod(position, len(self.index))
        return int(permutation(self.seed, epoch, len(self.index))[place])

    def rows(self, update: int) -> NDArray[np.int64]:
        """Rows of the index that make up an update, over all workers."""
        return np.array([self.row(position) for position in self.positions(update)], dtype=np.int64)

    def positions(self, update: int) -> range:
        """Of update number `update`, counted from 1, over all workers."""
        return range((update - 1) * self.per_update, update * self.per_update)


@lru_cache(maxsize=3)
def permutation(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    return np.random.default_rng((seed, epoch)).permutation(count)


class Reader:
    """Micro-batches by their row of the index, for several threads at once."""

    def __init__(self, shards: Artifact, index: Index, copies: LocalCopies | None = None) -> None:
        self.index = index
        self.files = PoolFiles(shards, copies)

    def read(self, row: int) -> Batch:
        table = self.files.read_row_group(int(self.index.pool[row]), int(self.index.row_group[row]))
        return batch(ragged(table.column("source")), ragged(table.column("target")))

    def close(self) -> None:
        self.files.close()


def ragged(column: pa.ChunkedArray) -> Ragged:
    lists = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    offsets = lists.offsets.to_numpy()
    values = lists.values.to_numpy()[offsets[0] : offsets[-1]]
    return Ragged(values, offsets.astype(np.int64) - offsets[0])


def prefetch(make: Callable[[], Generator[T]], depth: int) -> Generator[T]:
    """The items of `make()`, made by a thread of its own up to `depth` ahead. Closing the iterator ends the thread."""
    items: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def work() -> None:
        try:
            with closing(make()) as made:
                for item in made:
                    items.put(("item", item))
                    if stop.is_set():
                        return
            items.put(("end", None))
        except BaseException as error:
            items.put(("error", error))

    thread = threading.Thread(target=work, daemon=True, name="prefetch")
    thread.start()
    try:
        while True:
            kind, value = items.get()
            if kind == "error":
                raise value
            if kind == "end":
                return
            yield value
    finally:
        stop.set()
        while thread.is_alive():  # it may wait for room
            with suppress(queue.Empty):
                items.get_nowait()
            thread.join(0.01)


def side_by_side(act: Callable[[S], T], items: Iterable[S], *, readers: int, depth: int) -> Generator[T]:
    """`act` of each item, in order, by so many threads; at most `depth` results are made or under way."""
    remaining = iter(items)
    with ThreadPoolExecutor(readers, thread_name_prefix="reader") as pool:
        due = deque(pool.submit(act, item) for item in islice(remaining, depth))
        try:
            while due:
                made = due.popleft().result()
                due.extend(pool.submit(act, item) for item in islice(remaining, 1))
                yield made
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def read_ahead(
    shards: Artifact, index: Index, rows: Iterable[int], *, depth: int = 4, pin: bool = False, copy: bool = False
) -> Generator[Batch]:
    """Batches of these rows, in order, read off the calling thread: from a store by many threads, for each waits most
    of its time. With `copy`, pools are copied to this node meanwhile."""
    copies = LocalCopies(shards) if copy and not shards.is_local else None
    readers = 1 if shards.is_local else STORE_READERS
    names = (pool_name(pool) for pool in np.unique(index.pool).tolist())
    if pa.io_thread_count() < readers:  # Arrow reads ranges in threads of its own
        pa.set_io_thread_count(readers)

    def make() -> Generator[Batch]:
        def read(row: int) -> Batch:
            made = reader.read(row)
            return made.pinned() if pin else made

        with copying(copies, names), closing(Reader(shards, index, copies)) as reader:
            if readers == 1:
                yield from map(read, rows)
            else:
                yield from side_by_side(read, rows, readers=readers, depth=2 * readers)

    return prefetch(make, depth)
