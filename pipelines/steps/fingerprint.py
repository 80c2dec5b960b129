"""A result is named by what made it: the hash of a config and of the hashes of its inputs.

Canonical JSON of a config holds its class name and the fields that differ from their default, so that a new field whose
default changes nothing renames nothing. A place (`where()`) is left out; a user's file (`content()`) counts by its
content. Never pickled, never the source text, never the name somebody gave it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobs.corpora import tree_files
from jobs.errors import UserError, reason_of

LENGTH = 16  # hexadecimal digits of a fingerprint: 64 bits


def fingerprint(*, stage: str, version: int, config: Any, inputs: Mapping[str, Any]) -> str:
    """`inputs` are the fingerprints of the inputs by name: one, or a list of them."""
    identity = {"stage": stage, "version": version, "config": canonical(config), "inputs": inputs}
    return hashlib.sha256(compact(identity).encode()).hexdigest()[:LENGTH]


def compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical(value: Any) -> Any:
    """Plain data that is equal for equal configs and survives renaming, reordering and defaults."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kept = {}
        for field in dataclasses.fields(value):
            item, kind = getattr(value, field.name), field.metadata.get("identity")
            if kind == "where" or item == default_of(field):
                continue
            kept[field.name] = content_digest(item) if kind == "content" else canonical(item)
        return {"class": type(value).__name__, **kept}
    if isinstance(value, Mapping):
        return {str(key): canonical(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)  # 2.0 and 2 are the same setting
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"a config may hold plain data only, not {type(value).__name__}")


def default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default  # MISSING equals nothing a config may hold


def content_digest(value: str | tuple[str, ...]) -> str | list[str]:
    """Of a file; of several, each a file, a directory, a glob, or an archive with a #folder inside it."""
    if isinstance(value, str):
        return file_digest(value)
    return [several_digest(tree_files.found(address)) for address in value]


def several_digest(files: Sequence[tree_files.TreeFile]) -> str:
    """By content and order; the names count only for what they choose inside an archive."""
    digests = file_digests([str(file.path) for file in files])
    parts = [[digest, file.folder] for digest, file in zip(digests, files, strict=True)]
    return hashlib.sha256(compact(parts).encode()).hexdigest()


def file_digest(path: str) -> str:
    """sha256 of a file's content."""
    return file_digests([path])[0]


def file_digests(paths: Sequence[str]) -> list[str]:
    """Remembered by path, size and time of change, since corpora are large."""
    known = _remembered()
    found, before = [], len(known)
    for path in paths:
        file = Path(path).expanduser()
        try:
            state = file.stat()
            with open(file, "rb") as stream:
                key = f"{file.resolve()}|{state.st_size}|{state.st_mtime_ns}"
                if key not in known:
                    known[key] = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise UserError(f"The file {path} cannot be read: {reason_of(error)}.") from error
        found.append(known[key])
    if len(known) > before:
        _remember(known)
    return found


def _memory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "attn" / "digests.json"


def _remembered() -> dict[str, str]:
    try:
        return dict(json.loads(_memory().read_text()))
    except (OSError, ValueError):
        return {}


def _remember(known: dict[str, str]) -> None:
    """A convenience: where it cannot be written, digests are computed again."""
    try:
        _memory().parent.mkdir(parents=True, exist_ok=True)
        partial = _memory().with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(known))
        partial.replace(_memory())
    except OSError:
        return
