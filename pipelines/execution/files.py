"""The files of a result: listed in its record when it is made, looked at whenever somebody relies on it.

    "files": {"model.safetensors": {"bytes": 4714664, "sha256": "..."}, ...}

Sizes are compared at every plan and before every use; digests, which small files on a local disk have, by `attn verify
--deep`. A record without the list is older than this and is taken at its word.
"""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from jobs.storage.artifacts import RECORD, WORK, Artifact

FILES = "files"
DIGESTED = 2**26  # bytes: larger files have no digest, since reading them again would take long
DIGESTED_IN_ALL = 2**30


def is_record(record: Any, key: str) -> bool:
    """Whether it has the form of a record, and is that of the result `key`: somebody may have edited it."""
    if not isinstance(record, dict) or f"{record.get('stage')}/{record.get('fingerprint')}" != key:
        return False
    facts, made, files = record.get("facts"), record.get("made"), record.get(FILES) or {}
    return (
        isinstance(facts, dict)
        and isinstance(made, dict)
        and "when" in made
        and isinstance(files, dict)
        and all(isinstance(listed, dict) and isinstance(listed.get("bytes"), int) for listed in files.values())
    )


def belongs(name: str, kept_work: Sequence[str]) -> bool:
    """Whether a file is part of the result: not the record, not a lock, of the work only what the stage says."""
    if name == RECORD or any(part.startswith(".") for part in name.split("/")):
        return False
    return not name.startswith(f"{WORK}/") or any(fnmatch.fnmatch(name, pattern) for pattern in kept_work)


def listing(artifact: Artifact, kept_work: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """What the record says of the files that are there now."""
    listed: dict[str, dict[str, Any]] = {}
    left = DIGESTED_IN_ALL if artifact.is_local else 0
    for name, size in sorted(artifact.sizes().items()):
        if belongs(name, kept_work):
            listed[name] = {"bytes": size}
            if size <= min(left, DIGESTED):
                left -= size
                listed[name]["sha256"] = digest(artifact, name)
    return listed


def digest(artifact: Artifact, name: str) -> str:
    with artifact.local(name) as path, open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damage(record: Mapping[str, Any], artifact: Artifact, *, deep: bool = False) -> list[str]:
    """What is wrong with the files that the record lists, in words; nothing where all is well."""
    return damage_of(record, artifact, artifact.sizes(), deep=deep) if record.get(FILES) else []


def damage_of(
    record: Mapping[str, Any], artifact: Artifact, sizes: Mapping[str, int], *, deep: bool = False
) -> list[str]:
    """The same where the sizes are known already."""
    found: list[str] = []
    for name, listed in (record.get(FILES) or {}).items():
        if name not in sizes:
            found.append(f"{name} is missing")
        elif sizes[name] != listed["bytes"]:
            found.append(f"{name} has {sizes[name]:,} bytes and had {listed['bytes']:,}")
        elif deep and "sha256" in listed and digest(artifact, name) != listed["sha256"]:
            found.append(f"{name} is not what was written")
    return found


def in_words(found: Sequence[str]) -> str:
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
