"""The model against torch.nn.Transformer, the paper's parameter counts, and what a broken one would do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from transformer import unpadded
from transformer.attention import SelfAttention
from transformer.batching import collate
from transformer.config import PAD, ModelConfig
from transformer.flops import flops_per_target_token, forward_flops, training_flops
from transformer.model import Transformer, attention_maps, count_parameters
from transformer.positions import sinusoids
from transformer.unpadded import Rectangle
from transformer.update import batch_losses

TINY = ModelConfig(layers=2, d_model=16, d_ff=32, num_heads=4)
BASE = ModelConfig()
# Table 3: the row, its difference from base, millions of parameters in the paper (None: left blank there)
TABLE_3: list[tuple[str, dict[str, Any], float | None]] = [
    ("base", {}, 65),
    ("A1", {"num_heads": 1}, None),
    ("A2", {"num_heads": 4}, None),
    ("A3", {"num_heads": 16}, None),
    ("A4", {"num_heads": 32}, None),
    ("B1", {"d_k": 16}, 58),
    ("B2", {"d_k": 32}, 60),
    ("C1", {"layers": 2}, 36),
    ("C2", {"layers": 4}, 50),
    ("C3", {"layers": 8}, 80),
    ("C4", {"d_model": 256, "d_k": 32, "d_v": 32}, 28),
    ("C5", {"d_model": 1024, "d_k": 128, "d_v": 128}, 168),
    ("C6", {"d_ff": 1024}, 53),
    ("C7", {"d_ff": 4096}, 90),
    ("D1", {"dropout": 0.0}, None),
    ("D2", {"dropout": 0.2}, None),
    ("D3", {}, None),  # label smoothing 0.0
    ("D4", {}, None),  # label smoothing 0.2
    ("E", {"positions": "learned"}, None),
    ("big", {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3}, 213),
]


def on_paper(config: ModelConfig) -> Transformer:
    """The model without memory behind its tensors: enough to count them."""
    with torch.device("meta"):
        return Transformer(config, 37_000)


def batch(seed: int = 0, *, pairs: int = 3, source: int = 7, target: int = 6, words: int = 30) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    source_BS = torch.randint(4, words, (pairs, source), generator=generator)
    target_BT = torch.randint(4, words, (pairs, target), generator=generator)
    for row, length in enumerate(torch.randint(1, source + 1, (pairs,), generator=generator).tolist()):
        source_BS[row, length:] = PAD
    return source_BS, target_BT


@pytest.mark.parametrize(("row", "change", "millions"), TABLE_3, ids=[row for row, _, _ in TABLE_3])
def test_every_row_of_table_3_builds_and_counts(row: str, change: dict[str, Any], millions: float | None) -> None:
    count = count_parameters(on_paper(replace(BASE, **change))) / 1e6
    if millions is not None:
        assert count == pytest.approx(millions, rel=0.07)
    elif row != "E":  # rows that change no shape: the same number to the last one
        assert count == count_parameters(on_paper(BASE)) / 1e6


def test_differences_between_rows_of_table_3_are_exact() -> None:
    def millions(**change: Any) -> float:
        return count_parameters(on_paper(replace(BASE, **change))) / 1e6

    assert millions() == pytest.approx(63.0, abs=0.06)
    assert millions() - millions(d_k=16) == pytest.approx(7.1, abs=0.05)
    assert millions() - millions(d_k=32) == pytest.approx(4.7, abs=0.05)
    assert millions() - millions(layers=4) == pytest.approx(14.7, abs=0.05)
    assert millions(layers=8) - millions() == pytest.approx(14.7, abs=0.05)
    assert millions(positions="learned") - millions() == pytest.approx(2 * 1024 * 512 / 1e6)


def copy_into_pytorchs(ours: Transformer, theirs: nn.Transformer) -> None:
    """Our weights into torch.nn.Transformer, whose attention has its three projections stacked as ours."""

    def attention(to: nn.MultiheadAttention, packed: Tensor, out: Tensor) -> None:
        to.in_proj_weight.copy_(packed)
        to.out_proj.weight.copy_(out)

    def rest(to: Any, own: Any) -> None:
        to.linear1.load_state_dict(own.feed_forward.inner.state_dict())
        to.linear2.load_state_dict(own.feed_forward.outer.state_dict())

    with torch.no_grad():
        for module in theirs.modules():  # theirs has biases where the paper has none
            for name in ("in_proj_bias",):
                if getattr(module, name, None) is not None:
                    getattr(module, name).zero_()
            if isinstance(module, nn.MultiheadAttention) and module.out_proj.bias is not None:
                module.out_proj.bias.zero_()
        for own, to in zip(ours.encoder_layers, theirs.encoder.layers, strict=True):
            attention(to.self_attn, own.self_attention.queries_keys_values.weight, own.self_attention.output.weight)  # type: ignore[arg-type, union-attr]
            rest(to, own)
            to.norm1.load_state_dict(own.around_attention.norm.state_dict())  # type: ignore[union-attr]
            to.norm2.load_state_dict(own.around_feed_forward.norm.state_dict())  # type: ignore[union-attr]
        for mine, to in zip(ours.decoder_layers, theirs.decoder.layers, strict=True):
            attention(to.self_attn, mine.self_attention.queries_keys_values.weight, mine.self_attention.output.weight)  # type: ignore[arg-type, union-attr]
            cross = mine.source_attention
            attention(
                to.multihead_attn, torch.cat([cross.queries.weight, cross.keys_values.weight]), cross.output.weight
            )  # type: ignore[arg-type, union-attr]
            rest(to, mine)
            to.norm1.load_state_dict(mine.around_self.norm.state_dict())  # type: ignore[union-attr]
            to.norm2.load_state_dict(mine.around_source.norm.state_dict())  # type: ignore[union-attr]
            to.norm3.load_state_dict(mine.around_feed_forward.norm.state_dict())  # type: ignore[union-attr]
        for own_norm, its_norm in ((ours.encoder_norm, theirs.encoder.norm), (ours.decoder_norm, theirs.decoder.norm)):
            if isinstance(own_norm, nn.LayerNorm):
                its_norm.load_state_dict(own_norm.state_dict())  # type: ignore[union-attr]


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 1000),
    heads=st.sampled_from([1, 2, 4]),
    norm=st.sampled_from(["post", "pre"]),
    pairs=st.integers(1, 4),
    source=st.integers(1, 9),
    target=st.integers(1, 9),
)
def test_equals_torch_nn_transformer(seed: int, heads: int, norm: Any, pairs: int, source: int, target: int) -> None:
    """Same weights, same padded batch, double precision: the same numbers to 1e-9."""
    torch.manual_seed(seed)
    ours = Transformer(replace(TINY, num_heads=heads, norm=norm), 30).double().eval()
    for parameter in ours.parameters():  # LayerNorms and biases too are to be told apart
        nn.init.normal_(parameter, std=0.3)
    theirs = nn.Transformer(
        16, heads, 2, 2, 32, dropout=0.0, batch_first=True, norm_first=norm == "pre", dtype=torch.double
    )
    if norm == "post":  # the paper's stacks end with the last layer's own norm
        theirs.encoder.norm = theirs.decoder.norm = None
    copy_into_pytorchs(ours, theirs)
    source_BS, target_BT = batch(seed, pairs=pairs, source=source, target=target)
    hidden = source_BS == PAD
    source_rows, target_rows = Rectangle.of(source_BS), Rectangle.of(target_BT)
    expected_BTD = theirs(
        source_rows.unpack(ours.embed_source(source_rows.pack(source_BS), source_rows)),
        target_rows.unpack(ours.embed_target(target_rows.pack(target_BT), target_rows)),
        tgt_mask=~torch.ones(target, target, dtype=torch.bool).tril(),
        src_key_padding_mask=hidden,
        memory_key_padding_mask=hidden,
    )
    assert torch.allclose(ours.hidden(source_BS, target_BT), expected_BTD, atol=1e-9)


def sees_the_future(model: Transformer) -> bool:
    """Does changing a target token change what an earlier position says?"""
    source_BS, target_BT = batch()
    changed_BT = target_BT.clone()
    changed_BT[:, 4] = 9
    before, after = model.eval()(source_BS, target_BT), model(source_BS, changed_BT)
    assert not torch.allclose(before[:, 4:], after[:, 4:])
    return not torch.equal(before[:, :4], after[:, :4])


def test_no_target_position_sees_its_future() -> None:
    assert not sees_the_future(Transformer(TINY, 30))


def test_removing_the_mask_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    plain: Callable[..., Tensor] = SelfAttention.forward
    monkeypatch.setattr(
        SelfAttention, "forward", lambda self, x, rows, keep=None, causal=False: plain(self, x, rows, keep)
    )
    assert sees_the_future(Transformer(TINY, 30))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_padding_changes_nothing(positions: Any) -> None:
    model = Transformer(replace(TINY, positions=positions), 30).double().eval()
    source_BS, target_BT = batch(pairs=1)
    source_BS = source_BS[:, : int((source_BS != PAD).sum())]
    wide_source = nn.functional.pad(source_BS, (0, 5), value=PAD)
    wide_target = nn.functional.pad(target_BT, (0, 3), value=PAD)
    alone = model(source_BS, target_BT)
    assert torch.allclose(model(wide_source, wide_target)[:, : target_BT.size(1)], alone, atol=1e-12)


def test_words_are_told_apart_by_their_place() -> None:
    """Without positions the encoder would see a bag of words."""
    model = Transformer(TINY, 30).eval()
    memory_MD, _, _ = model.encode(torch.tensor([[5, 5, 6, 7]]), Rectangle(1, 4))
    assert not torch.allclose(memory_MD[0], memory_MD[1])


def test_one_matrix_serves_both_embeddings_and_the_softmax() -> None:
    tied, untied = Transformer(TINY, 30), Transformer(replace(TINY, tied_embeddings=False), 30)
    assert count_parameters(untied) - count_parameters(tied) == 2 * 30 * 16
    assert tied.output_weight is tied.embedding.weight


def test_initial_embeddings_have_unit_variance_times_sqrt_d_model() -> None:
    model = Transformer(ModelConfig(layers=1, d_model=256, d_ff=8, num_heads=4, dropout=0.0), 2000)
    scaled = model.embedding.weight * math.sqrt(256)
    assert float(scaled.detach().var()) == pytest.approx(1.0, rel=0.02)


def test_sinusoids_are_the_papers() -> None:
    table = sinusoids(50, 16)
    for position in (0, 1, 17, 49):
        for i in range(8):
            angle = position / 10_000 ** (2 * i / 16)
            assert table[position, 2 * i] == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-6)


def test_sinusoids_have_no_limit_and_a_learned_table_says_its_own() -> None:
    long = torch.full((1, 40), 5)
    assert Transformer(replace(TINY, max_positions=8), 30)(long, long).shape == (1, 40, 30)
    with pytest.raises(ValueError, match="40 subwords is longer than the 8 learned positions"):
        Transformer(replace(TINY, max_positions=8, positions="learned"), 30)(long, long)


def test_attention_maps_of_every_layer_and_head() -> None:
    model = Transformer(TINY, 30).train()
    source_BS, target_BT = batch()
    maps = attention_maps(model, source_BS, target_BT)
    assert [len(maps.encoder), len(maps.decoder), len(maps.cross)] == [2, 2, 2]
    assert maps.cross[0].shape == (3, 4, 6, 7)
    for layer in (*maps.encoder, *maps.decoder, *maps.cross):
        assert torch.allclose(layer.sum(dim=-1), torch.ones(layer.shape[:-1]), atol=1e-6)
    assert not maps.cross[1].masked_select((source_BS == PAD)[:, None, None, :]).any()
    assert model.training
    assert not any(layer.self_attention._forward_hooks for layer in model.decoder_layers)


def test_flops_are_those_that_pytorch_counts() -> None:
    counter = FlopCounterMode(display=False)
    model = Transformer(replace(TINY, d_k=3, d_v=5), 30).eval()
    source_BS, target_BT = torch.full((1, 11), 5), torch.full((1, 7), 5)
    with counter, sdpa_kernel(SDPBackend.MATH):
        model(source_BS, target_BT)
    config = model.config
    # PyTorch multiplies the whole square of the decoder's own attention; only its lower half is needed
    needless = config.layers * 7 * (7 - 8 / 2) * 2 * config.num_heads * (3 + 5)
    assert counter.get_total_flops() == forward_flops(config, 30, source=11, target=7) + needless


def test_nothing_but_attention_is_computed_for_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpadded, "ROUND", 1)
    counter = FlopCounterMode(display=False)
    model = Transformer(TINY, 30).double().eval()  # PyTorch does not count what oneDNN does in single precision
    padded = collate([[5] * 10, [5] * 4], [[5] * 6, [5] * 2])  # and END: 11 and 5, 7 and 3
    with torch.no_grad(), counter, sdpa_kernel(SDPBackend.MATH):
        batch_losses(model, padded, smoothing=0.1)
    needed = sum(forward_flops(TINY, 30, source=source, target=target) for source, target in ((11, 7), (5, 3)))
    looking = TINY.layers * 2 * 2 * TINY.num_heads * TINY.key_width  # per query and key
    seen = 11 * 11 + 7 * 8 / 2 + 7 * 11 + 5 * 5 + 3 * 4 / 2 + 3 * 5
    assert counter.get_total_flops() == needed + looking * (2 * (11 * 11 + 7 * 7 + 7 * 11) - seen)


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6),
    config=st.sampled_from(
        [TINY, replace(TINY, norm="pre", positions="learned"), replace(TINY, tied_embeddings=False)]
    ),
    seed=st.integers(0, 99),
)
def test_rows_of_real_tokens_are_the_padded_model(
    lengths: list[tuple[int, int]], config: ModelConfig, seed: int
) -> None:
    """The same numbers and the same gradients to 1e-9, whatever stands in padding and spare rows."""
    torch.manual_seed(seed)
    model = Transformer(replace(config, dropout=0.0), 30).double()
    sources, targets = ([torch.randint(4, 30, (pair[side],)).tolist() for pair in lengths] for side in (0, 1))
    made = collate(sources, targets)
    expected_ND = model.hidden(made.source_BS, made.target_in_BT)[made.target_in_BT != PAD]
    found_ND = model.hidden_rows(made)
    assert torch.allclose(found_ND, expected_ND, atol=1e-9)
    share_ND = torch.randn_like(expected_ND)
    parameters = [p for p in model.parameters() if p is not model.output_weight or config.tied_embeddings]
    wanted = torch.autograd.grad(expected_ND, parameters, share_ND)
    for ours, theirs in zip(torch.autograd.grad(found_ND, parameters, share_ND), wanted, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-9)


@pytest.mark.slow
def test_what_a_gpu_profile_compiles_is_one_graph_for_all_shapes() -> None:
    """Traced as for a GPU, but run by PyTorch's plain kernels, which need no compiler."""
    torch.manual_seed(0)
    model = Transformer(replace(TINY, dropout=0.0), 30).train()
    compiled = torch.compile(model.hidden_rows, dynamic=True, fullgraph=True, backend="aot_eager")
    for pairs in (3, 7, 5):
        made = collate([[5] * (3 + i) for i in range(pairs)], [[6] * (2 + i) for i in range(pairs)])
        expected_ND, found_ND = model.hidden_rows(made), compiled(made)
        torch.testing.assert_close(found_ND, expected_ND, atol=1e-5, rtol=1e-4)
        share_ND, parameters = torch.randn_like(expected_ND), list(model.parameters())
        wanted = torch.autograd.grad(expected_ND, parameters, share_ND)
        for ours, theirs in zip(torch.autograd.grad(found_ND, parameters, share_ND), wanted, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_flops_of_the_paper() -> None:
    """Six times the parameters that multiply, plus attention. Table 2's 3.3e18 count time, not work."""
    per_token = flops_per_target_token(BASE, 37_000)
    assert 6 * 60e6 < per_token < 6 * 70e6
    assert training_flops(BASE, 37_000, source=30, target=30) == pytest.approx(30 * per_token)
    assert 5e17 < 2.5e9 * per_token < 3.3e18
