"""The model with one mechanism of the paper taken out or exchanged. `transformer/` itself stays the paper.

A variant is made of the model's own modules: whatever is not named here is the unablated model's code.
"""

# B batch, T target length, D d_model, R rows: tokens of all sentences (transformer/unpadded.py)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, cast

import torch
from torch import Tensor, nn

from transformer.attention import KeysValues, PackedKeysValues, SelfAttention
from transformer.config import ModelConfig
from transformer.layers import DecoderLayer, Residual
from transformer.model import Transformer
from transformer.packed import Packed
from transformer.unpadded import Rows, Unpadded

Norm = Literal["layer", "batch", "none"]
Positions = Literal["sinusoidal", "learned", "none"]


class UnscaledSelfAttention(SelfAttention):
    """Eq. (1) without 1/sqrt(d_k): queries are made larger by what the kernel divides by."""

    def project(self, x_RD: Tensor, rows: Rows) -> tuple[Tensor, KeysValues]:
        queries_BHTK, keys_values = super().project(x_RD, rows)
        return queries_BHTK * math.sqrt(queries_BHTK.size(-1)), keys_values


class UnmaskedDecoderLayer(DecoderLayer):
    """A decoder layer in which every position sees all of its sentence, the future too (section 3.2.3 undone)."""

    def forward(
        self, x_RD: Tensor, rows: Rows | Packed, memory: KeysValues | PackedKeysValues, keep: Tensor | None
    ) -> Tensor:
        real = real_places(rows) if isinstance(rows, Unpadded) else None
        return self.sublayers(x_RD, rows, memory, keep, lambda x_RD: self.self_attention(x_RD, rows, real))


def real_places(rows: Unpadded) -> Tensor:
    """True where a token of the rectangle is real, as a mask over keys: (B, 1, 1, T)."""
    keep = torch.ones(rows.sentences * rows.length, dtype=torch.bool)
    return keep.index_fill_(0, rows.padding_P, False).view(rows.sentences, 1, 1, rows.length)


def without_mask(model: Transformer) -> Transformer:
    """The same model, its weights too, but for the decoder's mask."""
    for layer in model.decoder_layers:
        layer.__class__ = UnmaskedDecoderLayer
    return model


class NoPositions(nn.Module):
    def forward(self, x_RD: Tensor, rows: Rows, first: int = 0) -> Tensor:
        return x_RD


def without_positions(model: Transformer) -> Transformer:
    model.source_positions, model.target_positions = NoPositions(), NoPositions()
    return model


class BatchNorm(nn.Module):
    """Over the tokens of a batch, feature by feature, where LayerNorm takes the features of a token."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.over_tokens = nn.BatchNorm1d(d_model)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.over_tokens(x.reshape(-1, x.size(-1)))
        return out.view(x.shape)


class Around(nn.Module):
    """What stands around a sub-layer in place of the paper's LayerNorm(x + Sublayer(x)), without dropout."""

    def __init__(self, d_model: int, *, norm: Norm, residual: bool, pre: bool) -> None:
        super().__init__()
        made: dict[Norm, Callable[[], nn.Module]] = {
            "layer": lambda: nn.LayerNorm(d_model),
            "batch": lambda: BatchNorm(d_model),
            "none": nn.Identity,
        }
        self.norm, self.residual, self.pre = made[norm](), residual, pre

    def forward(self, x: Tensor, rows: Rows | Packed, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        out = sublayer(self.norm(x) if self.pre else x)
        out = x + out if self.residual else out
        return out if self.pre else cast(Tensor, self.norm(out))


def around_sublayers(model: Transformer, *, norm: Norm, residual: bool) -> Transformer:
    """The model with another `Around` in every place where a residual connection stands."""
    for parent in [*model.encoder, *model.decoder]:
        for name, child in list(parent.named_children()):
            if isinstance(child, Residual):
                around = Around(model.config.d_model, norm=norm, residual=residual, pre=model.config.norm == "pre")
                setattr(parent, name, around)
    return model


def seeded(config: ModelConfig, vocabulary: int, seed: int) -> Transformer:
    """The paper's model with initial values that depend on the seed alone."""
    torch.manual_seed(seed)
    return Transformer(config, vocabulary)
