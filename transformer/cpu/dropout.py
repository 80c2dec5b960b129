"""Dropout (section 5.4), drawn fast on a CPU: PyTorch's takes a tenth of a small model's step there, this an eightieth.

One 64-bit random number decides over four elements, 16 bits each. So the rate is a multiple of 2^-16 (0.1 becomes
0.100006), and what is kept is scaled by exactly the share that is kept. Masks are bytes, since PyTorch writes and reads
truth values one at a time. On a GPU PyTorch's own kernel is used.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LEVELS = 2**16


class Dropout(nn.Module):
    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.rate)
        dropped = round(self.rate * LEVELS)
        out: Tensor = _Drop.apply(x, draw(x.shape, dropped), LEVELS / (LEVELS - dropped))  # type: ignore[no-untyped-call]
        return out


def draw(shape: torch.Size, dropped: int) -> Tensor:
    """1 where an element is kept, 0 where it is not: `dropped` times out of 2^16. From PyTorch's generator."""
    count = shape.numel()
    draws = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    kept = torch.empty(count, dtype=torch.uint8)
    return torch.ge(draws.view(torch.int16)[:count], dropped - LEVELS // 2, out=kept).view(shape)


class _Drop(torch.autograd.Function):
    """x times what is kept times the scale; a byte per element is remembered, where x * noise would hold on to four."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.scale = scale
        return kept.to(x.dtype).mul_(scale).mul_(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (kept,) = ctx.saved_tensors
        return kept.to(grads[0].dtype).mul_(ctx.scale).mul_(grads[0]), None, None
