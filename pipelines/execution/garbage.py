"""What of a workspace nothing needs: looked for by `attn gc`, and removed when its user says so.

Needed are the reports and all that they stand on, and what a recipe without changes would use. Whatever is being made,
or was made within the last hour, is left alone, and so is every stage that this version does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jobs.stage import Stage
from jobs.storage.artifacts import RECORD, Artifact
from pipelines.execution.files import FILES
from pipelines.execution.workspace import Workspace
from pipelines.steps.plan import in_order
from pipelines.steps.step import Step

LOCK = ".lock"
FRESH_S = 3600.0
UNFINISHED = "unfinished: what an interrupted run would carry on from"
OUT_OF_DATE = "made by an earlier version of its stage: no recipe finds it any more"
UNNEEDED = "no report and no recipe stands on it"
LEFT_OVER = "left over from training: what it would have carried on from"


@dataclass(frozen=True)
class Found:
    """A result, or files of one. `why` is empty where it is needed."""

    key: str
    bytes: int
    why: str = ""
    files: tuple[str, ...] = ()  # only these; else all of it


@dataclass(frozen=True)
class Survey:
    results: Sequence[Found]
    under_way: Sequence[str]
    other: Mapping[str, int]  # what is no result: downloads, logs, tracking

    @property
    def unneeded(self) -> list[Found]:
        return [each for each in self.results if each.why]


def survey(workspace: Workspace, wanted: Iterable[Step]) -> Survey:
    """Everything there is. `wanted` are the last steps of the recipes that are known."""
    steps = in_order(wanted)
    stages = {step.stage.name: step.stage for step in steps}
    by_result, other = sizes_of(workspace.root.sizes(), stages)
    records = {key: record_of(workspace.root.child(key)) for key, sizes in by_result.items() if RECORD in sizes}
    under_way = [key for key, sizes in by_result.items() if is_locked(workspace.root.child(key), sizes)]
    needed = reachable(records, stages, {step.key for step in steps})
    results: list[Found] = []
    for key, sizes in sorted(by_result.items()):
        every = sum(sizes.values())
        record = records.get(key)
        if key in under_way or not every:
            results += [Found(key, every)] if every else []
        elif record is None:
            results.append(Found(key, every, UNFINISHED))
        elif is_fresh(record):
            results.append(Found(key, every))
        elif record["version"] != stages[key.partition("/")[0]].version:
            results.append(Found(key, every, OUT_OF_DATE))
        elif key not in needed:
            results.append(Found(key, every, UNNEEDED))
        else:
            left = left_over(record, sizes)
            results.append(Found(key, every - sum(sizes[name] for name in left)))
            if left:
                results.append(Found(key, sum(sizes[name] for name in left), LEFT_OVER, left))
    return Survey(results, under_way, other)


def sizes_of(files: Mapping[str, int], stages: Mapping[str, Stage]) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Bytes by result and file, and those of everything else by its directory."""
    results: dict[str, dict[str, int]] = {}
    other: dict[str, int] = {}
    for path, size in files.items():
        top, _, rest = path.partition("/")
        name, _, file = rest.partition("/")
        if top in stages and file:
            results.setdefault(f"{top}/{name}", {})[file] = size
        else:
            other[top] = other.get(top, 0) + size
    return results, other


def record_of(artifact: Artifact) -> dict[str, Any] | None:
    """None where it is damaged: then nobody can tell what it was made from."""
    try:
        record: dict[str, Any] = json.loads(artifact.read_bytes(RECORD))
        return record if {"version", "inputs", "made"} <= record.keys() else None
    except (ValueError, OSError, AttributeError):
        return None


def is_locked(artifact: Artifact, sizes: Mapping[str, int]) -> bool:
    """Whether somebody is making it."""
    if not any(name.partition("/")[0] == LOCK for name in sizes):
        return False
    lock = artifact.store.try_lock(artifact.at(LOCK))
    if lock is not None:
        lock.release()
    return lock is None


def is_fresh(record: Mapping[str, Any]) -> bool:
    made = datetime.fromisoformat(str(record["made"]["when"]))
    return (datetime.now(UTC) - made).total_seconds() < FRESH_S


def reachable(
    records: Mapping[str, Mapping[str, Any] | None], stages: Mapping[str, Stage], wanted: set[str]
) -> set[str]:
    """What a page that somebody may look at stands on, and what a known recipe uses; inputs and theirs."""
    by_fingerprint = {key.partition("/")[2]: key for key in records}
    found: set[str] = set()
    waiting = [key for key in records if key in wanted or stages[key.partition("/")[0]].publishes_files]
    waiting = [key for key in waiting if current(key, records, stages)]
    while waiting:
        key = waiting.pop()
        if key in found:
            continue
        found.add(key)
        inputs = (records[key] or {}).get("inputs", {})
        waiting += [by_fingerprint[each] for each in fingerprints(inputs) if each in by_fingerprint]
    return found


def current(key: str, records: Mapping[str, Mapping[str, Any] | None], stages: Mapping[str, Stage]) -> bool:
    record = records[key]
    return record is not None and record["version"] == stages[key.partition("/")[0]].version


def fingerprints(value: Any) -> list[str]:
    """All of them, however the inputs are nested."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, Mapping) else value
    return [each for item in inner for each in fingerprints(item)]


def left_over(record: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Files that do not belong to the finished result; none where its record has no list."""
    listed = record.get(FILES)
    if not listed:
        return ()
    return tuple(n for n in sizes if n not in listed and n != RECORD and not n.startswith("."))


def remove(workspace: Workspace, found: Found) -> bool:
    """Delete it, its record first; False where somebody has begun to make it meanwhile."""
    artifact = workspace.root.child(found.key)
    lock = artifact.store.try_lock(artifact.at(LOCK))
    if lock is None:
        return False
    try:
        if found.files:
            for name in found.files:
                artifact.delete(name)
            return True
        if artifact.exists(RECORD):
            artifact.delete(RECORD)
        for name in sorted({name.partition("/")[0] for name in artifact.names()} - {LOCK}):
            artifact.delete(name)
    finally:
        lock.release()
    return True
