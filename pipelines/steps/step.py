"""A step: one job, its config, and the steps whose results it reads. Data, and nothing but data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pipelines.steps.fingerprint import canonical, fingerprint

Inputs = Mapping[str, "Step | tuple[Step, ...]"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """What is to be made. Two steps with the same fingerprint are the same step, whatever they are labelled."""

    stage: str  # the directory of its kind: train, translate, ...
    job: str  # the module whose run() makes it
    config: Any  # a dataclass of jobs.configs
    inputs: Inputs = field(default_factory=dict)
    version: int = 1  # raised when the job's meaning changes
    label: str = ""  # for people: the row or set it belongs to
    tags: Mapping[str, str] = field(default_factory=dict)  # for MLflow: attn.table, attn.row, attn.set

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(stage=self.stage, version=self.version, config=self.config, inputs=self.input_fingerprints())

    @property
    def key(self) -> str:
        """Where the result lives, relative to the workspace."""
        return f"{self.stage}/{self.fingerprint}"

    @property
    def name(self) -> str:
        return f"{self.stage} {self.label}".strip()

    def parents(self) -> Iterator[Step]:
        for value in self.inputs.values():
            yield from value if isinstance(value, tuple) else (value,)

    def input_fingerprints(self) -> dict[str, Any]:
        return {
            name: [step.fingerprint for step in value] if isinstance(value, tuple) else value.fingerprint
            for name, value in self.inputs.items()
        }

    def identity(self) -> dict[str, Any]:
        """What is hashed, readable: kept in the record, so that a plan can say what differs."""
        return {
            "stage": self.stage,
            "version": self.version,
            "config": canonical(self.config),
            "inputs": self.input_fingerprints(),
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Step) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)
