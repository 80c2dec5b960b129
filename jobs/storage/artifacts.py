"""A result as a directory: on a local disk, or on an object store, with the same operations on both.

A result exists when its record exists, and the record is written last. Every write here is atomic: a reader sees the
whole file or none. Standard library only; an object store's library is loaded when an address asks for one.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Protocol, cast

RECORD = "record.json"
WORK = "work"  # what an unfinished job may find again when it is run again; everything else is cleared away


class Lock(Protocol):
    """Held until released, or until its holder dies or, on an object store, stands still for too long."""

    @property
    def lost(self) -> bool: ...  # known to be somebody else's by now
    def held(self) -> bool: ...  # the same asked of the store, which takes a request
    def release(self) -> None: ...


class Store(Protocol):
    """What a kind of storage can do. `path` is in the storage's own terms."""

    def read_bytes(self, path: str) -> bytes: ...
    def open(self, path: str) -> IO[bytes]: ...
    def write_bytes(self, path: str, data: bytes) -> None: ...
    def exists(self, path: str) -> bool: ...
    def names(self, path: str) -> list[str]: ...
    def sizes(self, path: str) -> dict[str, int]: ...
    def delete(self, path: str) -> None: ...
    def fetch(self, path: str, to: Path) -> None: ...
    def publish(self, file: Path, path: str) -> None: ...
    def try_lock(self, path: str) -> Lock | None: ...


class FileLock:
    """The operating system's own lock on a file: a killed process cannot keep it, and nobody can take it away."""

    lost = False

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def held(self) -> bool:
        return True

    def release(self) -> None:
        os.close(self.handle)


class LocalStore:
    """A directory on this machine, or on a file system that the whole cluster mounts."""

    def read_bytes(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def open(self, path: str) -> IO[bytes]:
        return open(path, "rb")

    def write_bytes(self, path: str, data: bytes) -> None:
        with self._replacing(path) as partial:
            partial.write_bytes(data)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def names(self, path: str) -> list[str]:
        root = os.path.join(path, "")
        found = (os.path.join(directory, file) for directory, _, files in os.walk(path) for file in files)
        return sorted(name.removeprefix(root) for name in found if not name.endswith(".partial"))

    def sizes(self, path: str) -> dict[str, int]:
        found = {}
        for name in self.names(path):
            with contextlib.suppress(FileNotFoundError):  # of a file that somebody else has just removed
                found[name] = os.stat(os.path.join(path, name)).st_size
        return found

    def delete(self, path: str) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            Path(path).unlink(missing_ok=True)

    def fetch(self, path: str, to: Path) -> None:
        shutil.copyfile(path, to)

    def publish(self, file: Path, path: str) -> None:
        with self._replacing(path) as partial:
            shutil.copyfile(file, partial)

    def try_lock(self, path: str) -> Lock | None:
        """None: another process, or another thread of this one, holds it."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return FileLock(handle)

    @contextlib.contextmanager
    def _replacing(self, path: str) -> Iterator[Path]:
        """Hand out a file beside `path` that takes its place, on disk, when all went well."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=os.path.dirname(path), suffix=".partial")
        os.close(handle)
        try:
            yield Path(name)
            with open(name, "rb") as written:
                os.fsync(written.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


@lru_cache
def store(scheme: str) -> Store:
    """The storage behind an address; '' is the local disk."""
    if scheme == "":
        return LocalStore()
    return cast(Store, importlib.import_module("jobs.storage.object_store").ObjectStore(scheme))


def scheme_of(uri: str) -> str:
    """'s3' of s3://bucket/prefix; '' of a local path."""
    return uri.partition("://")[0] if "://" in uri else ""


@dataclass(frozen=True)
class Artifact:
    """A directory of results. `uri` is an absolute local path or an object store's address (its ?query is kept)."""

    uri: str

    def at(self, name: str = "") -> str:
        """The address of a file in this directory."""
        address, mark, query = self.uri.partition("?")
        return f"{address.rstrip('/')}/{name}{mark}{query}" if name else self.uri

    def child(self, name: str) -> Artifact:
        return Artifact(self.at(name))

    @property
    def store(self) -> Store:
        return store(scheme_of(self.uri))

    @property
    def is_local(self) -> bool:
        return scheme_of(self.uri) == ""

    def exists(self, name: str = "") -> bool:
        return self.store.exists(self.at(name))

    def names(self, under: str = "") -> list[str]:
        """Every file below, as a path relative to `under`, sorted."""
        return self.store.names(self.at(under))

    def sizes(self, under: str = "") -> dict[str, int]:
        """The same with the bytes of each."""
        return self.store.sizes(self.at(under))

    def read_bytes(self, name: str) -> bytes:
        return self.store.read_bytes(self.at(name))

    def open(self, name: str) -> IO[bytes]:
        """The file to be read as a stream, with seeks: what is read is fetched, and nothing else."""
        return self.store.open(self.at(name))

    def write_bytes(self, name: str, data: bytes) -> None:
        self.store.write_bytes(self.at(name), data)

    def read_text(self, name: str) -> str:
        return self.read_bytes(name).decode("utf-8")

    def write_text(self, name: str, text: str) -> None:
        self.write_bytes(name, text.encode("utf-8"))

    def read_json(self, name: str) -> Any:
        return json.loads(self.read_bytes(name))

    def write_json(self, name: str, value: Any) -> None:
        self.write_text(name, json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def delete(self, name: str = "") -> None:
        self.store.delete(self.at(name))

    def publish(self, file: Path, name: str) -> None:
        """Put a finished local file here."""
        self.store.publish(file, self.at(name))

    @contextlib.contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """The file as a path that any library can open: itself on a local disk, else a copy for as long as needed."""
        if self.is_local:
            yield Path(self.at(name))
            return
        with tempfile.TemporaryDirectory(prefix="attn-") as directory:
            copy = Path(directory) / Path(name).name
            self.store.fetch(self.at(name), copy)
            yield copy

    @contextlib.contextmanager
    def directory(self) -> Iterator[Path]:
        """The files at the top of this directory as a local directory: itself, or a copy for as long as needed."""
        if self.is_local:
            yield Path(self.uri)
            return
        with tempfile.TemporaryDirectory(prefix="attn-") as copy:
            for name in self.names():
                if "/" not in name:
                    self.store.fetch(self.at(name), Path(copy) / name)
            yield Path(copy)

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """A local path to write to; what is there at the end is put here whole, or not at all."""
        with tempfile.TemporaryDirectory(prefix="attn-") as directory:
            draft = Path(directory) / Path(name).name
            yield draft
            self.publish(draft, name)

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that the job returned. Only a finished result has any."""
        return cast(dict[str, Any], self.read_json(RECORD)["facts"])
