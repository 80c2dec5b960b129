"""The Transformer (section 3, figure 1): embeddings, two stacks of layers, and the softmax's projection.

Initial values, on which the paper is silent: Xavier uniform for every projection (queries, keys and values each by its
own shape where they are packed in one matrix), normal with deviation d_model^-0.5 for embeddings, so that an embedding
times sqrt(d_model) has unit variance; biases 0, LayerNorm 1 and 0.
"""

# B batch, S source length, T target length, D d_model, V vocabulary
# A mask says where a query MAY look: True is keep. With `rows`, only real tokens are held: (R, D) for (B, T, D).

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from transformer.attention import SelfAttention, SourceAttention
from transformer.batching import Batch
from transformer.config import PAD, ModelConfig
from transformer.cpu.dropout import Dropout
from transformer.cpu.linear import Linear
from transformer.layers import DecoderLayer, EncoderLayer
from transformer.positions import LearnedPositions, positions
from transformer.unpadded import Rows


class Transformer(nn.Module):
    """Source and target subwords in, a score for every subword of the vocabulary at every target position out."""

    def __init__(self, config: ModelConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.config = config
        self.vocabulary_size = vocabulary_size
        self.embedding = nn.Embedding(vocabulary_size, config.d_model)  # of the target; of everything when tied
        if not config.tied_embeddings:
            self.source_embedding = nn.Embedding(vocabulary_size, config.d_model)
            self.output = nn.Linear(config.d_model, vocabulary_size, bias=False)
        self.source_positions = positions(config)
        self.target_positions = positions(config)
        self.dropout = Dropout(config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        pre = config.norm == "pre"
        self.encoder_norm = nn.LayerNorm(config.d_model) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model) if pre else nn.Identity()
        self.apply(initialise)

    @property
    def encoder_layers(self) -> list[EncoderLayer]:
        return cast(list[EncoderLayer], list(self.encoder))

    @property
    def decoder_layers(self) -> list[DecoderLayer]:
        return cast(list[DecoderLayer], list(self.decoder))

    def embed_source(self, source_BS: Tensor, rows: Rows | None = None) -> Tensor:
        table = self.embedding if self.config.tied_embeddings else self.source_embedding
        scaled_BSD = table(source_BS if rows is None else rows.pack(source_BS)) * math.sqrt(self.config.d_model)
        out: Tensor = self.dropout(self.source_positions(scaled_BSD, rows=rows))
        return out

    def embed_target(self, target_BT: Tensor, start: int = 0, rows: Rows | None = None) -> Tensor:
        """`start` is the position of the first column, for decoding a step at a time."""
        scaled_BTD = self.embedding(target_BT if rows is None else rows.pack(target_BT))
        scaled_BTD = scaled_BTD * math.sqrt(self.config.d_model)
        out: Tensor = self.dropout(self.target_positions(scaled_BTD, start, rows))
        return out

    def encode(self, source_BS: Tensor, rows: Rows | None = None) -> Tensor:
        """The encoder's output, (B, S, D). Padded positions hold nothing of use and are never looked at."""
        keep = source_mask(source_BS != PAD)
        x_BSD = self.embed_source(source_BS, rows)
        for layer in self.encoder:
            x_BSD = layer(x_BSD, keep, rows)
        memory_BSD: Tensor = self.encoder_norm(x_BSD)
        return memory_BSD

    def decode(
        self,
        target_in_BT: Tensor,
        memory_BSD: Tensor,
        source_keep_BS: Tensor,
        source_rows: Rows | None = None,
        rows: Rows | None = None,
    ) -> Tensor:
        """The decoder's output, (B, T, D), for all prefixes at once. Target padding may only stand at the end."""
        keep = source_mask(source_keep_BS)
        x_BTD = self.embed_target(target_in_BT, rows=rows)
        for layer in self.decoder_layers:
            x_BTD = layer(x_BTD, layer.source_attention.project(memory_BSD, source_rows), keep, rows)
        hidden_BTD: Tensor = self.decoder_norm(x_BTD)
        return hidden_BTD

    def hidden(self, source_BS: Tensor, target_in_BT: Tensor) -> Tensor:
        """Everything before the softmax's projection, (B, T, D)."""
        return self.decode(target_in_BT, self.encode(source_BS), source_BS != PAD)

    def hidden_rows(self, batch: Batch) -> Tensor:
        """The same for the target's real tokens only, (N, D), in the order of the gold: what the loss takes."""
        memory_RD = self.encode(batch.source_BS, batch.source_rows)
        source_keep_BS = batch.source_BS != PAD
        hidden_RD = self.decode(batch.target_in_BT, memory_RD, source_keep_BS, batch.source_rows, batch.target_rows)
        return hidden_RD[: batch.target_rows.real]

    @property
    def output_weight(self) -> Tensor:
        """The matrix of the pre-softmax projection, (V, D)."""
        return self.embedding.weight if self.config.tied_embeddings else self.output.weight

    def matrices(self) -> list[Tensor]:
        """All by which rows are multiplied."""
        return [*(module.weight for module in self.modules() if isinstance(module, Linear)), self.output_weight]

    def logits(self, hidden: Tensor) -> Tensor:
        return nn.functional.linear(hidden, self.output_weight)

    def forward(self, source_BS: Tensor, target_in_BT: Tensor) -> Tensor:
        return self.logits(self.hidden(source_BS, target_in_BT))


def source_mask(source_keep_BS: Tensor) -> Tensor:
    """Keys that may be looked at, for every head and query alike: (B, 1, 1, S)."""
    return source_keep_BS[:, None, None, :]


def initialise(module: nn.Module) -> None:
    """The initial values that the head of this file names."""
    if isinstance(module, SelfAttention):
        for block in module.queries_keys_values.weight.split(module.widths):
            nn.init.xavier_uniform_(block)
    elif isinstance(module, SourceAttention):
        for block in module.keys_values.weight.split(module.widths):
            nn.init.xavier_uniform_(block)
    elif isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
    elif isinstance(module, LearnedPositions):
        nn.init.normal_(module.table, std=module.table.size(1) ** -0.5)


def count_parameters(model: nn.Module) -> int:
    """Every learned number once, shared matrices too."""
    return sum(parameter.numel() for parameter in model.parameters())


class AttentionMaps(NamedTuple):
    """Who looks at whom: for each layer a tensor (B, H, queries, keys) whose rows sum to one."""

    encoder: list[Tensor]
    decoder: list[Tensor]
    source: list[Tensor]  # target positions looking at the source


@torch.no_grad()
def attention_maps(model: Transformer, source_BS: Tensor, target_in_BT: Tensor) -> AttentionMaps:
    """The attention weights of every layer and head on this batch, without dropout."""
    maps = AttentionMaps([], [], [])

    def record(into: list[Tensor]) -> Any:
        def look(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], _output: Tensor) -> None:
            into.append(module.weights(*args, **kwargs))

        return look

    was_training = model.training
    model.eval()
    watched: list[tuple[nn.Module, list[Tensor]]] = [(e.self_attention, maps.encoder) for e in model.encoder_layers]
    watched += [(d.self_attention, maps.decoder) for d in model.decoder_layers]
    watched += [(d.source_attention, maps.source) for d in model.decoder_layers]
    with ExitStack() as hooks:
        for module, into in watched:
            hooks.enter_context(module.register_forward_hook(record(into), with_kwargs=True))
        model.hidden(source_BS, target_in_BT)
    model.train(was_training)
    return maps
