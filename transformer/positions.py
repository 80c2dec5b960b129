"""Positional encoding (section 3.5): sinusoids, or a learned table (Table 3, row E)."""

# R rows (tokens of all sentences, transformer/unpadded.py), D d_model

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.config import ModelConfig
from transformer.packed import Packed
from transformer.unpadded import Rows


def sinusoids(length: int, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same: (length, d_model)."""
    position = torch.arange(length, dtype=torch.float64).unsqueeze(1)
    angles = position / 10_000.0 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1).float()


class SinusoidalPositions(nn.Module):
    """The fixed table, made longer when a longer sequence comes. Not a parameter, not in a checkpoint."""

    table: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(config.max_positions, config.d_model), persistent=False)

    def forward(self, x_RD: Tensor, rows: Rows | Packed, first: int = 0) -> Tensor:
        """Add to each embedding the encoding of its position; a sentence begins at position `first`."""
        end = first + rows.length
        if end > self.table.size(0):
            self.table = sinusoids(2 * end, self.table.size(1)).to(self.table)
        return x_RD + at_positions(self.table, rows, first)


class LearnedPositions(nn.Module):
    """One learned vector per position, `max_positions` of them."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(config.max_positions, config.d_model))

    def forward(self, x_RD: Tensor, rows: Rows | Packed, first: int = 0) -> Tensor:
        """As `SinusoidalPositions.forward`."""
        end = first + rows.length
        if end > self.table.size(0):
            raise ValueError(
                f"A sequence of {end} subwords is longer than the {self.table.size(0)} learned positions: "
                f"raise model.max_positions, or lower cleaning.max_subwords."
            )
        return x_RD + at_positions(self.table, rows, first)


def at_positions(table: Tensor, rows: Rows | Packed, first: int) -> Tensor:
    """(R, D): for each row the entry of the table at its position."""
    return F.embedding(rows.positions(table.device, first), table)


def positions(config: ModelConfig) -> nn.Module:
    return SinusoidalPositions(config) if config.positions == "sinusoidal" else LearnedPositions(config)
