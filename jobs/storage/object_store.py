"""Results on an object store (S3, GCS, Azure) through pyarrow.fs; a local directory in the same view, for Parquet."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, TypeVar

from pyarrow import fs

from jobs.errors import UserError
from jobs.storage.artifacts import Artifact, Lock
from jobs.storage.leases import Lease, bucket_store

T = TypeVar("T")
TRIES = 4
STREAMED = 2**22  # bytes of a stream that are asked for at once
ATTEMPTS = 6  # of one request, by the store's own library: about ten seconds of 503 are survived


def filesystem(artifact: Artifact, name: str = "") -> tuple[fs.FileSystem, str]:
    """The pyarrow file system and path of a file, for libraries that read and write Parquet themselves."""
    return resolve(artifact.at(name))


def resolve(uri: str) -> tuple[fs.FileSystem, str]:
    if "://" not in uri:
        return fs.LocalFileSystem(), uri
    address, mark, query = uri.partition("?")
    scheme, _, rest = address.partition("://")
    bucket, _, key = rest.partition("/")
    return _bucket(f"{scheme}://{bucket}{mark}{query}"), f"{bucket}/{key}".rstrip("/")


@lru_cache
def _bucket(uri: str) -> fs.FileSystem:
    try:
        return with_more_retries(fs.FileSystem.from_uri(uri)[0])
    except (OSError, ValueError) as error:
        raise UserError(f"The storage address {uri} cannot be used: {error}") from error


def with_more_retries(store: fs.FileSystem) -> fs.FileSystem:
    """The same store with more attempts per request, for every reader of it; no address can express that."""
    if not isinstance(store, fs.S3FileSystem):
        return store  # Google's and Azure's libraries retry for minutes by themselves
    rebuild, (options,) = store.__reduce__()
    return rebuild({**options, "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS)})


def with_retries(act: Callable[[], T]) -> T:
    """Call `act`, and again after a pause if the store fails; a file that is not there is no failure."""
    for attempt in range(1, TRIES + 1):
        try:
            return act()
        except FileNotFoundError:
            raise
        except OSError:
            if attempt == TRIES:
                raise
            time.sleep(0.5 * 2**attempt)
    raise AssertionError("unreachable")


class ObjectStore:
    """One PUT makes an object appear whole, so every write is atomic already."""

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme

    def read_bytes(self, path: str) -> bytes:
        store, key = resolve(path)

        def read() -> bytes:
            with store.open_input_stream(key) as stream:
                return bytes(stream.read())

        return with_retries(read)

    def open(self, path: str) -> IO[bytes]:
        store, key = resolve(path)
        stream: Any = with_retries(lambda: store.open_input_file(key))
        return io.BufferedReader(stream, STREAMED)

    def write_bytes(self, path: str, data: bytes) -> None:
        store, key = resolve(path)

        def write() -> None:
            with store.open_output_stream(key) as stream:
                stream.write(data)

        with_retries(write)

    def exists(self, path: str) -> bool:
        store, key = resolve(path)
        info: Any = with_retries(lambda: store.get_file_info(key))
        return bool(info.type != fs.FileType.NotFound)

    def names(self, path: str) -> list[str]:
        return sorted(self.sizes(path))

    def sizes(self, path: str) -> dict[str, int]:
        store, key = resolve(path)
        selector = fs.FileSelector(key, recursive=True, allow_not_found=True)
        found: Any = with_retries(lambda: store.get_file_info(selector))
        return {entry.path[len(key) + 1 :]: int(entry.size) for entry in found if entry.type == fs.FileType.File}

    def delete(self, path: str) -> None:
        store, key = resolve(path)

        def remove() -> None:
            kind = store.get_file_info(key).type
            if kind == fs.FileType.Directory:
                store.delete_dir(key)
            elif kind == fs.FileType.File:
                store.delete_file(key)

        with_retries(remove)

    def fetch(self, path: str, to: Path) -> None:
        store, key = resolve(path)
        with_retries(
            lambda: fs.copy_files(key, str(to), source_filesystem=store, destination_filesystem=fs.LocalFileSystem())
        )

    def publish(self, file: Path, path: str) -> None:
        store, key = resolve(path)
        with_retries(
            lambda: fs.copy_files(str(file), key, source_filesystem=fs.LocalFileSystem(), destination_filesystem=store)
        )

    def try_lock(self, path: str) -> Lock | None:
        """None: another process, or another thread of this one, holds it."""
        address, mark, query = path.partition("?")
        scheme, _, rest = address.partition("://")
        bucket, _, key = rest.partition("/")
        region = getattr(resolve(path)[0], "region", None)  # of S3: the bucket's own, found out by pyarrow
        lease = Lease(bucket_store(f"{scheme}://{bucket}{mark}{query}", region), key)
        return lease if lease.take() else None
