"""Attention against code we did not write, and the failure signatures that the paper's readers look for."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from transformer.attention import CrossAttention, KeysValues, SelfAttention, attend, scores, weights
from transformer.config import ModelConfig
from transformer.unpadded import Rectangle

SHAPES = {"batch": st.integers(1, 4), "heads": st.sampled_from([1, 2, 4]), "length": st.integers(1, 9)}


def keep_of(lengths: Tensor, longest: int) -> Tensor:
    return torch.arange(longest)[None, :] < lengths[:, None]


def theirs(heads: int, width: int, query: Tensor, packed: Tensor, out: Tensor) -> nn.MultiheadAttention:
    """PyTorch's layer with these weights."""
    layer = nn.MultiheadAttention(width, heads, bias=False, batch_first=True).double()
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.cat([query, packed]))
        layer.out_proj.weight.copy_(out)
    return layer


@settings(max_examples=25, deadline=None)
@given(**SHAPES, seed=st.integers(0, 99), causal=st.booleans())
def test_self_attention_equals_pytorchs(batch: int, heads: int, length: int, seed: int, causal: bool) -> None:
    torch.manual_seed(seed)
    ours = SelfAttention(ModelConfig(d_model=8, num_heads=heads)).double()
    packed = ours.queries_keys_values.weight
    layer = theirs(heads, 8, packed[:8], packed[8:], ours.output.weight)
    x_BTD = torch.randn(batch, length, 8, dtype=torch.double)
    keep_BS = keep_of(torch.randint(1, length + 1, (batch,)), length)
    rows = Rectangle.of(x_BTD[..., 0])
    hidden = ~torch.ones(length, length, dtype=torch.bool).tril()
    if causal:
        expected, _ = layer(x_BTD, x_BTD, x_BTD, attn_mask=hidden)
        found_RD = ours(rows.pack(x_BTD), rows, causal=True)
    else:
        expected, _ = layer(x_BTD, x_BTD, x_BTD, key_padding_mask=~keep_BS)
        found_RD = ours(rows.pack(x_BTD), rows, keep_BS[:, None, None, :])
    assert torch.allclose(rows.unpack(found_RD), expected, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(**SHAPES, sources=st.integers(1, 9), seed=st.integers(0, 99))
def test_cross_attention_equals_pytorchs(batch: int, heads: int, length: int, sources: int, seed: int) -> None:
    torch.manual_seed(seed)
    ours = CrossAttention(ModelConfig(d_model=8, num_heads=heads)).double()
    layer = theirs(heads, 8, ours.queries.weight, ours.keys_values.weight, ours.output.weight)
    x_BTD = torch.randn(batch, length, 8, dtype=torch.double)
    memory_BSD = torch.randn(batch, sources, 8, dtype=torch.double)
    keep_BS = keep_of(torch.randint(1, sources + 1, (batch,)), sources)
    expected, shares = layer(
        x_BTD, memory_BSD, memory_BSD, key_padding_mask=~keep_BS, need_weights=True, average_attn_weights=False
    )
    rows, memory_rows = Rectangle.of(x_BTD[..., 0]), Rectangle.of(memory_BSD[..., 0])
    memory, keep = ours.project_memory(memory_rows.pack(memory_BSD), memory_rows), keep_BS[:, None, None, :]
    x_RD = rows.pack(x_BTD)
    assert torch.allclose(rows.unpack(ours(x_RD, rows, memory, keep)), expected, atol=1e-9)
    assert torch.allclose(ours.weights(x_RD, rows, memory, keep), shares, atol=1e-9)


@pytest.mark.parametrize("causal", [False, True])
def test_the_kernel_is_eq_1(causal: bool) -> None:
    """Also with values of another width than the keys (Table 3 B)."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, width, dtype=torch.double) for width in (4, 4, 7))
    assert torch.allclose(attend(q, KeysValues(k, v), causal=causal), weights(q, k, causal=causal) @ v, atol=1e-12)


def test_weights_are_shares_of_what_may_be_seen() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 2, 6, 4), torch.randn(2, 2, 6, 4)
    keep = keep_of(torch.tensor([3, 6]), 6)[:, None, None, :]
    shares = weights(q, k, keep=keep, causal=True)
    assert torch.allclose(shares.sum(dim=-1), torch.ones(2, 2, 6))
    assert not shares[0, ..., 3:].any()
    assert not shares.triu(diagonal=1).any()


@pytest.mark.parametrize("width", [1, 16, 64, 512])
def test_scaled_scores_have_unit_variance(width: int) -> None:
    """Section 3.2.1: products of random vectors grow with sqrt(d_k), and the scale takes that away."""
    torch.manual_seed(0)
    q, k = torch.randn(1, 8, 200, width), torch.randn(1, 8, 200, width)
    assert scores(q, k).var() == pytest.approx(1.0, rel=0.1)
