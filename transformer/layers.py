"""Encoder and decoder layers (section 3.1): attention and feed-forward networks, each inside a residual connection."""

# R rows (tokens of all sentences, transformer/unpadded.py; transformer/packed.py on a GPU), D d_model
# A mask says where a query MAY look: True is keep.

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from transformer.attention import CrossAttention, KeysValues, PackedKeysValues, SelfAttention
from transformer.config import ModelConfig
from transformer.cpu.linear import Linear
from transformer.dropout import Dropout
from transformer.packed import Packed
from transformer.unpadded import Rows


class FeedForward(nn.Module):
    """Eq. (2): max(0, x W1 + b1) W2 + b2, the same at every position."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = Linear(config.d_model, config.d_ff)
        self.outer = Linear(config.d_ff, config.d_model)
        self.dropout = Dropout(config.relu_dropout)

    def forward(self, x_RD: Tensor, rows: Rows | Packed) -> Tensor:
        out_RD: Tensor = self.outer(self.dropout(self.inner(x_RD, relu=True), rows))
        return out_RD


def layer_norm(config: ModelConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.d_model)


def final_norm(config: ModelConfig) -> nn.Module:
    """What ends a stack of layers: nothing in the paper, whose last layer ends with its own norm."""
    return layer_norm(config) if config.norm == "pre" else nn.Identity()


class Residual(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))) as in the paper, or with `norm="pre"` x + Dropout(Sublayer(LayerNorm(x)))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = layer_norm(config)
        self.dropout = Dropout(config.dropout)
        self.pre = config.norm == "pre"

    def forward(self, x_RD: Tensor, rows: Rows | Packed, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        input_RD: Tensor = self.norm(x_RD) if self.pre else x_RD
        x_RD = x_RD + self.dropout(sublayer(input_RD), rows)
        return x_RD if self.pre else self.norm(x_RD)


class EncoderLayer(nn.Module):
    """Figure 1, left: self-attention, feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config)
        self.feed_forward = FeedForward(config)
        self.around_attention = Residual(config)
        self.around_feed_forward = Residual(config)

    def forward(self, x_RD: Tensor, rows: Rows | Packed, keep: Tensor | None) -> Tensor:
        x_RD = self.around_attention(x_RD, rows, lambda x_RD: self.self_attention(x_RD, rows, keep))
        x_RD = self.around_feed_forward(x_RD, rows, lambda x_RD: self.feed_forward(x_RD, rows))
        return x_RD


class DecoderLayer(nn.Module):
    """Figure 1, right: causal self-attention, cross-attention to the memory, feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config)
        self.source_attention = CrossAttention(config)  # this name, and around_source, are in saved weights
        self.feed_forward = FeedForward(config)
        self.around_self = Residual(config)
        self.around_source = Residual(config)
        self.around_feed_forward = Residual(config)

    def forward(
        self, x_RD: Tensor, rows: Rows | Packed, memory: KeysValues | PackedKeysValues, keep: Tensor | None
    ) -> Tensor:
        """`memory` is what `CrossAttention.project_memory` makes of the encoder's output; `keep` is its mask."""
        return self.sublayers(x_RD, rows, memory, keep, lambda x_RD: self.self_attention(x_RD, rows, causal=True))

    def sublayers(
        self,
        x_RD: Tensor,
        rows: Rows | Packed,
        memory: KeysValues | PackedKeysValues,
        keep: Tensor | None,
        self_attention: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """The layer with its self-attention given: over whole prefixes, or one step against a cache."""
        x_RD = self.around_self(x_RD, rows, self_attention)
        x_RD = self.around_source(x_RD, rows, lambda x_RD: self.source_attention(x_RD, rows, memory, keep))
        x_RD = self.around_feed_forward(x_RD, rows, lambda x_RD: self.feed_forward(x_RD, rows))
        return x_RD
