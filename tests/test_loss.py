"""The chunked, smoothed loss and its gradients, against PyTorch's and against the definition."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from transformer import loss as module
from transformer.loss import smoothed_cross_entropy


@settings(max_examples=30, deadline=None)
@given(
    tokens=st.integers(1, 200),
    words=st.integers(2, 40),
    smoothing=st.sampled_from([0.0, 0.1, 0.2, 0.5]),
    seed=st.integers(0, 1000),
)
def test_equals_pytorchs_cross_entropy(tokens: int, words: int, smoothing: float, seed: int) -> None:
    torch.manual_seed(seed)
    hidden = torch.randn(tokens, 5, dtype=torch.double, requires_grad=True)
    weight = (2 * torch.randn(words, 5, dtype=torch.double)).requires_grad_()
    gold = torch.randint(words, (tokens,))
    expected = F.cross_entropy(hidden @ weight.T, gold, label_smoothing=smoothing, reduction="sum")
    wanted = torch.autograd.grad(expected / 7, (hidden, weight))
    loss, nll = smoothed_cross_entropy(hidden, weight, gold, smoothing)
    found = torch.autograd.grad(loss / 7, (hidden, weight))
    assert torch.allclose(loss, expected, rtol=1e-9)
    assert torch.allclose(nll, F.cross_entropy(hidden @ weight.T, gold, reduction="sum"), rtol=1e-9)
    for ours, theirs in zip(found, wanted, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-9)


def test_smoothing_is_szegedys() -> None:
    """The target is (1 - epsilon) on the gold plus epsilon / V on every subword, the gold among them."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(3, 4, dtype=torch.double), torch.randn(6, 4, dtype=torch.double)
    gold = torch.tensor([0, 5, 2])
    target = torch.full((3, 6), 0.1 / 6, dtype=torch.double)
    target[torch.arange(3), gold] += 0.9
    by_hand = -(target * (hidden @ weight.T).log_softmax(dim=1)).sum()
    assert torch.allclose(smoothed_cross_entropy(hidden, weight, gold, 0.1)[0], by_hand)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    hidden, weight, gold = torch.randn(300, 4).double(), torch.randn(9, 4).double(), torch.randint(9, (300,))
    whole = smoothed_cross_entropy(hidden, weight, gold, 0.1)
    monkeypatch.setattr(module, "CHUNK_SCORES", 1)
    monkeypatch.setattr(module, "LEAST_CHUNK", 64)
    parts = smoothed_cross_entropy(hidden, weight, gold, 0.1)
    assert torch.allclose(whole[0], parts[0])
    assert torch.allclose(whole[1], parts[1])


def test_gradients_are_not_computed_where_none_is_wanted() -> None:
    """They are made in the forward pass, where a look at the development set has no use for them."""
    weight = torch.randn(9, 4, dtype=torch.double, requires_grad=True)  # double: PyTorch does not count oneDNN's
    hidden, gold = torch.randn(20, 4).double(), torch.randint(9, (20,))
    with FlopCounterMode(display=False) as looking, torch.no_grad():
        looked = smoothed_cross_entropy(hidden, weight, gold, 0.1)
    with FlopCounterMode(display=False) as training:
        trained = smoothed_cross_entropy(hidden, weight, gold, 0.1)
    assert looking.get_total_flops() == 2 * 20 * 4 * 9 < training.get_total_flops()
    assert looked == trained
    assert not looked[0].requires_grad


def test_no_score_is_too_large() -> None:
    """A gold subword that the model finds impossible costs much, but not infinity."""
    hidden, weight = torch.tensor([[300.0]], requires_grad=True), torch.tensor([[1.0], [-1.0]])
    loss, nll = smoothed_cross_entropy(hidden, weight, torch.tensor([1]), 0.0)
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(nll) == pytest.approx(600.0)
    assert hidden.grad is not None
    assert hidden.grad.isfinite().all()


def test_bfloat16_keeps_the_sums_wide() -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(500, 16, requires_grad=True), (0.3 * torch.randn(40, 16)).requires_grad_()
    gold = torch.randint(40, (500,))
    exact = smoothed_cross_entropy(hidden, weight, gold, 0.1)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow = smoothed_cross_entropy(hidden, weight, gold, 0.1)[0]
    narrow.backward()  # type: ignore[no-untyped-call]
    assert narrow.dtype == torch.float32
    assert float(narrow.detach()) == pytest.approx(float(exact.detach()), rel=1e-2)
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32


def test_the_share_of_a_token_is_not_rounded_before_it_is_used() -> None:
    """1/tokens in bf16 would be off by up to 0.4 %, the same for every gradient of the update."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(64, 8, requires_grad=True), torch.randn(20, 8, requires_grad=True)
    gold = torch.randint(20, (64,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _ = smoothed_cross_entropy(hidden.to(torch.bfloat16), weight, gold, 0.1)
        again, _ = smoothed_cross_entropy(hidden.to(torch.bfloat16), weight, gold, 0.1)
    (whole,) = torch.autograd.grad(loss, hidden)
    (shared,) = torch.autograd.grad(again / 2999, hidden)
    assert torch.equal(shared, (whole * torch.tensor(1 / 2999)).to(torch.bfloat16).float())


def test_a_gpu_takes_a_micro_batch_of_the_paper_in_one_chunk_and_a_cpu_in_small_ones() -> None:
    assert module.chunk_tokens("cuda", 37_000) >= 3_125
    assert module.chunk_tokens("cpu", 37_000) == 256
    assert module.chunk_tokens("cpu", 8_000) == 2**22 // 8_000
