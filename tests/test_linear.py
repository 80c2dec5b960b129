"""Our linear map beside PyTorch's: the same numbers and gradients, and where which kernel is used."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_calls import Calls
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.cpu import linear
from transformer.cpu.linear import WORTH_PREPACKING, Linear, prepacked, product
from transformer.loss import smoothed_cross_entropy

needs_onednn = pytest.mark.skipif(not linear.ONEDNN, reason="this PyTorch was built without oneDNN")
needs_bf16 = pytest.mark.skipif(not (linear.ONEDNN and linear.BF16), reason="this CPU does not multiply bf16")


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
def test_training_on_a_cpu_uses_onednn() -> None:
    """Forward, and backward to the input."""
    layer = Linear(4, 6)
    with Calls() as calls:
        layer(torch.randn(3, 4, requires_grad=True)).sum().backward()
    assert calls.onednn == 2


@pytest.mark.parametrize("other", ["translating", "double", "narrow", "half"])
def test_all_else_is_pytorchs_usual_kernel(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bf16 where the CPU does not multiply it, too."""
    monkeypatch.setattr(linear, "BF16", other != "narrow")
    layer, x = Linear(4, 6), torch.randn(3, 4)
    layer.train(other != "translating")
    if other == "double":
        layer, x = layer.double(), x.double()
    narrow = torch.float16 if other == "half" else torch.bfloat16
    with Calls() as calls, torch.autocast("cpu", dtype=narrow, enabled=other in ("narrow", "half")):
        layer(x)
    assert not any("_linear_pointwise" in name for name in calls.names)


def wide() -> Linear:
    """A layer whose weights are worth prepacking for two micro-batches."""
    torch.manual_seed(0)
    return Linear(256, WORTH_PREPACKING // 512)


def results(layer: Linear, x: Tensor) -> list[Tensor]:
    out = layer(x)
    return [out, *torch.autograd.grad(out.square().sum(), [x, layer.weight])]


@needs_onednn
def test_prepacked_weights_give_the_same_bits() -> None:
    layer, x = wide(), torch.randn(37, 256, requires_grad=True)
    expected = results(layer, x)
    with prepacked([layer.weight], micro_batches=2), Calls() as calls:
        found = results(layer, x)
    assert all(torch.equal(*each) for each in zip(found, expected, strict=True))
    assert calls.onednn == 2  # with what was laid out before: nothing was during the products


@needs_onednn
def test_weights_are_prepacked_as_they_are_and_only_inside_the_block() -> None:
    layer, x = wide(), torch.randn(5, 256)
    before = product(x, layer.weight)
    with prepacked([layer.weight], micro_batches=2), torch.no_grad():
        layer.weight.mul_(2)  # which one must not do, but it shows by what is multiplied
        assert torch.equal(product(x, layer.weight), before)
    assert torch.equal(product(x, layer.weight), 2 * before)


@needs_onednn
def test_nothing_stays_prepacked_after_a_failure() -> None:
    with pytest.raises(ZeroDivisionError, match=r"^prepacked"), prepacked([wide().weight], micro_batches=2):
        raise ZeroDivisionError("prepacked" if linear._prepacked else "too early")
    assert not linear._prepacked


@pytest.mark.parametrize(
    ("weight", "micro_batches"),
    [(torch.zeros(WORTH_PREPACKING, 1), 1), (torch.zeros(2, 2), 2), (torch.zeros(WORTH_PREPACKING, 1).double(), 2)],
    ids=["one micro-batch", "small", "double"],
)
def test_what_is_not_worth_it_is_not_prepacked(weight: Tensor, micro_batches: int) -> None:
    with prepacked([weight], micro_batches=micro_batches):
        assert not linear._prepacked


def autocast() -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.bfloat16)


def trained(layer: nn.Module, x: Tensor, **more: bool) -> list[Tensor]:
    """Output and gradients under autocast; the backward pass inside it, as in training."""
    layer.zero_grad()
    with autocast():
        out = layer(x, **more)
        out.float().square().sum().backward()
    return [out, x.grad, *(parameter.grad for parameter in layer.parameters())]  # type: ignore[list-item]


@needs_bf16
@pytest.mark.parametrize("relu", [False, True])
def test_in_bf16_it_is_what_autocast_makes_of_pytorchs(relu: bool) -> None:
    """To the rounding of bf16, eight bits; weights and bias, and their gradients, stay in single precision."""
    torch.manual_seed(0)
    ours, theirs = both(96, 64, bias=True)
    x = torch.randn(2, 30, 96)
    found = trained(ours, x.clone().requires_grad_(), relu=relu)
    expected = trained(nn.Sequential(theirs, nn.ReLU()) if relu else theirs, x.clone().requires_grad_())
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert torch.linalg.vector_norm(one - other) < 4e-3 * torch.linalg.vector_norm(other)
    assert [each.dtype for each in found] == [torch.bfloat16] + 3 * [torch.float32]


@needs_bf16
def test_in_bf16_training_uses_onednn_and_weights_are_narrowed_once_an_update() -> None:
    layer, x = wide(), torch.randn(37, 256, requires_grad=True)
    with Calls() as alone:
        expected = trained(layer, x)
    x.grad = None
    with autocast(), prepacked([layer.weight], micro_batches=2):
        assert all(key[-1] == torch.bfloat16 for key in linear._prepacked)
        with Calls() as calls:
            found = trained(layer, x)
    assert all(torch.equal(*each) for each in zip(found, expected, strict=True))
    assert calls.onednn == 2, "nothing was laid out during the products"
    copies, copies_alone = (sum("_to_copy" in name for name in each.names) for each in (calls, alone))
    assert copies == copies_alone - 2, "weights are narrowed for neither of the two"


@needs_bf16
def test_the_loss_takes_the_weights_that_were_narrowed_before() -> None:
    torch.manual_seed(0)
    weight, gold = torch.randn(WORTH_PREPACKING // 64, 64, requires_grad=True), torch.randint(9, (50,))
    hidden = torch.randn(50, 64, requires_grad=True)

    def gradients_of_loss() -> list[Tensor]:
        return list(torch.autograd.grad(smoothed_cross_entropy(hidden, weight, gold, 0.1)[0], [hidden, weight]))

    with autocast():
        expected = gradients_of_loss()
        with prepacked([weight], micro_batches=2), Calls() as calls:
            found = gradients_of_loss()
    assert all(torch.equal(*each) for each in zip(found, expected, strict=True))
    assert calls.onednn == 2


@needs_bf16
def test_gradients_of_bf16_are_summed_in_single_precision() -> None:
    """1 + 2^-12 is 1 in bf16."""
    layer = Linear(1, 1, bias=True)
    for parameter in layer.parameters():
        parameter.grad = torch.ones_like(parameter)
    with autocast():
        (layer(torch.full((1, 1), 2.0**-6)) * 2.0**-6).sum().backward()
    assert layer.weight.grad is not None
    assert layer.bias.grad is not None
    assert float(layer.weight.grad) == 1 + 2.0**-12
    assert float(layer.bias.grad) == 1 + 2.0**-6
