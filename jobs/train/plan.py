"""The plan of a training run, made by the driver for its workers, and how an update is divided. Loads no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapreplace
from typing import Literal

from jobs.configs import Precision
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
    precision: Precision
    compile: bool
    copy_shards: bool = False
    micro_batches_per_pass: int | None = None
    sum_gradients: Literal["at_end", "overlapped", "overlapped_bf16"] = "at_end"


def micro_batches_per_update(tokens_per_update: int, micro_batch_tokens: int) -> int:
    """Section 5.1's tokens of an update as a whole number of micro-batches."""
    return max(1, round(tokens_per_update / micro_batch_tokens))


def assign_by_cost(costs: Sequence[float], workers: int) -> list[list[int]]:
    """Divide an update among workers so that all end at about the same time: longest processing time first.

    `costs` has one number per place of the update. Returns the places of each worker, in order.
    """
    assigned: list[list[int]] = [[] for _ in range(workers)]
    loads = [(0.0, worker) for worker in range(workers)]  # a heap
    for place in sorted(range(len(costs)), key=lambda place: (-costs[place], place)):
        load, least = loads[0]
        assigned[least].append(place)
        heapreplace(loads, (load + costs[place], least))
    return [sorted(places) for places in assigned]
