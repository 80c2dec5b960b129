"""Our linear map beside PyTorch's: the same numbers and gradients, and where which kernel is used."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from transformer import linear
from transformer.linear import Linear

needs_onednn = pytest.mark.skipif(not linear.ONEDNN, reason="this PyTorch was built without oneDNN")


class Calls(TorchDispatchMode):
    """The names of the operators that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))

    @property
    def onednn(self) -> int:
        return sum("mkldnn" in name for name in self.names)


def both(inputs: int, outputs: int, bias: bool) -> tuple[Linear, nn.Linear]:
    ours, theirs = Linear(inputs, outputs, bias=bias), nn.Linear(inputs, outputs, bias=bias)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def gradients(out: Tensor, wanted: Tensor, *parameters: Tensor | None) -> list[Tensor]:
    return list(torch.autograd.grad(out, [p for p in parameters if p is not None], wanted))


@settings(max_examples=40, deadline=None)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=2),
    inputs=st.integers(1, 40),
    outputs=st.integers(1, 40),
    bias=st.booleans(),
    relu=st.booleans(),
    seed=st.integers(0, 99),
)
def test_equals_pytorchs(shape: list[int], inputs: int, outputs: int, bias: bool, relu: bool, seed: int) -> None:
    torch.manual_seed(seed)
    ours, theirs = both(inputs, outputs, bias)
    x, share = torch.randn(*shape, inputs, requires_grad=True), torch.randn(*shape, outputs)
    found, expected = ours(x, relu=relu), theirs(x)
    expected = F.relu(expected) if relu else expected
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        gradients(found, share, x, ours.weight, ours.bias), gradients(expected, share, x, theirs.weight, theirs.bias)
    )


def test_a_gradient_that_is_there_is_added_to_in_its_place() -> None:
    torch.manual_seed(0)
    ours, theirs = both(5, 7, bias=True)
    buffers = torch.ones(7, 5), torch.ones(7)
    ours.weight.grad, ours.bias.grad = buffers
    theirs.weight.grad, theirs.bias.grad = torch.ones(7, 5), torch.ones(7)
    x = torch.randn(11, 5)
    for layer in (ours, theirs):
        layer(x).square().sum().backward()
        layer(2 * x).square().sum().backward()
    torch.testing.assert_close(buffers, (theirs.weight.grad, theirs.bias.grad))
    assert ours.weight.grad is buffers[0]


@needs_onednn
def test_training_on_a_cpu_is_onednns() -> None:
    """Forward, and backward to the input."""
    layer = Linear(4, 6)
    with Calls() as calls:
        layer(torch.randn(3, 4, requires_grad=True)).sum().backward()
    assert calls.onednn == 2


@pytest.mark.parametrize("other", ["translating", "double", "narrow"])
def test_all_else_is_pytorchs_usual_kernel(other: str) -> None:
    layer, x = Linear(4, 6), torch.randn(3, 4)
    layer.train(other != "translating")
    if other == "double":
        layer, x = layer.double(), x.double()
    with Calls() as calls, torch.autocast("cpu", dtype=torch.bfloat16, enabled=other == "narrow"):
        layer(x)
    assert not any("_linear_pointwise" in name for name in calls.names)
