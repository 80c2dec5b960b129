"""Micro-batches as one run of rows, (R, D), for a GPU: nothing is padded, and several go through the model at once.

Attention finds sentences by where they start (`attend_packed` in transformer/attention.py). Dropout draws for each row
from the row's own key, a function of (seed, position in the stream, row), so what else is in memory changes no result.
"""

# B sentences, R rows: the real tokens of all sentences, N the same of the target

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transformer.batching import Batch
from transformer.config import ModelConfig
from transformer.unpadded import Unpadded

WIDEST_HEAD = 256  # of the attention kernel (`torch.nn.attention.varlen`), which takes multiples of 8
LEAST_CAPABILITY = (8, 0)  # A100 and newer


@dataclass(frozen=True)
class Packed:
    """Sentence b is the rows starts[b] ... starts[b + 1] - 1."""

    position_R: Tensor  # of each row in its sentence
    key_R: Tensor  # what dropout draws a row's numbers from
    starts: Tensor  # (B + 1), 32 bits
    length: int  # of the longest sentence

    @staticmethod
    def of(parts: Sequence[Unpadded], key_R: Tensor) -> Packed:
        """The real rows of these, one after the other."""
        places = [part.place_R[: part.real] for part in parts]
        lengths = [
            torch.bincount(place_R // part.length, minlength=part.sentences)
            for place_R, part in zip(places, parts, strict=True)
        ]
        ends = torch.cat(lengths).cumsum(0)
        return Packed(
            position_R=torch.cat([place_R % part.length for place_R, part in zip(places, parts, strict=True)]),
            key_R=key_R,
            starts=torch.cat((ends.new_zeros(1), ends)).int(),
            length=max(part.length for part in parts),
        )

    def map(self, function: Callable[[Tensor], Tensor]) -> Packed:
        """The same rows with `function` applied to every tensor, for example to move them to a GPU."""
        return Packed(function(self.position_R), function(self.key_R), function(self.starts), self.length)

    def positions(self, device: torch.device, first: int = 0) -> Tensor:
        """(R): each row's position in its sentence."""
        assert first == 0, "packed rows hold whole sentences"
        return self.position_R


@dataclass(frozen=True)
class PackedBatch:
    """Sentence pairs of one or several micro-batches. `gold_N`: what to predict at the target's rows."""

    source_R: Tensor
    target_in_N: Tensor
    gold_N: Tensor
    source_rows: Packed
    target_rows: Packed
    tokens: tuple[int, ...]  # target rows of each micro-batch

    @staticmethod
    def of(batches: Sequence[Batch], keys: Sequence[int]) -> PackedBatch:
        """`keys` has one number for each batch, from which the keys of its rows are made."""

        def ids(rectangle: Tensor, rows: Unpadded) -> Tensor:
            return rectangle.flatten()[rows.place_R[: rows.real]]

        def rows(parts: list[Unpadded]) -> Packed:
            return Packed.of(
                parts, torch.cat([row_keys(key, part.real) for key, part in zip(keys, parts, strict=True)])
            )

        return PackedBatch(
            source_R=torch.cat([ids(batch.source_BS, batch.source_rows) for batch in batches]),
            target_in_N=torch.cat([ids(batch.target_in_BT, batch.target_rows) for batch in batches]),
            gold_N=torch.cat([batch.gold_N for batch in batches]),
            source_rows=rows([batch.source_rows for batch in batches]),
            target_rows=rows([batch.target_rows for batch in batches]),
            tokens=tuple(batch.target_tokens for batch in batches),
        )

    @property
    def target_tokens(self) -> int:
        return self.gold_N.numel()

    def to(self, device: torch.device) -> PackedBatch:
        """Through pinned memory, from which a GPU copies while it computes."""
        if device.type == "cpu":
            return self
        return self.map(lambda tensor: tensor.pin_memory().to(device, non_blocking=True))

    def map(self, function: Callable[[Tensor], Tensor]) -> PackedBatch:
        ids = function(self.source_R), function(self.target_in_N), function(self.gold_N)
        return PackedBatch(*ids, self.source_rows.map(function), self.target_rows.map(function), self.tokens)


def row_keys(key: int, rows: int) -> Tensor:
    """64 bits for each row of a micro-batch, from the micro-batch's own: any two are unrelated (SplitMix64)."""
    x = np.uint64(key) + np.arange(1, rows + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return torch.from_numpy((x ^ (x >> np.uint64(31))).view(np.int64))


def can_pack(config: ModelConfig, device: torch.device, *, bf16: bool) -> bool:
    """Whether the attention kernel takes this. If not, training is on rectangles (transformer/unpadded.py).

    On a CPU eq. (1) is computed by a mask over all rows: for tests, because its memory is the rows' square.
    """
    if device.type == "cuda" and not (bf16 and torch.cuda.get_device_capability(device) >= LEAST_CAPABILITY):
        return False
    width = config.key_width
    return config.attention_dropout == 0 and width == config.value_width and width % 8 == 0 and width <= WIDEST_HEAD
