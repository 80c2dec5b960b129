"""Attention (section 3.2): scaled dot products, several heads at once, of a sequence to itself or to the source.

Eq. (1) is computed by PyTorch's kernel (`scaled_dot_product_attention`); `weights` computes its softmax alone, for
pictures and tests. Tokens come in and go out as rows, (R, D); between, eq. (1) takes them as rectangles
(transformer/unpadded.py).
"""

# B batch, T queries, S keys, R rows of queries, M rows of the memory, D d_model, H heads,
# K width of a query or key, V width of a value, X heads side by side
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
    """One key and one value per position and head."""

    keys_BHSK: Tensor
    values_BHSV: Tensor


def split_heads(x_BTX: Tensor, heads: int) -> Tensor:
    """Cut the last axis into heads: (B, T, H*K) to (B, H, T, K)."""
    batch, length, width = x_BTX.shape
    return x_BTX.view(batch, length, heads, width // heads).transpose(1, 2)


def join_heads(x_BHTV: Tensor) -> Tensor:
    """Lay the heads side by side again: (B, H, T, V) to (B, T, H*V)."""
    return x_BHTV.transpose(1, 2).flatten(-2)


def attend(
    queries_BHTK: Tensor,
    keys_values: KeysValues,
    *,
    keep: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """Eq. (1): softmax(Q K^T / sqrt(d_k)) V, (B, H, T, V). With `causal`, query t sees the keys 0 ... t only."""
    keys_BHSK, values_BHSV = keys_values
    return F.scaled_dot_product_attention(
        queries_BHTK, keys_BHSK, values_BHSV, attn_mask=keep, is_causal=causal, dropout_p=dropout
    )


def scores(queries_BHTK: Tensor, keys_BHSK: Tensor) -> Tensor:
    """Q K^T / sqrt(d_k): of unit variance where queries and keys are, whatever d_k (section 3.2.1)."""
    return queries_BHTK @ keys_BHSK.transpose(-2, -1) / math.sqrt(queries_BHTK.size(-1))


def weights(queries_BHTK: Tensor, keys_BHSK: Tensor, *, keep: Tensor | None = None, causal: bool = False) -> Tensor:
    """The softmax of eq. (1), (B, H, T, S): the weight of each key for each query. Each query's weights sum to one."""
    scores_BHTS = scores(queries_BHTK, keys_BHSK)
    if causal:
        past = torch.ones(scores_BHTS.shape[-2:], dtype=torch.bool, device=scores_BHTS.device).tril()
        keep = past if keep is None else keep & past
    if keep is not None:
        scores_BHTS = scores_BHTS.masked_fill(~keep, float("-inf"))
    return scores_BHTS.softmax(dim=-1)


class SelfAttention(nn.Module):
    """Section 3.2.2: queries, keys and values of one sequence, by one matrix that holds W^Q, W^K and W^V."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.num_heads
        self.widths = [config.num_heads * width for width in (config.key_width, config.key_width, config.value_width)]
        self.dropout = config.attention_dropout
        self.queries_keys_values = Linear(config.d_model, sum(self.widths), bias=False)
        self.output = Linear(self.widths[2], config.d_model, bias=False)

    def project(self, x_RD: Tensor, rows: Rows) -> tuple[Tensor, KeysValues]:
        """Queries (B, H, T, K), and keys with values, of every position."""
        projected_BTX = rows.unpack(self.queries_keys_values(x_RD))
        queries_BTX, keys_BTX, values_BTX = projected_BTX.split(self.widths, dim=-1)
        keys_values = KeysValues(split_heads(keys_BTX, self.heads), split_heads(values_BTX, self.heads))
        return split_heads(queries_BTX, self.heads), keys_values

    def forward(self, x_RD: Tensor, rows: Rows, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        queries_BHTK, keys_values = self.project(x_RD, rows)
        dropout = self.dropout if self.training else 0.0
        return self.merge(attend(queries_BHTK, keys_values, keep=keep, causal=causal, dropout=dropout), rows)

    def merge(self, heads_BHTV: Tensor, rows: Rows) -> Tensor:
        """Heads side by side, times W^O: (R, D)."""
        out_RD: Tensor = self.output(rows.pack(join_heads(heads_BHTV)))
        return out_RD

    def weights(self, x_RD: Tensor, rows: Rows, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        """The softmax of eq. (1) for the same arguments as `forward`, (B, H, T, T)."""
        queries_BHTK, (keys_BHSK, _) = self.project(x_RD, rows)
        return weights(queries_BHTK, keys_BHSK, keep=keep, causal=causal)


class CrossAttention(nn.Module):
    """Section 3.2.3: queries of the decoder, keys and values of the memory, which is the encoder's output."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.num_heads
        self.widths = [config.num_heads * width for width in (config.key_width, config.value_width)]
        self.dropout = config.attention_dropout
        self.queries = Linear(config.d_model, self.widths[0], bias=False)
        self.keys_values = Linear(config.d_model, sum(self.widths), bias=False)
        self.output = Linear(self.widths[1], config.d_model, bias=False)

    def project_memory(self, memory_MD: Tensor, rows: Rows) -> KeysValues:
        """Keys and values of the memory: the same for every target position, so decoding computes them once."""
        keys_BSX, values_BSX = rows.unpack(self.keys_values(memory_MD)).split(self.widths, dim=-1)
        return KeysValues(split_heads(keys_BSX, self.heads), split_heads(values_BSX, self.heads))

    def project(self, x_RD: Tensor, rows: Rows) -> Tensor:
        """Queries (B, H, T, K)."""
        return split_heads(rows.unpack(self.queries(x_RD)), self.heads)

    def forward(self, x_RD: Tensor, rows: Rows, keys_values: KeysValues, keep: Tensor | None = None) -> Tensor:
        """`rows` are those of the target; `keys_values` are the memory's, and so is the mask `keep`."""
        dropout = self.dropout if self.training else 0.0
        heads_BHTV = attend(self.project(x_RD, rows), keys_values, keep=keep, dropout=dropout)
        out_RD: Tensor = self.output(rows.pack(join_heads(heads_BHTV)))
        return out_RD

    def weights(self, x_RD: Tensor, rows: Rows, keys_values: KeysValues, keep: Tensor | None = None) -> Tensor:
        """The softmax of eq. (1) for the same arguments as `forward`, (B, H, T, S)."""
        return weights(self.project(x_RD, rows), keys_values.keys_BHSK, keep=keep)
