"""x W^T + b, as nn.Linear, faster where a CPU trains; elsewhere it is PyTorch's own.

The products of x and of its gradient are computed by oneDNN, which ships with PyTorch and takes a tenth less time than
PyTorch's usual kernel. The weights' gradient is added into `parameter.grad` by the product that computes it. oneDNN
reorders a matrix in memory before it multiplies by it: `prepacked` has that done once per update instead of once per
product, which saves 3 % of an update of the base model.

Under autocast to bf16 the same is done in bf16 where the CPU multiplies it in hardware (`BF16`), at twice the rate and
more. The weights are narrowed once per update, too; they and their gradients stay in single precision.

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

from transformer.cpu.bf16 import multiplies_bf16

ONEDNN = torch.backends.mkldnn.is_available()
BF16 = multiplies_bf16()
WORTH_PREPACKING = 2**18  # elements of a matrix times micro-batches: below that it costs as much as it saves
Layout = tuple[int, torch.Size, tuple[int, ...], torch.dtype]  # address, shape, strides; the type of the copy
_prepacked: dict[Layout, Tensor] = {}


class Linear(nn.Linear):
    """nn.Linear; with `relu`, max(0, .) of it."""

    def forward(self, x: Tensor, relu: bool = False) -> Tensor:
        dtype = product_type(x, self.weight)
        if self.training and dtype is not None:
            x_NI = x.flatten(0, -2).to(dtype)
            out: Tensor = _Linear.apply(x_NI, self.weight, self.bias, relu)  # type: ignore[no-untyped-call]
            return out.view(*x.shape[:-1], -1)
        out = F.linear(x, self.weight, self.bias)
        return F.relu(out, inplace=True) if relu else out


def product_type(x: Tensor, weight: Tensor) -> torch.dtype | None:
    """What oneDNN is to compute x W^T in: single precision, or bf16 under autocast to it. None: it is not to."""
    if not torch.is_autocast_enabled(x.device.type):
        return torch.float32 if x.dtype == weight.dtype and can_use_onednn(weight, torch.float32) else None
    dtype = torch.get_autocast_dtype(x.device.type)
    narrow = dtype == torch.bfloat16 and x.dtype in (torch.float32, torch.bfloat16)
    return dtype if narrow and can_use_onednn(weight, dtype) else None


def can_use_onednn(weight: Tensor, dtype: torch.dtype) -> bool:
    """For a product in this type, by weights on a CPU that are of this type or in single precision."""
    known = dtype == torch.float32 or (dtype == torch.bfloat16 and BF16)
    return ONEDNN and known and weight.dtype in (torch.float32, dtype) and weight.device.type == "cpu"


@contextmanager
def prepacked(weights: Iterable[Tensor], *, micro_batches: int) -> Iterator[None]:
    """Keep these weights and their transposes in oneDNN's order, and in the type of autocast, for the block's products.
    None may change in it."""
    try:
        for weight in weights:
            worth_it = micro_batches > 1 and weight.numel() * micro_batches >= WORTH_PREPACKING
            dtype = product_type(weight, weight)
            if worth_it and dtype is not None:
                narrow = weight.detach().to(dtype)
                for matrix, copied in ((weight, narrow), (weight.T, narrow.T)):
                    _prepacked[layout(matrix, dtype)] = torch.ops.mkldnn._reorder_linear_weight(copied)
        yield
    finally:
        _prepacked.clear()


def layout(matrix: Tensor, dtype: torch.dtype) -> Layout:
    return matrix.data_ptr(), matrix.shape, matrix.stride(), dtype


def narrowed(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """In this type, for several products; as it is where `prepacked` keeps it so."""
    return matrix if _prepacked and layout(matrix, dtype) in _prepacked else matrix.to(dtype)


def product(x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """x W^T + b in the type of x, by oneDNN where it can be used."""
    dtype = x_NI.dtype
    bias_O = None if bias_O is None else bias_O.to(dtype)
    if x_NI.device.type != "cpu" or not can_use_onednn(weight_OI, dtype):
        return F.linear(x_NI, weight_OI.to(dtype), bias_O)
    kept = None if torch.compiler.is_compiling() else _prepacked.get(layout(weight_OI, dtype))
    matrix = weight_OI.to(dtype) if kept is None else kept
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x_NI, matrix, bias_O, "none", [], "")
    return out


def add_gradient(parameter: Tensor, left: Tensor, right: Tensor) -> Tensor | None:
    """Add left @ right to a parameter's gradient in place. If there is none yet, return it for autograd to store."""
    if parameter.grad is None:
        return (left @ right).to(parameter.dtype)
    if left.dtype == parameter.dtype:
        parameter.grad.addmm_(left, right)
    else:
        parameter.grad.add_(left @ right)
    return None


class _Linear(torch.autograd.Function):
    """x in the type of the product; weights and bias, and their gradients, in their own."""

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
        grad_bias_O = grad_NO.sum(dim=0, dtype=weight_OI.dtype) if ctx.biased else None
        return grad_x_NI, add_gradient(weight_OI, grad_NO.T, x_NI), grad_bias_O, None
