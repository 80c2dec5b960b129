"""Copies of the pools on a node's own disk, made while training reads: what is there is no longer asked of the store.

A profile asks for them (train.copy_shards) where nodes have disks to spare. One process of a node copies, all of its
workers read, and the next training on the same shards finds them. They are in the node's directory for temporary
files, and stay there.

Writes  attn-shards/<id>/pools/pool-*.parquet in the directory for temporary files
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

from jobs.storage.artifacts import Artifact, store

FREE_SHARE = 0.1  # of the disk: so much stays free


class LocalCopies:
    """The copies of one set of shards on this node."""

    def __init__(self, shards: Artifact, parent: Path | None = None) -> None:
        self.shards = shards
        parent = parent or Path(tempfile.gettempdir())
        self.directory = parent / "attn-shards" / blake2b(shards.uri.encode(), digest_size=8).hexdigest()

    def find(self, name: str) -> Path | None:
        """The copy of that file, if it is there: then it is whole."""
        file = self.directory / name
        return file if file.exists() else None

    def copy(self, names: Iterable[str], stop: threading.Event) -> None:
        """Copy what is missing, file by file, unless another process of this node does, or until the disk is full."""
        self.directory.mkdir(parents=True, exist_ok=True)
        lock = store("").try_lock(str(self.directory / "lock"))
        if lock is None:
            return
        try:
            for name in names:
                if stop.is_set() or not self._has_room():
                    return
                if self.find(name) is None:
                    self._copy(name)
        finally:
            lock.release()

    def _has_room(self) -> bool:
        disk = shutil.disk_usage(self.directory)
        return disk.free > FREE_SHARE * disk.total

    def _copy(self, name: str) -> None:
        file = self.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(".partial")
        self.shards.store.fetch(self.shards.at(name), draft)
        os.replace(draft, file)


@contextmanager
def copying(copies: LocalCopies | None, names: Iterable[str]) -> Iterator[None]:
    """Copy in a thread of its own meanwhile. Copies only save time: a disk or store that fails ends them, no more."""
    stop = threading.Event()

    def work() -> None:
        with suppress(OSError):
            if copies is not None:
                copies.copy(names, stop)

    thread = threading.Thread(target=work, daemon=True, name="copy-shards")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
