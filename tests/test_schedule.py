"""Eq. (3), to the digit."""

from __future__ import annotations

import pytest
import torch

from transformer.schedule import learning_rate


def test_peak_rates_of_the_paper() -> None:
    assert learning_rate(4000, d_model=512, warmup=4000) == pytest.approx(6.99e-4, rel=1e-3)
    assert learning_rate(4000, d_model=1024, warmup=4000) == pytest.approx(4.94e-4, rel=1e-3)


def test_equals_an_independent_schedule() -> None:
    """PyTorch's own machinery, given the formula as the paper prints it."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda past: 512**-0.5 * min((past + 1) ** -0.5, (past + 1) * 40**-1.5)
    )
    for update in range(1, 200):
        assert learning_rate(update, d_model=512, warmup=40) == pytest.approx(schedule.get_last_lr()[0], rel=1e-12)
        optimizer.step()
        schedule.step()


def test_rises_then_falls_and_scales_with_its_factor() -> None:
    rates = [learning_rate(update, d_model=64, warmup=10) for update in range(1, 30)]
    assert rates[:10] == sorted(rates[:10])
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert learning_rate(7, d_model=64, warmup=10, factor=2.0) == 2 * rates[6]
