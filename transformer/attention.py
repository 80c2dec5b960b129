"""Attention (section 3.2): scaled dot products, several heads at once, of a sequence to itself or to the source.

Eq. (1) is computed by PyTorch's kernels; `weights` computes its softmax alone, for pictures and tests. Tokens come in
and go out as rows, (R, D). Between, `attend` takes them as rectangles (transformer/unpadded.py), and `attend_packed`,
where a GPU trains, as they are (transformer/packed.py).
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
from torch.nn.attention.varlen import varlen_attn

from transformer.config import ModelConfig
from transformer.cpu.linear import Linear
from transformer.packed import Packed
from transformer.unpadded import Rows


class KeysValues(NamedTuple):
    """One key and one value per position and head."""

    keys_BHSK: Tensor
    values_BHSV: Tensor


class PackedKeysValues(NamedTuple):
    """The same for packed rows: one key and one value per row and head."""

    keys_MHK: Tensor
    values_MHV: Tensor
    rows: Packed


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


def attend_packed(queries_RHK: Tensor, rows: Packed, keys_values: PackedKeysValues, *, causal: bool = False) -> Tensor:
    """Eq. (1) inside each sentence, (R, H, V). With `causal`, a query sees the keys up to its own position only."""
    keys_MHK, values_MHV, memory = keys_values
    if queries_RHK.is_cuda:
        window = (-1, 0) if causal else (-1, -1)
        out_RHV: Tensor = varlen_attn(  # type: ignore[assignment]  # a tensor alone where no more is asked for
            queries_RHK, keys_MHK, values_MHV, rows.starts, memory.starts, rows.length, memory.length,
            window_size=window,
        )  # fmt: skip
        return out_RHV
    keep_RM = same_sentence(rows, memory)
    if causal:
        keep_RM = keep_RM & (memory.position_R <= rows.position_R[:, None])
    queries, keys, values = (part.transpose(0, 1)[None] for part in (queries_RHK, keys_MHK, values_MHV))
    return attend(queries, KeysValues(keys, values), keep=keep_RM)[0].transpose(0, 1)


def same_sentence(rows: Packed, memory: Packed) -> Tensor:
    """A mask for the machine that lacks the kernel: rows x rows of the memory, so for tests and not for training."""
    sentence_R, sentence_M = ((each.position_R == 0).cumsum(0) for each in (rows, memory))
    return sentence_R[:, None] == sentence_M


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

    def forward(self, x_RD: Tensor, rows: Rows | Packed, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        if isinstance(rows, Packed):
            return self.forward_packed(x_RD, rows, causal)
        queries_BHTK, keys_values = self.project(x_RD, rows)
        dropout = self.dropout if self.training else 0.0
        return self.merge(attend(queries_BHTK, keys_values, keep=keep, causal=causal, dropout=dropout), rows)

    def forward_packed(self, x_RD: Tensor, rows: Packed, causal: bool) -> Tensor:
        projected = self.queries_keys_values(x_RD).split(self.widths, dim=-1)
        queries_RHK, keys_RHK, values_RHV = (part_RX.unflatten(-1, (self.heads, -1)) for part_RX in projected)
        heads_RHV = attend_packed(queries_RHK, rows, PackedKeysValues(keys_RHK, values_RHV, rows), causal=causal)
        out_RD: Tensor = self.output(heads_RHV.flatten(1))
        return out_RD

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

    def project_packed_memory(self, memory_MD: Tensor, rows: Packed) -> PackedKeysValues:
        """The same for packed rows."""
        keys_MX, values_MX = self.keys_values(memory_MD).split(self.widths, dim=-1)
        heads = (self.heads, -1)
        return PackedKeysValues(keys_MX.unflatten(-1, heads), values_MX.unflatten(-1, heads), rows)

    def project(self, x_RD: Tensor, rows: Rows) -> Tensor:
        """Queries (B, H, T, K)."""
        return split_heads(rows.unpack(self.queries(x_RD)), self.heads)

    def forward(
        self,
        x_RD: Tensor,
        rows: Rows | Packed,
        keys_values: KeysValues | PackedKeysValues,
        keep: Tensor | None = None,
    ) -> Tensor:
        """`rows` are those of the target; `keys_values` are the memory's, and so is the mask `keep`."""
        if isinstance(rows, Packed):
            assert isinstance(keys_values, PackedKeysValues)
            queries_RHK = self.queries(x_RD).unflatten(-1, (self.heads, -1))
            packed_RD: Tensor = self.output(attend_packed(queries_RHK, rows, keys_values).flatten(1))
            return packed_RD
        assert isinstance(keys_values, KeysValues)
        dropout = self.dropout if self.training else 0.0
        heads_BHTV = attend(self.project(x_RD, rows), keys_values, keep=keep, dropout=dropout)
        out_RD: Tensor = self.output(rows.pack(join_heads(heads_BHTV)))
        return out_RD

    def weights(self, x_RD: Tensor, rows: Rows, keys_values: KeysValues, keep: Tensor | None = None) -> Tensor:
        """The softmax of eq. (1) for the same arguments as `forward`, (B, H, T, S)."""
        return weights(self.project(x_RD, rows), keys_values.keys_BHSK, keep=keep)
