"""Attention (section 3.2): scaled dot products, several heads at once, of a sequence to itself or to the source.

Eq. (1) is computed by PyTorch's kernel (`scaled_dot_product_attention`); `weights` computes its softmax in the open,
for pictures and tests. Projecting and attending are separate verbs, so that decoding may keep the keys and values of a
prefix. Where `rows` are given, what comes in and goes out are the real tokens only (transformer/unpadded.py).
"""

# B batch, T queries, S keys, D d_model, H heads, K width of a query or key, V width of a value
# A mask says where a query MAY look: True is keep. It is broadcast to (B, H, T, S).

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.config import ModelConfig
from transformer.cpu.linear import Linear
from transformer.unpadded import Rows


class KeysValues(NamedTuple):
    """What queries look at: one key and one value per position and head."""

    keys_BHSK: Tensor
    values_BHSV: Tensor


def unpacked(x: Tensor, rows: Rows | None) -> Tensor:
    return x if rows is None else rows.unpack(x)


def split_heads(x_BTX: Tensor, heads: int) -> Tensor:
    """Cut the last axis into heads: (B, T, H*K) to (B, H, T, K)."""
    batch, length, width = x_BTX.shape
    return x_BTX.view(batch, length, heads, width // heads).transpose(1, 2)


def join_heads(x_BHTV: Tensor) -> Tensor:
    """Lay the heads side by side again: (B, H, T, V) to (B, T, H*V)."""
    return x_BHTV.transpose(1, 2).flatten(-2)


def attend(
    queries_BHTK: Tensor, seen: KeysValues, *, keep: Tensor | None = None, causal: bool = False, dropout: float = 0.0
) -> Tensor:
    """Eq. (1): softmax(Q K^T / sqrt(d_k)) V. With `causal`, query t sees the keys 0 ... t only."""
    return F.scaled_dot_product_attention(
        queries_BHTK, seen.keys_BHSK, seen.values_BHSV, attn_mask=keep, is_causal=causal, dropout_p=dropout
    )


def scores(queries_BHTK: Tensor, keys_BHSK: Tensor) -> Tensor:
    """Q K^T / sqrt(d_k): of unit variance where queries and keys are, whatever d_k (section 3.2.1)."""
    return queries_BHTK @ keys_BHSK.transpose(-2, -1) / math.sqrt(queries_BHTK.size(-1))


def weights(queries_BHTK: Tensor, keys_BHSK: Tensor, *, keep: Tensor | None = None, causal: bool = False) -> Tensor:
    """The softmax of eq. (1) by itself, (B, H, T, S): how much each query takes from each key. Rows sum to one."""
    scores_BHTS = scores(queries_BHTK, keys_BHSK)
    if causal:
        past = torch.ones(scores_BHTS.shape[-2:], dtype=torch.bool, device=scores_BHTS.device).tril()
        keep = past if keep is None else keep & past
    if keep is not None:
        scores_BHTS = scores_BHTS.masked_fill(~keep, float("-inf"))
    return scores_BHTS.softmax(dim=-1)


class SelfAttention(nn.Module):
    """A sequence attends to itself; queries, keys and values come out of one packed projection (section 3.2.2)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.num_heads
        self.widths = [config.num_heads * width for width in (config.key_width, config.key_width, config.value_width)]
        self.dropout = config.attention_dropout
        self.queries_keys_values = Linear(config.d_model, sum(self.widths), bias=False)
        self.output = Linear(self.widths[2], config.d_model, bias=False)

    def project(self, x_BTD: Tensor, rows: Rows | None = None) -> tuple[Tensor, KeysValues]:
        """Queries, and keys with values, of every position."""
        queries, keys, values = unpacked(self.queries_keys_values(x_BTD), rows).split(self.widths, dim=-1)
        seen = KeysValues(split_heads(keys, self.heads), split_heads(values, self.heads))
        return split_heads(queries, self.heads), seen

    def forward(
        self, x_BTD: Tensor, keep: Tensor | None = None, causal: bool = False, rows: Rows | None = None
    ) -> Tensor:
        queries_BHTK, seen = self.project(x_BTD, rows)
        dropout = self.dropout if self.training else 0.0
        return self.merge(attend(queries_BHTK, seen, keep=keep, causal=causal, dropout=dropout), rows)

    def merge(self, heads_BHTV: Tensor, rows: Rows | None = None) -> Tensor:
        """Heads side by side, times W^O."""
        joined_BTX = join_heads(heads_BHTV)
        out: Tensor = self.output(joined_BTX if rows is None else rows.pack(joined_BTX))
        return out

    def weights(
        self, x_BTD: Tensor, keep: Tensor | None = None, causal: bool = False, rows: Rows | None = None
    ) -> Tensor:
        queries_BHTK, seen = self.project(x_BTD, rows)
        return weights(queries_BHTK, seen.keys_BHSK, keep=keep, causal=causal)


class SourceAttention(nn.Module):
    """The decoder attends to the encoder's output: its own queries, the memory's keys and values (section 3.2.3)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.num_heads
        self.widths = [config.num_heads * width for width in (config.key_width, config.value_width)]
        self.dropout = config.attention_dropout
        self.queries = Linear(config.d_model, self.widths[0], bias=False)
        self.keys_values = Linear(config.d_model, sum(self.widths), bias=False)
        self.output = Linear(self.widths[1], config.d_model, bias=False)

    def project(self, memory_BSD: Tensor, rows: Rows | None = None) -> KeysValues:
        """Keys and values of the memory: the same for every target position, so decoding needs them once."""
        keys, values = unpacked(self.keys_values(memory_BSD), rows).split(self.widths, dim=-1)
        return KeysValues(split_heads(keys, self.heads), split_heads(values, self.heads))

    def forward(self, x_BTD: Tensor, seen: KeysValues, keep: Tensor | None = None, rows: Rows | None = None) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        queries_BHTK = split_heads(unpacked(self.queries(x_BTD), rows), self.heads)
        return self.merge(attend(queries_BHTK, seen, keep=keep, dropout=dropout), rows)

    def merge(self, heads_BHTV: Tensor, rows: Rows | None = None) -> Tensor:
        """Heads side by side, times W^O."""
        joined_BTX = join_heads(heads_BHTV)
        out: Tensor = self.output(joined_BTX if rows is None else rows.pack(joined_BTX))
        return out

    def weights(self, x_BTD: Tensor, seen: KeysValues, keep: Tensor | None = None, rows: Rows | None = None) -> Tensor:
        queries_BHTK = split_heads(unpacked(self.queries(x_BTD), rows), self.heads)
        return weights(queries_BHTK, seen.keys_BHSK, keep=keep)
