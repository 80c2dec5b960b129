"""Sequences of symbols to copy or to reverse: small tasks of varying length on which a mechanism can be seen at work.

Symbols are drawn with replacement, so that a symbol does not say where it stands. Batches hold several lengths.
"""

# B sequences, T length

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch

from transformer.batching import Batch, collate
from transformer.config import END, TrainingConfig
from transformer.model import Transformer
from transformer.update import Gradients, MicroBatch, Ranks, batch_losses, make_optimizer, update

FIRST = END + 1  # the first symbol's id
PLAIN = TrainingConfig(label_smoothing=0.0, epsilon=1e-8)


class Task(NamedTuple):
    symbols: int
    shortest: int
    longest: int
    reverse: bool = True

    @property
    def vocabulary(self) -> int:
        return FIRST + self.symbols

    def batch(self, count: int, numbers: np.random.Generator) -> Batch:
        """Sequences of all lengths from shortest to longest."""
        lengths = numbers.integers(self.shortest, self.longest + 1, count)
        sources = [numbers.integers(FIRST, self.vocabulary, length).tolist() for length in lengths]
        return collate(sources, [source[::-1] if self.reverse else source for source in sources])

    def of_length(self, length: int) -> Task:
        return self._replace(shortest=length, longest=length)


def training(
    model: Transformer, task: Task, *, batch: int, updates: int, rate: Callable[[int], float], seed: int
) -> Iterator[float]:
    """Train, and say the mean loss per token of every update, before its step."""
    numbers = np.random.default_rng(seed)
    optimizer, gradients = make_optimizer(model, PLAIN), Gradients(model, 1)
    model.train()
    for number in range(1, updates + 1):
        made = task.batch(batch, numbers)
        outcome = update(
            model, optimizer, gradients, [MicroBatch(0, number, made)], count=1, tokens=made.target_tokens,
            learning_rate=rate(number), config=PLAIN, ranks=Ranks(),
        )  # fmt: skip
        yield float(outcome.losses_M2[0, 1]) / made.target_tokens


def warmed_up(peak: float, warmup: int) -> Callable[[int], float]:
    """Rising to the peak in `warmup` updates, then constant: what differs between two runs is the beginning alone."""
    return lambda number: peak * min(1.0, number / warmup) if warmup else peak


@torch.no_grad()
def accuracy(model: Transformer, batch: Batch) -> float:
    """The share of tokens said right, each after the right prefix (teacher forcing); END counts."""
    model.eval()
    said_N = model.logits(model.hidden_rows(batch)).argmax(dim=-1)
    return float((said_N == batch.gold_N).double().mean())


@torch.no_grad()
def loss(model: Transformer, batch: Batch) -> float:
    """Per token, on a batch that training has not seen; NaN where the model's scores are not numbers."""
    model.eval()
    return float(batch_losses(model, batch, 0.0)[1]) / batch.target_tokens


def smoothed(losses: list[float], window: int) -> list[tuple[int, float]]:
    """(update, mean of the window before it), for a curve that can be read."""
    ends = range(window, len(losses) + 1, window)
    return [(end, math.fsum(losses[end - window : end]) / window) for end in ends]
