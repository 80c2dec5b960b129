"""Packed rows, as a GPU trains on them: the same model as on rectangles, whatever goes through it together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from transformer.attention import PackedKeysValues, attend_packed, weights
from transformer.batching import Batch, collate
from transformer.config import ModelConfig, TrainingConfig
from transformer.dropout import draws
from transformer.model import Transformer
from transformer.packed import Packed, PackedBatch, can_pack, row_keys
from transformer.update import (
    Gradients,
    MicroBatch,
    Outcome,
    PackedMicroBatches,
    Ranks,
    evaluate,
    make_optimizer,
    packed,
    update,
)

MODEL = ModelConfig(layers=2, d_model=16, d_ff=32, num_heads=2, dropout=0.3, relu_dropout=0.1)
TRAINING = TrainingConfig(seed=5)
LENGTHS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6)


def batch_of(lengths: Sequence[tuple[int, int]], seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    sides = ([torch.randint(4, 30, (pair[side],), generator=generator).tolist() for pair in lengths] for side in (0, 1))
    return collate(*sides)


def micro_batches(count: int = 6) -> list[MicroBatch]:
    """Of different sizes, with sentences of different lengths."""
    return [
        MicroBatch(
            place, 40 + place, batch_of([(1 + place, 2), (place % 3, 4 + place), (7, 1)][: 1 + place % 3], place)
        )
        for place in range(count)
    ]


def groups(all_of_them: Sequence[MicroBatch], size: int) -> list[PackedMicroBatches]:
    starts = range(0, len(all_of_them), size)
    return [packed(all_of_them[start : start + size], TRAINING.seed) for start in starts]


def model(config: ModelConfig = MODEL) -> Transformer:
    torch.manual_seed(1)
    return Transformer(config, 30).train()


def step(parts: Sequence[MicroBatch | PackedMicroBatches], config: ModelConfig = MODEL) -> tuple[Tensor, Outcome]:
    """The gradient of an update over these parts, and its outcome."""
    ours = model(config)
    optimizer, gradients = make_optimizer(ours, TRAINING), Gradients(ours, 6)
    outcome = update(
        ours, optimizer, gradients, parts, count=len(parts), tokens=100, learning_rate=0.01, config=TRAINING,
        ranks=Ranks(),
    )  # fmt: skip
    return gradients.buffer.clone(), outcome


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.booleans(), st.integers(0, 99))
def test_attention_inside_each_sentence_is_eq_1(lengths: list[tuple[int, int]], causal: bool, seed: int) -> None:
    """Sentence by sentence against the softmax of eq. (1) written out."""
    made = PackedBatch.of([batch_of(lengths)], [1])
    rows = made.target_rows
    memory = rows if causal else made.source_rows
    torch.manual_seed(seed)
    queries_RHK = torch.randn(len(rows.position_R), 2, 4)
    keys_MHK, values_MHV = torch.randn(2, len(memory.position_R), 2, 4)
    found_RHV = attend_packed(queries_RHK, rows, PackedKeysValues(keys_MHK, values_MHV, memory), causal=causal)
    for sentence in range(len(lengths)):
        own, theirs = (slice(*each.starts[sentence : sentence + 2].tolist()) for each in (rows, memory))
        q_HTK, k_HSK, v_HSV = (x.transpose(0, 1) for x in (queries_RHK[own], keys_MHK[theirs], values_MHV[theirs]))
        expected_HTV = weights(q_HTK[None], k_HSK[None], causal=causal)[0] @ v_HSV
        torch.testing.assert_close(found_RHV[own].transpose(0, 1), expected_HTV)


@settings(max_examples=40, deadline=None)
@given(lengths=st.lists(LENGTHS, min_size=1, max_size=3))
def test_rows_are_the_real_tokens_of_each_micro_batch_in_order(lengths: list[list[tuple[int, int]]]) -> None:
    batches = [batch_of(each, seed) for seed, each in enumerate(lengths)]
    made = PackedBatch.of(batches, range(len(batches)))
    sources = [row[row != 0] for batch in batches for row in batch.source_BS]
    assert made.source_R.equal(torch.cat(sources))
    assert made.source_rows.position_R.tolist() == [at for row in sources for at in range(len(row))]
    assert made.source_rows.starts.diff().tolist() == [len(row) for row in sources]
    assert made.source_rows.length == max(len(row) for row in sources)
    assert made.gold_N.equal(torch.cat([batch.gold_N for batch in batches]))
    assert made.tokens == tuple(batch.target_tokens for batch in batches)


@pytest.mark.parametrize("config", [MODEL, replace(MODEL, norm="pre", positions="learned", tied_embeddings=False)])
def test_without_dropout_it_is_the_model_on_rectangles(config: ModelConfig) -> None:
    plain = replace(config, dropout=0.0, relu_dropout=0.0)
    wanted, expected = step(micro_batches(), plain)
    for size in (1, 4, 6):
        found, outcome = step(groups(micro_batches(), size), plain)
        torch.testing.assert_close(found, wanted, atol=2e-6, rtol=1e-4)
        torch.testing.assert_close(outcome.losses_M2, expected.losses_M2)


def test_what_goes_through_together_changes_no_result() -> None:
    """With dropout: one by one, in fours, all at once, and in another order, as another worker would have them."""
    wanted, expected = step(groups(micro_batches(), 1))
    for parts in (groups(micro_batches(), 4), groups(micro_batches(), 6), groups(micro_batches()[::-1], 5)):
        found, outcome = step(parts)
        torch.testing.assert_close(found, wanted, atol=2e-6, rtol=1e-4)
        torch.testing.assert_close(outcome.losses_M2, expected.losses_M2)


def test_dropout_goes_with_seed_position_row_place_and_column() -> None:
    here = draws(row_keys(7, 50), 3, 64)
    assert torch.equal(here[:20], draws(row_keys(7, 20), 3, 64)), "how many rows there are changes none of them"
    others = [draws(row_keys(8, 50), 3, 64), draws(row_keys(7, 50), 4, 64), here.roll(1, 0), here.roll(1, 1)]
    assert all(float((here == other).double().mean()) < 0.01 for other in others)
    _, one = step(groups(micro_batches(), 6))
    _, other = step(groups([each._replace(position=each.position + 1) for each in micro_batches()], 6))
    assert not torch.allclose(one.losses_M2, other.losses_M2)
    sites = [module.site for module in model().modules() if hasattr(module, "site")]
    assert len(set(sites)) == len(sites) == 2 + 2 * 3 + 2 * 4


def test_draws_are_uniform_and_independent() -> None:
    """Over 16 million: of each bit, of neighbours in row, column and place, and of the tails that a rate cuts off."""
    key_R = row_keys(3, 4096)
    drawn = [draws(key_R, site, 2048) for site in (0, 1)]
    bits = torch.stack([(drawn[0] >> bit & 1).double().mean() for bit in range(16)])
    assert float((bits - 0.5).abs().max()) < 1e-3
    for rate in (0.1, 0.3):
        gone, there = ((each < round(rate * 2**16) - 2**15).float() for each in drawn)
        assert float(gone.mean()) == pytest.approx(rate, abs=5e-4)
        assert float((gone.mean(0) - rate).abs().max()) < 0.04, "in every column"
        assert float((gone.mean(1) - rate).abs().max()) < 0.06, "in every row"
        for both in (gone[1:] * gone[:-1], gone[:, 1:] * gone[:, :-1], gone[:, 4:] * gone[:, :-4], gone * there):
            assert float(both.mean()) == pytest.approx(rate**2, abs=5e-4)


def test_evaluation_is_the_same() -> None:
    batches = [each.batch for each in micro_batches()]
    wanted = evaluate(model(), batches, 0.1, Ranks())
    assert evaluate(model(), [PackedBatch.of(batches, [0] * 6)], 0.1, Ranks()) == pytest.approx(wanted, rel=1e-5)


def test_heads_that_the_kernel_does_not_take_are_not_packed() -> None:
    cpu = torch.device("cpu")
    assert can_pack(ModelConfig(), cpu, bf16=True)
    assert can_pack(ModelConfig(d_model=1024, d_ff=4096, num_heads=16), cpu, bf16=True)
    others = [{"num_heads": 1}, {"d_k": 16, "d_v": 64}, {"attention_dropout": 0.1}, {"d_k": 20, "d_v": 20}]
    assert not any(can_pack(replace(ModelConfig(), **other), cpu, bf16=True) for other in others)  # type: ignore[arg-type]
    assert not can_pack(ModelConfig(), torch.device("cuda"), bf16=False), "the kernel knows no single precision"


def test_packed_rows_hold_whole_sentences() -> None:
    rows = Packed.of([batch_of([(3, 4)]).target_rows], row_keys(1, 5))
    with pytest.raises(AssertionError, match="whole sentences"):
        rows.positions(torch.device("cpu"), first=2)
