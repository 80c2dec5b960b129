"""Encoder and decoder layers (section 3.1): attention and feed-forward networks, each inside a residual connection."""

# B batch, S source length, T target length, D d_model
# A mask says where a query MAY look: True is keep. With `rows`, x holds the real tokens only, (R, D).

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from transformer.attention import KeysValues, SelfAttention, SourceAttention
from transformer.config import ModelConfig
from transformer.cpu.dropout import Dropout
from transformer.cpu.linear import Linear
from transformer.unpadded import Rows


class FeedForward(nn.Module):
    """Eq. (2): max(0, x W1 + b1) W2 + b2, the same at every position."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = Linear(config.d_model, config.d_ff)
        self.outer = Linear(config.d_ff, config.d_model)
        self.dropout = Dropout(config.relu_dropout)

    def forward(self, x_BTD: Tensor) -> Tensor:
        out: Tensor = self.outer(self.dropout(self.inner(x_BTD, relu=True)))
        return out


class Residual(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))) as in the paper, or with `norm="pre"` x + Dropout(Sublayer(LayerNorm(x)))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)
        self.pre = config.norm == "pre"

    def forward(self, x_BTD: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        inside: Tensor = self.norm(x_BTD) if self.pre else x_BTD
        x_BTD = x_BTD + self.dropout(sublayer(inside))
        return x_BTD if self.pre else self.norm(x_BTD)


class EncoderLayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config)
        self.feed_forward = FeedForward(config)
        self.around_attention = Residual(config)
        self.around_feed_forward = Residual(config)

    def forward(self, x_BSD: Tensor, keep: Tensor | None, rows: Rows | None = None) -> Tensor:
        x_BSD = self.around_attention(x_BSD, lambda x: self.self_attention(x, keep, rows=rows))
        out: Tensor = self.around_feed_forward(x_BSD, self.feed_forward)
        return out


class DecoderLayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config)
        self.source_attention = SourceAttention(config)
        self.feed_forward = FeedForward(config)
        self.around_self = Residual(config)
        self.around_source = Residual(config)
        self.around_feed_forward = Residual(config)

    def forward(self, x_BTD: Tensor, source: KeysValues, keep: Tensor | None, rows: Rows | None = None) -> Tensor:
        """`source` is `self.source_attention.project(memory)`; `keep` is the source's mask, `rows` are the target's."""
        return self.around(x_BTD, lambda x: self.self_attention(x, causal=True, rows=rows), source, keep, rows)

    def around(
        self,
        x_BTD: Tensor,
        look_back: Callable[[Tensor], Tensor],
        source: KeysValues,
        keep: Tensor | None,
        rows: Rows | None = None,
    ) -> Tensor:
        """The layer with its self-attention given: the whole prefix at once, or one step against a cache."""
        x_BTD = self.around_self(x_BTD, look_back)
        x_BTD = self.around_source(x_BTD, lambda x: self.source_attention(x, source, keep, rows))
        out: Tensor = self.around_feed_forward(x_BTD, self.feed_forward)
        return out
