"""What the driver tells its training workers, and the mailbox through which rank 0 answers. Loads no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jobs.artifacts import Artifact
from jobs.events import Event
from transformer.config import ModelConfig, TrainingConfig


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A training run as its workers see it. The fields after `per_update` say where and how, and change no result."""

    model: ModelConfig
    training: TrainingConfig
    vocabulary_size: int
    per_update: int  # micro-batches, over all workers
    shards: Artifact
    dev: Artifact
    run: Artifact  # Ray Train's directory of this run: checkpoints are its children
    threads: int
    gpus_per_worker: float
    precision: Literal["fp32", "bf16"]
    compile: bool
    worker_flops: float | None  # sustained, per worker; None: measured
    mailbox: Any  # handle of a Mailbox actor


class Mailbox:
    """An actor: rank 0 puts events in, the driver takes them out. A failure that no retry would mend is kept."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._failure: str | None = None

    def put(self, events: Sequence[Event]) -> None:
        self._events.extend(events)

    def take(self) -> list[Event]:
        taken, self._events = self._events, []
        return taken

    def fail(self, sentence: str) -> None:
        self._failure = self._failure or sentence

    def failure(self) -> str | None:
        return self._failure


def micro_batches_per_update(tokens_per_update: int, micro_batch_tokens: int) -> int:
    """Section 5.1's tokens of an update as a whole number of micro-batches."""
    return max(1, round(tokens_per_update / micro_batch_tokens))
