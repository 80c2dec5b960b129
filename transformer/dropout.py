"""Dropout (section 5.4): one form for a CPU's speed, one for packed rows, PyTorch's own elsewhere.

For packed rows the number that decides an element is a function of the row's key, the place of the dropout in the model
and the column: nothing is drawn from a generator, so rows may come in any company and on any worker.
"""

# R rows, D width, Q quarters: four columns share a 64-bit number

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.cpu.dropout import LEVELS, drop
from transformer.packed import Packed
from transformer.unpadded import Rows

FIRST, SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64  # of SplitMix64, as signed numbers
SITES = 2**20  # quarters of a row, at most: numbers of two places never meet


class Dropout(nn.Module):
    """In training, sets each element to 0 with probability `rate` and scales the others up; else the identity."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.site = 0  # the place in the model; each has its own

    def forward(self, x_RD: Tensor, rows: Rows | Packed) -> Tensor:
        if not self.training or self.rate == 0:
            return x_RD
        if isinstance(rows, Packed):
            return drop_by_key(x_RD, rows.key_R, self.site, self.rate)
        return drop(x_RD, self.rate) if x_RD.device.type == "cpu" else F.dropout(x_RD, self.rate)


def number_sites(model: nn.Module) -> None:
    """Give every dropout of the model its place."""
    dropouts = (module for module in model.modules() if isinstance(module, Dropout))
    for site, module in enumerate(dropouts):
        module.site = site


def drop_by_key(x_RD: Tensor, key_R: Tensor, site: int, rate: float) -> Tensor:
    """The rate is a multiple of 2^-16, and what is kept is scaled by exactly the share that is kept."""
    dropped = round(rate * LEVELS)
    kept_RD = draws(key_R, site, x_RD.size(1)) >= dropped - LEVELS // 2
    return torch.where(kept_RD, x_RD * (LEVELS / (LEVELS - dropped)), 0.0)


def draws(key_R: Tensor, site: int, width: int) -> Tensor:
    """A random number of 16 bits, with sign, for each row and column: (R, D)."""
    quarter_Q = torch.arange(-(-width // 4), device=key_R.device) + site * SITES
    x_RQ = key_R[:, None] ^ quarter_Q
    x_RQ = (x_RQ ^ shift(x_RQ, 30)) * FIRST
    x_RQ = (x_RQ ^ shift(x_RQ, 27)) * SECOND
    drawn_RD: Tensor = (x_RQ ^ shift(x_RQ, 31)).view(torch.int16)
    return drawn_RD.narrow(1, 0, width)


def shift(x: Tensor, bits: int) -> Tensor:
    """To the right, zeros from the left."""
    return x.bitwise_right_shift(bits).bitwise_and(2 ** (64 - bits) - 1)
