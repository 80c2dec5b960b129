"""What the driver tells its training workers. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jobs.storage.artifacts import Artifact
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
    precision: Literal["fp32", "bf16"]
    compile: bool


def micro_batches_per_update(tokens_per_update: int, micro_batch_tokens: int) -> int:
    """Section 5.1's tokens of an update as a whole number of micro-batches."""
    return max(1, round(tokens_per_update / micro_batch_tokens))
