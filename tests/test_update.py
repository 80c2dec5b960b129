"""One update: a mean over all its tokens, however they are cut and whoever computes them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from operator_calls import Calls

from transformer.batching import collate
from transformer.config import PAD, ModelConfig, TrainingConfig
from transformer.cpu import linear
from transformer.model import Transformer
from transformer.update import Gradients, MicroBatch, Outcome, Ranks, evaluate, make_optimizer, step_unless_bad, update

MODEL = ModelConfig(layers=1, d_model=16, d_ff=32, num_heads=2, dropout=0.3)
TRAINING = TrainingConfig(seed=5)
PAIRS = [([5 + i, 6, 7][: 1 + i % 3], [8, 9 + i, 4, 5][: 1 + i % 4]) for i in range(8)]
TOKENS = sum(len(target) + 1 for _, target in PAIRS)
GOLDEN = [4.2270229885, 3.4095540728, 2.9674854279]  # smoothed loss per token


def cut(size: int) -> list[MicroBatch]:
    """The eight pairs as micro-batches of `size` pairs."""
    groups = [PAIRS[start : start + size] for start in range(0, 8, size)]
    return [MicroBatch(i, 100 + i, collate([s for s, _ in g], [t for _, t in g])) for i, g in enumerate(groups)]


def step(
    micro_batches: list[MicroBatch], *, config: TrainingConfig = TRAINING, dropout: float = 0.3, slots: int = 8
) -> tuple[Transformer, Outcome]:
    torch.manual_seed(1)
    model = Transformer(replace(MODEL, dropout=dropout), 30)
    optimizer, gradients = make_optimizer(model, config), Gradients(model, slots)
    size = {"count": len(micro_batches), "tokens": TOKENS}
    outcome = update(
        model, optimizer, gradients, micro_batches, **size, learning_rate=0.01, config=config, ranks=Ranks()
    )
    return model, outcome


def weights(model: Transformer) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_eight_small_micro_batches_are_one_large_one() -> None:
    """Without dropout, which is seeded by micro-batch."""
    whole, outcome = step(cut(8), dropout=0.0)
    for size in (1, 2, 4):
        parts, pieces = step(cut(size), dropout=0.0)
        assert torch.allclose(weights(parts), weights(whole), atol=2e-5)
        assert torch.allclose(pieces.losses_M2.sum(dim=0), outcome.losses_M2.sum(dim=0), rtol=1e-5)


def test_who_computes_a_micro_batch_changes_nothing() -> None:
    """Another order is what another rank's share looks like; dropout goes with the micro-batch, not with the order."""
    forward, one = step(cut(2))
    backward, other = step(cut(2)[::-1])
    assert torch.equal(one.losses_M2, other.losses_M2)
    assert torch.allclose(weights(forward), weights(backward), atol=1e-6)


def test_dropout_is_drawn_anew_at_every_position() -> None:
    _, here = step(cut(8))
    _, there = step([batch._replace(position=7) for batch in cut(8)])
    _, again = step(cut(8))
    assert not torch.equal(here.losses_M2, there.losses_M2)
    assert torch.equal(here.losses_M2, again.losses_M2)


def test_the_gradient_is_that_of_the_mean_and_the_step_is_adams() -> None:
    torch.manual_seed(1)
    model = Transformer(replace(MODEL, dropout=0.0), 30)
    batch = cut(8)[0].batch
    logits_BTV = model(batch.source_BS, batch.target_in_BT)
    gold_BT = torch.full(batch.target_in_BT.shape, PAD)
    gold_BT[batch.target_in_BT != PAD] = batch.gold_N
    loss = torch.nn.functional.cross_entropy(
        logits_BTV.flatten(0, 1), gold_BT.flatten(), ignore_index=PAD, label_smoothing=0.1
    )
    loss.backward()  # type: ignore[no-untyped-call]
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9).step()
    ours, outcome = step(cut(8), dropout=0.0)
    assert float(outcome.losses_M2[0, 0]) / TOKENS == pytest.approx(float(loss.detach()), rel=1e-5)
    assert float(outcome.gradient_norm) == pytest.approx(float(norm), rel=1e-5)
    assert torch.allclose(weights(ours), weights(model), atol=2e-5)


@pytest.mark.skipif(not linear.ONEDNN, reason="this PyTorch was built without oneDNN")
def test_weights_prepacked_for_an_update_are_those_of_that_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two updates, each by the weights that the one before left."""

    def two() -> torch.Tensor:
        torch.manual_seed(1)
        model = Transformer(MODEL, 30)
        optimizer, gradients = make_optimizer(model, TRAINING), Gradients(model, 8)
        for _ in range(2):
            update(
                model, optimizer, gradients, cut(1), count=8, tokens=TOKENS, learning_rate=0.01, config=TRAINING,
                ranks=Ranks(),
            )  # fmt: skip
        return weights(model)

    as_usual = two()
    monkeypatch.setattr(linear, "WORTH_PREPACKING", 1)
    with Calls() as calls:
        prepacked = two()
    assert calls.names.count("mkldnn::_reorder_linear_weight") == 2 * 2 * len(Transformer(MODEL, 30).matrices())
    assert torch.equal(prepacked, as_usual)


@pytest.mark.skipif(not linear.ONEDNN, reason="this PyTorch was built without oneDNN")
def test_without_onednn_an_update_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What exists for a CPU's speed alone can be switched off: PyTorch's own kernels give the same numbers."""
    with Calls() as fast:
        _, expected = step(cut(2))
    monkeypatch.setattr(linear, "ONEDNN", False)
    with Calls() as usual:
        _, found = step(cut(2))
    assert fast.onednn > 0
    assert usual.onednn == 0
    torch.testing.assert_close(found.losses_M2, expected.losses_M2, rtol=1e-6, atol=0)
    torch.testing.assert_close(found.gradient_norm, expected.gradient_norm, rtol=1e-5, atol=0)


def test_clipping_is_by_the_norm_of_all_gradients() -> None:
    _, free = step(cut(4))
    model, clipped = step(cut(4), config=replace(TRAINING, clip_norm=0.5))
    assert float(free.gradient_norm) > 0.5
    assert float(clipped.gradient_norm) == pytest.approx(float(free.gradient_norm))
    held = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    assert float(held.norm()) == pytest.approx(0.5, rel=1e-5)


def test_a_gradient_that_is_not_finite_moves_no_weight() -> None:
    torch.manual_seed(1)
    model = Transformer(MODEL, 30)
    optimizer, gradients = make_optimizer(model, TRAINING), Gradients(model, 1)
    with torch.no_grad():
        model.decoder_layers[0].feed_forward.inner.bias[0] = math.nan
    before = weights(model)
    outcome = update(
        model, optimizer, gradients, cut(8), count=1, tokens=TOKENS, learning_rate=1.0, config=TRAINING, ranks=Ranks()
    )
    assert not outcome.losses_M2.isfinite().any()
    assert torch.equal(weights(model).nan_to_num(), before.nan_to_num())


def test_a_device_leaves_a_bad_step_out_by_itself() -> None:
    """As on a GPU, where nobody waits to look at the norm: weights, moments and count stay; the next step counts."""
    torch.manual_seed(1)
    model = Transformer(MODEL, 30)
    optimizer, gradients = make_optimizer(model, TRAINING), Gradients(model, 1)
    optimizer.param_groups[0]["lr"] = 0.01

    def state() -> list[torch.Tensor]:
        held = [value for entry in optimizer.state.values() for value in entry.values()]
        return [tensor.clone() for tensor in (*model.parameters(), *held)]

    gradients.buffer.normal_()
    step_unless_bad(optimizer, gradients.norm())
    before = state()
    gradients.buffer[3] = math.nan
    step_unless_bad(optimizer, gradients.norm())
    assert all(map(torch.equal, before, state()))
    gradients.buffer.normal_()
    step_unless_bad(optimizer, gradients.norm())
    assert not any(map(torch.equal, before, state()))
    assert all(entry["step"] == 2 for entry in optimizer.state.values())


def test_evaluation_is_a_mean_over_tokens_without_dropout() -> None:
    torch.manual_seed(1)
    model = Transformer(MODEL, 30).train()
    by_one = evaluate(model, [m.batch for m in cut(1)], 0.1, Ranks())
    at_once = evaluate(model, [m.batch for m in cut(8)], 0.1, Ranks())
    assert by_one == pytest.approx(at_once, rel=1e-6)
    assert model.training
    _, plain = evaluate(model, [m.batch for m in cut(8)], 0.0, Ranks())
    assert plain == pytest.approx(at_once[1])


def test_golden_losses() -> None:
    """The first updates of a fixed model on fixed pairs: a refactoring leaves them as they are."""
    torch.manual_seed(1)
    model = Transformer(MODEL, 30)
    optimizer, gradients = make_optimizer(model, TRAINING), Gradients(model, 8)
    losses = []
    for _ in range(3):
        outcome = update(
            model, optimizer, gradients, cut(4), count=2, tokens=TOKENS, learning_rate=0.01, config=TRAINING,
            ranks=Ranks(),
        )  # fmt: skip
        losses.append(float(outcome.losses_M2[:, 0].sum()) / TOKENS)
    assert losses == pytest.approx(GOLDEN, rel=1e-5)
