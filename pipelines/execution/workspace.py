"""Where results live: one directory per step, `<stage>/<fingerprint>`, whole when its record is there.

A local directory or an object store's address. What this file promises: a record is read whole or refused with a
sentence, and one step is made by one process at a time, even if one dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from jobs.errors import UserError, reason_of
from jobs.passwords import take_password
from jobs.storage.artifacts import RECORD, WORK, Artifact, Lock
from pipelines.execution.files import FILES, damage, in_words, is_record, listing
from pipelines.steps.step import Step

DEFAULT = "workspace"
ADDRESS = re.compile(r"(s3|gs|gcs|az|abfs|abfss|http|https|file):")  # of a store, without its two slashes
AT_ONCE = 32  # requests to an object store


class Workspace:
    def __init__(self, uri: str | None = None) -> None:
        if uri is not None and not uri.strip():
            raise UserError("--workspace is empty: name a directory or s3://bucket/attn, or leave it out.")
        chosen = (uri or os.environ.get("ATTN_WORKSPACE", "").strip() or DEFAULT).removeprefix("file://")
        if "://" in chosen:
            chosen = take_password(chosen)
            if not chosen.partition("://")[2].partition("?")[0].strip("/"):
                raise UserError(f"The workspace {chosen} names no bucket: s3://bucket/attn would be one.")
        elif ADDRESS.match(chosen):
            raise UserError(f"The workspace {chosen} is no address: s3://bucket/attn would be one, with two slashes.")
        elif not chosen:
            raise UserError(f"The workspace {uri} names no directory.")
        elif "?" in chosen:
            raise UserError(
                f"The workspace {chosen} has a question mark in its path, which databases take for their own."
            )
        self.uri = chosen if "://" in chosen else str(Path(chosen).expanduser().absolute())
        self.root = Artifact(self.uri)
        if self.is_local:
            require_directory(Path(self.uri))

    @property
    def is_local(self) -> bool:
        return self.root.is_local

    def local_directory(self, name: str) -> Path:
        """A place on this machine for logs or the tracking database, beside the results where they are local."""
        base = Path(self.uri) if self.is_local else Path.cwd() / DEFAULT
        return base / name

    def check_writable(self) -> None:
        """Refuse a workspace that cannot be written, before any work is done."""
        try:
            self.root.write_text(".writable", "")
            self.root.delete(".writable")
        except OSError as error:
            raise UserError(f"The workspace {self.uri} cannot be written: {reason_of(error)}.") from error

    def artifact(self, step: Step) -> Artifact:
        return self.root.child(step.key)

    def record(self, step: Step) -> Mapping[str, Any] | None:
        """The record of a finished step; None if it was never finished."""
        try:
            text = self.artifact(step).read_bytes(RECORD)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise UserError(f"The record of {step.key} cannot be read: {reason_of(error)}.") from error
        return self._parsed(text, step.key)

    def finished(self, step: Step, recipe: str) -> Mapping[str, Any]:
        """The record of a step that must have been made."""
        record = self.record(step)
        if record is None:
            raise UserError(
                f"{step.stage.name} of {recipe} is not made yet in {self.uri}: `attn run {recipe}` with the same "
                "settings makes it."
            )
        self.require_whole(step, record, recipe)
        return record

    def require_whole(self, step: Step, record: Mapping[str, Any], recipe: str) -> None:
        """Refuse a result of which files are missing or cut, before anything is spent on it."""
        found = damage(record, self.artifact(step))
        if found:
            raise UserError(
                f"{step.name} of {recipe} is damaged: {in_words(found)} ({self.artifact(step).uri}). "
                f"`attn run {recipe} --again {step.key}` makes it again."
            )

    def damages(self, steps: Sequence[Step], records: Sequence[Mapping[str, Any] | None]) -> list[list[str]]:
        """Of each finished step, what is wrong with its files, in words."""
        with ThreadPoolExecutor(1 if self.is_local else AT_ONCE) as pool:
            pairs = zip(steps, records, strict=True)
            return list(pool.map(lambda pair: damage(pair[1], self.artifact(pair[0])) if pair[1] else [], pairs))

    def forget(self, step: Step) -> None:
        """Undo a result, so that it is made again: the record goes first, then everything beside it."""
        artifact = self.artifact(step)
        with self.claim(step) as mine:
            if not mine:
                raise UserError(f"{step.name} is being made by another run: wait for it, or stop it.")
            artifact.delete(RECORD)
            for name in artifact.names():
                if not name.startswith("."):
                    artifact.delete(name)

    def records(self, steps: Sequence[Step]) -> list[Mapping[str, Any] | None]:
        """Those of many steps, read in parallel: a remote store takes long for each."""
        with ThreadPoolExecutor(1 if self.is_local else AT_ONCE) as pool:
            return list(pool.map(self.record, steps))

    def _parsed(self, text: bytes, key: str) -> Mapping[str, Any]:
        try:
            record: Any = json.loads(text)
        except ValueError:
            record = None
        if not is_record(record, key):
            raise UserError(
                f"The record {self.root.at(key)}/{RECORD} is damaged, so the result beside it cannot be trusted. "
                f"Remove that directory to have it made again."
            )
        return cast(Mapping[str, Any], record)

    def recent_records(self, stage: str, most: int) -> list[Mapping[str, Any]]:
        """The newest records of a stage, for comparison; damaged ones are passed over."""

        def read(name: str) -> Mapping[str, Any] | None:
            with contextlib.suppress(UserError, OSError):
                return self._parsed(self.root.read_bytes(f"{stage}/{name}"), f"{stage}/{name.partition('/')[0]}")
            return None

        names = self.root.names(stage) if self.root.exists(stage) else []
        with ThreadPoolExecutor(1 if self.is_local else AT_ONCE) as pool:
            found = list(pool.map(read, (name for name in names if name.partition("/")[2] == RECORD)))
        return sorted(filter(None, found), key=lambda record: str(record["made"]["when"]))[-most:]

    def clear_leftovers(self, step: Step) -> Artifact:
        """The step's directory, empty but for the work that an interrupted job left to be carried on."""
        artifact = self.artifact(step)
        for name in artifact.names() if artifact.exists() else []:
            if not name.startswith((f"{WORK}/", ".")):
                artifact.delete(name)
        return artifact

    def finish(self, step: Step, facts: Mapping[str, Any], made: Mapping[str, Any]) -> Mapping[str, Any]:
        """Write the record: from this moment on the result exists."""
        files = listing(self.artifact(step), step.stage.kept_work)
        outcome = {"facts": dict(facts), "made": dict(made), FILES: files}
        record = {"fingerprint": step.fingerprint, **step.identity(), **outcome}
        self.artifact(step).write_json(RECORD, record)
        return record

    @contextlib.contextmanager
    def claim(self, step: Step) -> Iterator[Lock | None]:
        """Try to lock this step. None: another process is making it."""
        lock: Lock | None = self.artifact(step).store.try_lock(self.artifact(step).at(".lock"))
        try:
            yield lock
        finally:
            if lock is not None:
                lock.release()


def require_directory(place: Path) -> None:
    """Or what can become one: nothing is there, and what is above is a directory."""
    nearest = next(each for each in (place, *place.parents) if each.exists())
    if not nearest.is_dir():
        raise UserError(f"The workspace {place} cannot be written: {nearest} is no directory. Name another.")
