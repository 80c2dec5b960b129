"""Sentences as padded tensors (section 5.1). A shard holds bare subword ids; START and END are added here.

The encoder reads `ids END`. The decoder reads `START ids` and is to predict `ids END`, the gold: its input shifted by
one position (section 3.1).
"""

# B batch, S source length, T target length, N real target tokens of the batch

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer.config import END, PAD, START
from transformer.unpadded import Unpadded

Ids = NDArray[np.integer]


@dataclass(frozen=True)
class Ragged:
    """Rows of ids of different lengths: row i is values[offsets[i]:offsets[i + 1]]."""

    values: Ids
    offsets: Ids

    @staticmethod
    def of(rows: Sequence[Sequence[int]]) -> Ragged:
        lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        values = np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))
        return Ragged(values, np.concatenate(([0], lengths.cumsum())))

    @property
    def lengths(self) -> Ids:
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Batch:
    """Sentence pairs, padded, with the rows of their real tokens. `gold_N`: what to predict at the target's rows."""

    source_BS: Tensor
    target_in_BT: Tensor
    source_rows: Unpadded
    target_rows: Unpadded
    gold_N: Tensor

    @staticmethod
    def of(source_BS: NDArray[np.int64], target_in_BT: NDArray[np.int64], gold_BT: NDArray[np.int64]) -> Batch:
        real_BT = gold_BT != PAD
        return Batch(
            source_BS=torch.from_numpy(source_BS),
            target_in_BT=torch.from_numpy(target_in_BT),
            source_rows=Unpadded.of(source_BS != PAD),
            target_rows=Unpadded.of(real_BT),
            gold_N=torch.from_numpy(gold_BT[real_BT]),
        )

    @property
    def target_tokens(self) -> int:
        return self.gold_N.numel()

    def to(self, device: torch.device) -> Batch:
        if device.type == "cpu":
            return self
        return self.map(lambda tensor: tensor.to(device, non_blocking=True))

    def pinned(self) -> Batch:
        """In pinned memory, from which a GPU copies while it computes."""
        return self.map(lambda tensor: tensor.pin_memory())

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        rows = self.source_rows.map(function), self.target_rows.map(function)
        return Batch(function(self.source_BS), function(self.target_in_BT), *rows, function(self.gold_N))


def padded(rows: Ragged, *, first: int | None = None, last: int | None = None) -> NDArray[np.int64]:
    """A rectangle of ids, PAD at the right, with `first` before every row and `last` after it if given."""
    lead, lengths = int(first is not None), rows.lengths
    width = lead + int(lengths.max(initial=0)) + int(last is not None)
    out = np.full((len(lengths), width), PAD, dtype=np.int64)
    row = np.repeat(np.arange(len(lengths)), lengths)
    out[row, lead + np.arange(len(rows.values)) - np.repeat(rows.offsets[:-1], lengths)] = rows.values
    if first is not None:
        out[:, 0] = first
    if last is not None:
        out[np.arange(len(lengths)), lead + lengths] = last
    return out


def batch(source: Ragged, target: Ragged) -> Batch:
    """A batch from rows of bare subword ids."""
    return Batch.of(padded(source, last=END), padded(target, first=START), padded(target, last=END))


def collate(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Batch:
    """A batch from lists of bare subword ids."""
    return batch(Ragged.of(sources), Ragged.of(targets))
