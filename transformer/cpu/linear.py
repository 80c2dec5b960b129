"""x W^T + b, as nn.Linear, faster where a CPU trains in single precision; elsewhere it is PyTorch's own.

The products of x and of its gradient are computed by oneDNN, which ships with PyTorch and takes a tenth less time than
PyTorch's usual kernel. The weights' gradient is added into `parameter.grad` by the product that computes it. oneDNN
reorders a matrix in memory before it multiplies by it: `prepacked` has that done once per update instead of once per
product, which saves 3 % of an update of the base model.

`ONEDNN = False` switches all of it off: the results then differ by rounding only. Prepacking changes no bit.
"""

# N rows, I width of the input, O width of the output

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ONEDNN = torch.backends.mkldnn.is_available()
WORTH_PREPACKING = 2**18  # elements of a matrix times micro-batches: below that it costs as much as it saves
Layout = tuple[int, torch.Size, tuple[int, ...]]  # address, shape and strides
_prepacked: dict[Layout, Tensor] = {}


class Linear(nn.Linear):
    """nn.Linear; with `relu`, max(0, .) of it."""

    def forward(self, x: Tensor, relu: bool = False) -> Tensor:
        if self.training and can_use_onednn(x, self.weight):
            out: Tensor = _Linear.apply(x.flatten(0, -2), self.weight, self.bias, relu)  # type: ignore[no-untyped-call]
            return out.view(*x.shape[:-1], -1)
        out = F.linear(x, self.weight, self.bias)
        return F.relu(out, inplace=True) if relu else out


def can_use_onednn(x: Tensor, weight: Tensor) -> bool:
    """Both in single precision on a CPU, and no autocast."""
    plain = x.dtype == weight.dtype == torch.float32 and not torch.is_autocast_enabled(x.device.type)
    return ONEDNN and plain and x.device.type == weight.device.type == "cpu"


@contextmanager
def prepacked(weights: Iterable[Tensor], *, micro_batches: int) -> Iterator[None]:
    """Keep these weights and their transposes in oneDNN's order for the block's products. None may change in it."""
    try:
        for weight in weights:
            worth_it = micro_batches > 1 and weight.numel() * micro_batches >= WORTH_PREPACKING
            if worth_it and can_use_onednn(weight, weight):
                for matrix in (weight.detach(), weight.detach().T):
                    _prepacked[layout(matrix)] = torch.ops.mkldnn._reorder_linear_weight(matrix)
        yield
    finally:
        _prepacked.clear()


def layout(matrix: Tensor) -> Layout:
    return matrix.data_ptr(), matrix.shape, matrix.stride()


def product(x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """x W^T + b, by oneDNN where it can be used."""
    if not can_use_onednn(x_NI, weight_OI):
        return F.linear(x_NI, weight_OI, bias_O)
    if not torch.compiler.is_compiling():
        weight_OI = _prepacked.get(layout(weight_OI), weight_OI)
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x_NI, weight_OI, bias_O, "none", [], "")
    return out


def add_gradient(parameter: Tensor, left: Tensor, right: Tensor) -> Tensor | None:
    """Add left @ right to a parameter's gradient in place. If there is none yet, return it for autograd to store."""
    if parameter.grad is None:
        return left @ right
    parameter.grad.addmm_(left, right)
    return None


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None, relu: bool) -> Tensor:
        out_NO = product(x_NI, weight_OI, bias_O)
        if relu:
            out_NO.relu_()  # not by oneDNN, whose max(0, NaN) is 0: a loss that is not a number must stay one
        ctx.save_for_backward(x_NI, weight_OI, out_NO if relu else None)
        ctx.biased = bias_O is not None
        return out_NO

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        x_NI, weight_OI, out_NO = ctx.saved_tensors
        (grad_NO,) = grads
        if out_NO is not None:
            grad_NO = torch.ops.aten.threshold_backward(grad_NO, out_NO, 0)
        grad_x_NI = product(grad_NO, weight_OI.T) if ctx.needs_input_grad[0] else None
        grad_bias_O = grad_NO.sum(dim=0) if ctx.biased else None
        return grad_x_NI, add_gradient(weight_OI, grad_NO.T, x_NI), grad_bias_O, None
