"""Row groups of the pools by number, for several threads at once: one request each where the pools are on a store.

A Parquet file says in its footer where its row groups stand: 170 kB for a pool of WMT, which a store would be asked for
again and again. Footers are read once and kept compressed, 20 kB each; some are kept parsed, 2 MB each. With the footer
at hand the two columns of a row group, which stand side by side, are one ranged read.

Reads   shards/<id>/pools/pool-*.parquet, or copies of them on this node (jobs/train/local_copies.py)
"""

from __future__ import annotations

import threading
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from jobs.shards.layout import pool_name
from jobs.storage.artifacts import Artifact
from jobs.storage.object_store import filesystem
from jobs.train.local_copies import LocalCopies

PARSED_FOOTERS = 64
TAIL = 2**18  # bytes read from the end of a file: the footer is in it, or its length
TRAILER = 8  # bytes at the very end: the footer's length, and the format's name


class PoolFiles:
    """Files on a store stay open: that holds no connection there. A file of this node is opened for each read."""

    def __init__(self, shards: Artifact, copies: LocalCopies | None = None) -> None:
        self.shards = shards
        self.copies = copies
        self._open: dict[int, pa.NativeFile] = {}
        self._footers: dict[int, tuple[int, bytes]] = {}  # length, and the footer compressed
        self._locks: dict[int, threading.Lock] = {}
        self._parsed = lru_cache(maxsize=PARSED_FOOTERS)(self._parse)

    def read_row_group(self, pool: int, group: int) -> pa.Table:
        copy = self.copies.find(pool_name(pool)) if self.copies else None
        if copy is not None:
            with fs.LocalFileSystem().open_input_file(str(copy)) as file:
                return self._read(file, pool, group)
        if self.shards.is_local:
            with self._opened(pool) as file:
                return self._read(file, pool, group)
        return self._read(self._kept_open(pool), pool, group)

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
        self._parsed.cache_clear()

    def _read(self, file: pa.NativeFile, pool: int, group: int) -> pa.Table:
        with self._lock(pool):
            if pool not in self._footers:
                self._footers[pool] = read_footer(file)
        reader = pq.ParquetFile(file, metadata=self._parsed(pool), pre_buffer=True)
        return reader.read_row_group(group, use_threads=False)

    def _parse(self, pool: int) -> pq.FileMetaData:
        length, compressed = self._footers[pool]
        return pq.read_metadata(pa.BufferReader(pa.decompress(compressed, length, codec="zstd")))

    def _kept_open(self, pool: int) -> pa.NativeFile:
        with self._lock(pool):
            if pool not in self._open:
                self._open[pool] = self._opened(pool)
            return self._open[pool]

    def _lock(self, pool: int) -> threading.Lock:
        return self._locks.setdefault(pool, threading.Lock())

    def _opened(self, pool: int) -> pa.NativeFile:
        store, path = filesystem(self.shards, pool_name(pool))
        return store.open_input_file(path)


def read_footer(file: pa.NativeFile) -> tuple[int, bytes]:
    """(bytes of the footer with its trailer, the same compressed). One read unless the footer is very large."""
    size = file.size()
    tail = file.read_at(min(TAIL, size), max(0, size - TAIL))
    length = int.from_bytes(tail[-TRAILER:-4], "little") + TRAILER
    footer = tail[-length:] if length <= len(tail) else file.read_at(length, size - length)
    return length, pa.compress(footer, codec="zstd", asbytes=True)
