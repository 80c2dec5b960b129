"""The tokens of a batch as the rows of one matrix, (R, D): the form in which every layer takes them.

Everything but attention treats each position alike (sections 3.1 and 3.3), so it needs no sentences. Attention does:
`unpack` lays the rows out as a rectangle (B, T, ...), and `pack` takes them back. Two kinds of rows:

`Unpadded`   the real tokens alone, for training: nothing but attention is computed for padding. Spare rows at the end
             round their number up, because products are compiled for each number of rows.
`Rectangle`  every place of the rectangle, padding too, for decoding: packing is a view and costs nothing.
"""

# B sentences, T length, Q = B x T places, N real tokens, S spare rows, R rows (real and spare), P padded places

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ROUND = 32  # rows: 0.4 % more of them on average where 4,000 are real


@dataclass(frozen=True)
class Rectangle:
    """Every place of (B, T) is a row, sentence after sentence."""

    sentences: int
    length: int

    @staticmethod
    def of(ids_BT: Tensor) -> Rectangle:
        return Rectangle(*ids_BT.shape)

    def pack(self, rectangle: Tensor) -> Tensor:
        """(B, T, ...) to (R, ...)."""
        return rectangle.flatten(0, 1)

    def unpack(self, rows: Tensor) -> Tensor:
        """(R, ...) to (B, T, ...)."""
        return rows.view(self.sentences, self.length, *rows.shape[1:])

    def positions(self, device: torch.device, first: int = 0) -> Tensor:
        """(R): each row's position; a sentence begins at `first`."""
        return self.pack(torch.arange(first, first + self.length, device=device).expand(self.sentences, -1))


@dataclass(frozen=True)
class Unpadded:
    """The real tokens of (B, T) are rows, sentence after sentence, then the spare rows.

    Padded places of an unpacked rectangle, and spare rows, hold a copy of some real token. No result may depend on
    them, and their gradient is zero.
    """

    place_R: Tensor  # the place of each row
    row_Q: Tensor  # the row of each place
    padding_P: Tensor  # places
    spare_S: Tensor  # rows
    real: int  # N: the first N rows are the real tokens
    sentences: int
    length: int

    @staticmethod
    def of(real_BT: NDArray[np.bool_]) -> Unpadded:
        """`real_BT` is True where a token is real. At least one must be."""
        flat = real_BT.reshape(-1)
        places, padding = np.flatnonzero(flat), np.flatnonzero(~flat)
        spare = np.arange(-len(places) % ROUND) + len(places)
        return Unpadded(
            place_R=torch.from_numpy(np.concatenate((places, np.full(len(spare), places[0])))),
            row_Q=torch.from_numpy(np.where(flat, np.cumsum(flat) - 1, 0)),
            padding_P=torch.from_numpy(padding),
            spare_S=torch.from_numpy(spare),
            real=len(places),
            sentences=real_BT.shape[0],
            length=real_BT.shape[1],
        )

    def map(self, function: Callable[[Tensor], Tensor]) -> Unpadded:
        """The same rows with `function` applied to every tensor, for example to move them to a GPU."""
        tensors = function(self.place_R), function(self.row_Q), function(self.padding_P), function(self.spare_S)
        return Unpadded(*tensors, self.real, self.sentences, self.length)

    def pack(self, rectangle: Tensor) -> Tensor:
        """(B, T, ...) to (R, ...)."""
        out: Tensor = _Take.apply(rectangle.flatten(0, 1), self.place_R, self.row_Q, self.padding_P)  # type: ignore[no-untyped-call]
        return out

    def unpack(self, rows: Tensor) -> Tensor:
        """(R, ...) to (B, T, ...)."""
        out: Tensor = _Take.apply(rows, self.row_Q, self.place_R, self.spare_S)  # type: ignore[no-untyped-call]
        return out.view(self.sentences, self.length, *rows.shape[1:])

    def positions(self, device: torch.device, first: int = 0) -> Tensor:
        """As `Rectangle.positions`."""
        return self.pack(torch.arange(first, first + self.length, device=device).expand(self.sentences, -1))


Rows = Rectangle | Unpadded


class _Take(torch.autograd.Function):
    """x[index]. The gradient is gathered by the inverse index, which is faster than scatter-add; 0 at `unused`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, inverse: Tensor, unused: Tensor) -> Tensor:
        ctx.save_for_backward(inverse, unused)
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        inverse, unused = ctx.saved_tensors
        return grads[0].index_select(0, inverse).index_fill_(0, unused, 0), None, None, None
