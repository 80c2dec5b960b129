"""x W^T + b, as nn.Linear, in fewer seconds when a CPU trains in single precision.

There the products of x and of its gradient are oneDNN's, which ships with PyTorch and is a tenth faster than its usual
one, and the weights' gradient is added where it belongs by the product that makes it. oneDNN lays a matrix out anew
before it multiplies by it: `packed` has that done once for all products until the weights change.
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
WORTH_PACKING = 2**18  # elements of a matrix times micro-batches: below that it takes as long as it saves
Layout = tuple[int, torch.Size, tuple[int, ...]]  # address, shape and strides
_packed: dict[Layout, Tensor] = {}


class Linear(nn.Linear):
    """Followed by max(0, .) with `relu`."""

    def forward(self, x: Tensor, relu: bool = False) -> Tensor:
        if self.training and is_onednns(x, self.weight):
            out: Tensor = _Linear.apply(x.flatten(0, -2), self.weight, self.bias, relu)  # type: ignore[no-untyped-call]
            return out.view(*x.shape[:-1], -1)
        out = F.linear(x, self.weight, self.bias)
        return F.relu(out, inplace=True) if relu else out


def is_onednns(x: Tensor, weight: Tensor) -> bool:
    plain = x.dtype == weight.dtype == torch.float32 and not torch.is_autocast_enabled(x.device.type)
    return ONEDNN and plain and x.device.type == weight.device.type == "cpu"


@contextmanager
def packed(weights: Iterable[Tensor], *, micro_batches: int) -> Iterator[None]:
    """Products by these weights and by their transposes are faster until this ends. No weight may change before."""
    try:
        for weight in weights:
            worth_it = micro_batches > 1 and weight.numel() * micro_batches >= WORTH_PACKING
            if worth_it and is_onednns(weight, weight):
                for matrix in (weight.detach(), weight.detach().T):
                    _packed[layout(matrix)] = torch.ops.mkldnn._reorder_linear_weight(matrix)
        yield
    finally:
        _packed.clear()


def layout(matrix: Tensor) -> Layout:
    return matrix.data_ptr(), matrix.shape, matrix.stride()


def product(x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """x W^T + b, by oneDNN where it can."""
    if not is_onednns(x_NI, weight_OI):
        return F.linear(x_NI, weight_OI, bias_O)
    if not torch.compiler.is_compiling():
        weight_OI = _packed.get(layout(weight_OI), weight_OI)
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x_NI, weight_OI, bias_O, "none", [], "")
    return out


def add_gradient(parameter: Tensor, left: Tensor, right: Tensor) -> Tensor | None:
    """Add left @ right to a parameter's gradient. Where there is none yet, it is returned, for autograd to keep."""
    if parameter.grad is None:
        return left @ right
    parameter.grad.addmm_(left, right)
    return None


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None, relu: bool) -> Tensor:
        out_NO = product(x_NI, weight_OI, bias_O)
        if relu:
            out_NO.relu_()  # not by oneDNN, whose max(0, NaN) is 0: a loss that is not a number must be seen
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
