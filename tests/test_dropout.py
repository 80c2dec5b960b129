"""Our dropout on a CPU: the rate, the scale, the seed."""

from __future__ import annotations

import pytest
import torch

from transformer.cpu.dropout import LEVELS, drop
from transformer.dropout import Dropout
from transformer.unpadded import Rectangle

ROWS = Rectangle(1, 1)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_drops_at_its_rate_and_keeps_the_mean(rate: float) -> None:
    torch.manual_seed(0)
    drawn = Dropout(rate).train()(torch.ones(1_000_003), ROWS)
    assert float((drawn == 0).double().mean()) == pytest.approx(rate, abs=2e-3)
    assert float(drawn.double().mean()) == pytest.approx(1.0, abs=1e-2)
    assert drawn.unique().numel() == 2


def test_every_place_and_neighbour_alike() -> None:
    """The four elements that share a random number are dropped independently, and none more often than another."""
    torch.manual_seed(0)
    gone = (Dropout(0.25).train()(torch.ones(400_000), ROWS) == 0).double().view(-1, 4)
    assert torch.allclose(gone.mean(dim=0), torch.full((4,), 0.25).double(), atol=5e-3)
    together = gone.T @ gone / len(gone)
    assert torch.allclose(together[0, 1:], torch.full((3,), 0.25**2).double(), atol=5e-3)


def test_the_seed_decides() -> None:
    layer, x = Dropout(0.5).train(), torch.ones(3, 5, 7)
    torch.manual_seed(4)
    one = layer(x, ROWS)
    other = layer(x, ROWS)
    torch.manual_seed(4)
    assert torch.equal(layer(x, ROWS), one)
    assert not torch.equal(one, other)


def test_does_nothing_when_translating_or_at_rate_zero() -> None:
    x = torch.randn(4, 4)
    assert torch.equal(Dropout(0.5).eval()(x, ROWS), x)
    assert torch.equal(Dropout(0.0).train()(x, ROWS), x)


def test_gradient_goes_where_the_value_went() -> None:
    torch.manual_seed(0)
    x = torch.ones(1000, requires_grad=True)
    out = Dropout(0.3).train()(x, ROWS)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())  # type: ignore[arg-type]


def test_in_bf16_what_is_kept_is_scaled_before_it_is_rounded() -> None:
    """A scale of 1.1111 rounded to bf16 is 0.16 % too small, in every dropout of the model."""
    torch.manual_seed(0)
    x = torch.randn(1000).bfloat16()
    drawn = drop(x, 0.1)
    wanted = (x.float() * (LEVELS / (LEVELS - round(0.1 * LEVELS)))).bfloat16()
    assert torch.equal(drawn[drawn != 0], wanted[drawn != 0])
