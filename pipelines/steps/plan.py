"""The order of steps, and the plan: for every step whether it is done, and if not, why not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pipelines.execution.files import in_words
from pipelines.execution.workspace import Workspace
from pipelines.steps.step import Step

SHORT = 32  # characters of a value in a reason
RECENT = 50  # records looked at to find what a step differs in


def in_order(targets: Iterable[Step]) -> list[Step]:
    """Every step that the targets stand on, each once, inputs first, rows in the order in which they are given."""
    steps: dict[str, Step] = {}

    def visit(step: Step) -> None:
        if step.key not in steps:
            for parent in step.parents():
                visit(parent)
            steps[step.key] = step

    for target in targets:
        visit(target)
    return list(steps.values())


def until(target: Step, stage: str) -> list[Step]:
    """The steps of one stage, to stop there instead of at the target."""
    return [step for step in in_order([target]) if step.stage.name == stage]


@dataclass(frozen=True)
class PlannedStep:
    step: Step
    state: Literal["done", "damaged", "to do"]
    why: str
    record: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Plan:
    """The one answer that both `attn plan` prints and `attn run` follows."""

    steps: Sequence[PlannedStep]

    @property
    def to_do(self) -> list[PlannedStep]:
        return [planned for planned in self.steps if planned.state == "to do"]

    @property
    def damaged(self) -> list[PlannedStep]:
        return [planned for planned in self.steps if planned.state == "damaged"]


def plan(targets: Iterable[Step], workspace: Workspace) -> Plan:
    planned: list[PlannedStep] = []
    pending: set[str] = set()
    older: dict[str, list[Mapping[str, Any]]] = {}
    steps = in_order(targets)
    records = workspace.records(steps)
    for step, record, damage in zip(steps, records, workspace.damages(steps, records), strict=True):
        if record is not None and damage:
            planned.append(PlannedStep(step, "damaged", in_words(damage), record))
            continue
        if record is not None:
            planned.append(
                PlannedStep(step, "done", f"made {str(record['made']['when'])[:16].replace('T', ' ')}", record)
            )
            continue
        waits = [parent for parent in step.parents() if parent.key in pending]
        pending.add(step.key)
        if step.stage.name not in older:
            older[step.stage.name] = workspace.recent_records(step.stage.name, RECENT)
        planned.append(PlannedStep(step, "to do", explain(step, waits, older[step.stage.name])))
    return Plan(planned)


def explain(step: Step, waits: Sequence[Step], older: Sequence[Mapping[str, Any]]) -> str:
    """Why a step must be made: what differs from the result most like it."""
    mine = flatten(step.identity()["config"])
    candidates = [(differences(mine, flatten(record["config"])), record) for record in older]
    if not candidates:
        return "never made"
    fewest, record = min(candidates, key=lambda pair: len(pair[0]))
    if record["version"] != step.stage.version:
        fewest = [f"version {record['version']} -> {step.stage.version}", *fewest]
    if fewest:
        return ", ".join(fewest[:3]) + (f" and {len(fewest) - 3} more" if len(fewest) > 3 else "")
    if waits:
        return "follows " + ", ".join(sorted({parent.stage.name for parent in waits}))
    changed = [name for name, value in step.input_fingerprints().items() if record["inputs"].get(name) != value]
    return "other " + ", ".join(changed)


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested plain data as dotted names."""
    if isinstance(value, Mapping):
        flat: dict[str, Any] = {}
        for key, item in value.items():
            flat |= flatten(item, f"{prefix}.{key}" if prefix else str(key))
        return flat
    return {prefix: value}


def in_short(value: Any) -> str:
    """A setting's value in a few words: of a list of things their names, of a long text its end."""
    if isinstance(value, list | tuple):
        named = [
            str(item["name"]) if isinstance(item, Mapping) and "name" in item else in_short(item) for item in value
        ]
        return ",".join(named) if len(named) <= 3 else f"{','.join(named[:2])} and {len(named) - 2} more"
    if isinstance(value, Mapping):
        return str(value.get("name") or value.get("class") or f"{len(value)} fields")
    text = str(value)
    return text if len(text) <= SHORT else f"...{text[-SHORT:]}"


def differences(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Setting by setting; of another kind of thing, such as a corpus of files, only that it is one."""
    if mine.get("class") != theirs.get("class"):
        return [f"{theirs.get('class')} -> {mine.get('class')}"]

    def shown(values: Mapping[str, Any], name: str) -> str:
        return in_short(values[name]) if name in values else "default"

    every = (name for name in mine.keys() | theirs.keys() if not name.endswith(".class"))
    names = sorted(name for name in every if mine.get(name) != theirs.get(name))
    return [f"{name} {shown(theirs, name)} -> {shown(mine, name)}" for name in names]
