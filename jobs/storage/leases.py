"""A lock on an object store: one object that names its owner, taken, renewed and given back by conditional writes.

The store itself decides: `If-None-Match` lets one of many create the object, `If-Match` lets only who saw its last
state replace it. A holder renews it every HEARTBEAT_S; one that was silent for STALE_S has it taken away, and learns so
by its next renewal, so that a process that stood still never ends up as one of two holders. `pyarrow.fs` has no
conditional writes, so this file alone uses `obstore`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import platform
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import ObjectStore, from_url

from jobs.errors import UserError, first_line

HEARTBEAT_S = 10.0
STALE_S = 60.0  # by the store's own clock
FREE = b'{"owner": null}'
RETRIES: Any = {"max_retries": 6}


@dataclass(frozen=True)
class State:
    """What the lock's object says, and the mark by which a conditional write refers to it."""

    owner: str | None
    written: float  # seconds since 1970, by the store's clock
    mark: Mapping[str, str]


class Lease:
    """The lock, ours until released or lost. A thread of this process renews it."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self.store, self.key = store, key
        self.owner = f"{platform.node()}:{os.getpid()}:{uuid.uuid4().hex}"
        self.mark: Mapping[str, str] | None = None
        self.beats = 0
        self.lost = False
        self.ended = threading.Event()
        self.writing = threading.Lock()

    def take(self) -> bool:
        """Create the object, or replace one that is free or whose owner was silent for too long."""
        if self._write("create"):
            return self._start()
        found = read(self.store, self.key)
        if found is None or (found.owner is not None and self._now() - found.written < STALE_S):
            return False
        return self._write(found.mark) and self._start()

    def held(self) -> bool:
        """Whether it is still ours: the store is asked, by renewing it."""
        with self.writing:
            if not self.lost and not self.ended.is_set():
                self.lost = self.mark is None or not self._write(self.mark)
            return not self.lost

    def release(self) -> None:
        self.ended.set()
        self.thread.join()
        with self.writing:
            if not self.lost and self.mark is not None:
                with contextlib.suppress(UserError):  # the store is away: it will be found silent
                    self._put(FREE, self.mark)  # refused if somebody has taken it: then it is theirs to give back

    def _start(self) -> bool:
        self.thread = threading.Thread(target=self._keep, daemon=True, name="lease")
        self.thread.start()
        return True

    def _keep(self) -> None:
        while not self.ended.wait(HEARTBEAT_S):
            with contextlib.suppress(UserError):  # the store is away: the next beat may get through
                if not self.held():
                    return

    def _write(self, condition: Any) -> bool:
        """Write our name on that condition. A write that the store took though its answer was lost is found again."""
        self.beats += 1  # no two states are alike, or a mark could not tell them apart
        content = json.dumps({"owner": self.owner, "beat": self.beats}).encode()
        mark = self._put(content, condition)
        if mark is None:
            found = read(self.store, self.key)
            mark = found.mark if found is not None and found.owner == self.owner else None
        if mark is not None:
            self.mark = mark
        return mark is not None

    def _put(self, content: bytes, condition: Any) -> Mapping[str, str] | None:
        """The mark of what was written; None: the condition does not hold."""
        try:
            return marks(obstore.put(self.store, self.key, content, mode=condition))
        except (AlreadyExistsError, PreconditionError):
            return None
        except (BaseError, FileNotFoundError) as error:
            raise refused(self.key, error) from error

    def _now(self) -> float:
        """The store's clock: this machine's may be another."""
        probe = f"{self.key}-clock-{uuid.uuid4().hex}"
        try:
            obstore.put(self.store, probe, b"")
            now = obstore.head(self.store, probe)["last_modified"].timestamp()
            obstore.delete(self.store, probe)
        except BaseError as error:
            raise refused(self.key, error) from error
        return now


def read(store: ObjectStore, key: str) -> State | None:
    try:
        answer = obstore.get(store, key)
        content, meta = bytes(answer.bytes()), answer.meta
    except FileNotFoundError:
        return None
    except BaseError as error:
        raise refused(key, error) from error
    owner = json.loads(content)["owner"]
    return State(owner, meta["last_modified"].timestamp(), marks(meta))


def marks(answer: Any) -> Mapping[str, str]:
    """The fields of an answer that a conditional write refers to; a store has one or both."""
    return {name: answer[name] for name in ("e_tag", "version") if answer.get(name)}


def refused(key: str, error: Exception) -> UserError:
    first = first_line(error)
    return UserError(f"The object store refused the lock {key}: {first} Nothing is lost: run the same again.")


@lru_cache
def bucket_store(bucket_uri: str, region: str | None) -> ObjectStore:
    """The store behind scheme://bucket?options, where the options are those of pyarrow's addresses."""
    address, _, query = bucket_uri.partition("?")
    options = dict(parse_qsl(query))
    config: dict[str, Any] = {"client_options": {"allow_http": True}, "retry_config": RETRIES}
    if address.startswith("s3://"):
        names = {"access_key": "access_key_id", "secret_key": "secret_access_key"}
        config |= {name: options[theirs] for theirs, name in names.items() if theirs in options}
        if "endpoint_override" in options:
            endpoint = options["endpoint_override"]
            config["endpoint"] = endpoint if "://" in endpoint else f"{options.get('scheme', 'https')}://{endpoint}"
        if region:
            config["region"] = region
        if "access_key" not in options and "AWS_ACCESS_KEY_ID" not in os.environ and find_spec("boto3"):
            provider = importlib.import_module("obstore.auth.boto3")
            config["credential_provider"] = provider.Boto3CredentialProvider()  # knows the profiles of ~/.aws, too
    try:
        return from_url(address, **config)
    except (BaseError, ValueError, TypeError) as error:
        first = first_line(error)
        raise UserError(f"The storage address {bucket_uri} cannot be used for locks: {first}") from error
