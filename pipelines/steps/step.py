"""A step: a stage, its config, and the steps whose results it reads. Data, and nothing but data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from jobs.stage import Stage
from pipelines.steps.fingerprint import canonical, fingerprint

Inputs = Mapping[str, "Step | tuple[Step, ...]"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """What is to be made. Two steps with the same fingerprint are the same step, whatever they are labelled.

    The names of `inputs` are the keyword arguments of the stage's job. A job that reads several rows of results gets
    them as one argument, `rows`, a mapping each.
    """

    stage: Stage
    config: Any  # a dataclass of jobs.configs
    inputs: Inputs = field(default_factory=dict)
    rows: tuple[Mapping[str, Step], ...] = ()
    label: str = ""  # for people: the row or set it belongs to
    tags: Mapping[str, str] = field(default_factory=dict)  # for MLflow: attn.table, attn.row, attn.set

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(
            stage=self.stage.name,
            version=self.stage.version,
            config=self.config,
            inputs=self.input_fingerprints(),
        )

    @property
    def key(self) -> str:
        """Where the result lives, relative to the workspace."""
        return f"{self.stage.name}/{self.fingerprint}"

    @property
    def name(self) -> str:
        return f"{self.stage.name} {self.label}".strip()

    def columns(self) -> dict[str, tuple[Step, ...]]:
        """The rows by the names of their columns: as they are hashed, and in the order in which they are made."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        return {name: tuple(row[name] for row in self.rows if name in row) for name in names}

    def parents(self) -> Iterator[Step]:
        for value in (*self.inputs.values(), *self.columns().values()):
            yield from value if isinstance(value, tuple) else (value,)

    def input_fingerprints(self) -> dict[str, Any]:
        return {
            name: [step.fingerprint for step in value] if isinstance(value, tuple) else value.fingerprint
            for name, value in (*self.inputs.items(), *self.columns().items())
        }

    def identity(self) -> dict[str, Any]:
        """What is hashed, readable: kept in the record, so that a plan can say what differs."""
        return {
            "stage": self.stage.name,
            "version": self.stage.version,
            "config": canonical(self.config),
            "inputs": self.input_fingerprints(),
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Step) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)
