"""The Transformer (section 3, figure 1): embeddings, two stacks of layers, and the softmax's projection.

Initial values, on which the paper is silent: Xavier uniform for every projection (queries, keys and values each by its
own shape where they share one matrix), normal with deviation d_model^-0.5 for embeddings, so that an embedding
times sqrt(d_model) has unit variance; biases 0, LayerNorm 1 and 0.
"""

# B batch, S source length, T target length, N real target tokens, D d_model, V vocabulary
# R rows: tokens of all sentences (transformer/unpadded.py); M rows of the source
# A mask says where a query MAY look: True is keep.

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from transformer.attention import CrossAttention, SelfAttention
from transformer.batching import Batch
from transformer.config import PAD, ModelConfig
from transformer.cpu.linear import Linear
from transformer.dropout import Dropout, number_sites
from transformer.layers import DecoderLayer, EncoderLayer, final_norm
from transformer.packed import Packed, PackedBatch
from transformer.positions import LearnedPositions, positions
from transformer.unpadded import Rectangle, Rows


class Memory(NamedTuple):
    """The encoder's output with what the decoder's attention needs to know of it: its rows, and its mask."""

    memory_MD: Tensor
    rows: Rows
    keep_B11S: Tensor


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
        self.source_dropout, self.target_dropout = Dropout(config.dropout), Dropout(config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.encoder_norm = final_norm(config)
        self.decoder_norm = final_norm(config)
        self.apply(initialise)
        number_sites(self)

    @property
    def encoder_layers(self) -> list[EncoderLayer]:
        return cast(list[EncoderLayer], list(self.encoder))

    @property
    def decoder_layers(self) -> list[DecoderLayer]:
        return cast(list[DecoderLayer], list(self.decoder))

    def embed_source(self, source_R: Tensor, rows: Rows | Packed) -> Tensor:
        """Section 3.4, and positions (3.5): (R, D)."""
        table = self.embedding if self.config.tied_embeddings else self.source_embedding
        scaled_RD = table(source_R) * math.sqrt(self.config.d_model)
        out_RD: Tensor = self.source_dropout(self.source_positions(scaled_RD, rows), rows)
        return out_RD

    def embed_target(self, target_in_R: Tensor, rows: Rows | Packed, first: int = 0) -> Tensor:
        """The same for the decoder's input. A sentence begins at position `first`."""
        scaled_RD = self.embedding(target_in_R) * math.sqrt(self.config.d_model)
        out_RD: Tensor = self.target_dropout(self.target_positions(scaled_RD, rows, first), rows)
        return out_RD

    def encode(self, source_BS: Tensor, rows: Rows) -> Memory:
        """Figure 1, left. `rows` are those of `source_BS`."""
        keep_B11S = source_mask(source_BS != PAD)
        x_RD = self.embed_source(rows.pack(source_BS), rows)
        for layer in self.encoder_layers:
            x_RD = layer(x_RD, rows, keep_B11S)
        return Memory(self.encoder_norm(x_RD), rows, keep_B11S)

    def decode(self, target_in_BT: Tensor, rows: Rows, memory: Memory) -> Tensor:
        """Figure 1, right, for all prefixes at once: (R, D). The target may be padded at its end only."""
        x_RD = self.embed_target(rows.pack(target_in_BT), rows)
        for layer in self.decoder_layers:
            keys_values = layer.source_attention.project_memory(memory.memory_MD, memory.rows)
            x_RD = layer(x_RD, rows, keys_values, memory.keep_B11S)
        hidden_RD: Tensor = self.decoder_norm(x_RD)
        return hidden_RD

    def hidden(self, source_BS: Tensor, target_in_BT: Tensor) -> Tensor:
        """Everything before the softmax's projection, (B, T, D). Values at padded positions mean nothing."""
        source, target = Rectangle.of(source_BS), Rectangle.of(target_in_BT)
        return target.unpack(self.decode(target_in_BT, target, self.encode(source_BS, source)))

    def hidden_rows(self, batch: Batch | PackedBatch) -> Tensor:
        """The same for the target's real tokens only, (N, D), in the order of `batch.gold_N`."""
        if isinstance(batch, PackedBatch):
            return self.hidden_packed(batch)
        memory = self.encode(batch.source_BS, batch.source_rows)
        hidden_RD = self.decode(batch.target_in_BT, batch.target_rows, memory)
        return hidden_RD[: batch.target_rows.real]

    def hidden_packed(self, batch: PackedBatch) -> Tensor:
        """The same stacks over packed rows."""
        x_RD = self.embed_source(batch.source_R, batch.source_rows)
        for encoder in self.encoder_layers:
            x_RD = encoder(x_RD, batch.source_rows, None)
        memory_RD = self.encoder_norm(x_RD)
        x_ND = self.embed_target(batch.target_in_N, batch.target_rows)
        for decoder in self.decoder_layers:
            keys_values = decoder.source_attention.project_packed_memory(memory_RD, batch.source_rows)
            x_ND = decoder(x_ND, batch.target_rows, keys_values, None)
        hidden_ND: Tensor = self.decoder_norm(x_ND)
        return hidden_ND

    @property
    def output_weight(self) -> Tensor:
        """The matrix of the pre-softmax projection, (V, D)."""
        return self.embedding.weight if self.config.tied_embeddings else self.output.weight

    def matrices(self) -> list[Tensor]:
        """The weights of all matrix products, for `prepacked` (transformer/cpu/linear.py)."""
        return [*(module.weight for module in self.modules() if isinstance(module, Linear)), self.output_weight]

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., D) to (..., V): the softmax's scores."""
        return nn.functional.linear(hidden, self.output_weight)

    def forward(self, source_BS: Tensor, target_in_BT: Tensor) -> Tensor:
        """The softmax's scores at every target position, (B, T, V)."""
        return self.logits(self.hidden(source_BS, target_in_BT))


def source_mask(source_keep_BS: Tensor) -> Tensor:
    """The mask of the source's keys, the same for every head and query: (B, 1, 1, S)."""
    return source_keep_BS[:, None, None, :]


def initialise(module: nn.Module) -> None:
    """Set the initial values that this file's docstring lists."""
    if isinstance(module, SelfAttention):
        for block in module.queries_keys_values.weight.split(module.widths):
            nn.init.xavier_uniform_(block)
    elif isinstance(module, CrossAttention):
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
    """Learned numbers; a shared matrix counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


class AttentionMaps(NamedTuple):
    """Attention weights: for each layer a tensor (B, H, queries, keys) whose rows sum to one."""

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]  # queries are target positions, keys are source positions


@torch.no_grad()
def attention_maps(model: Transformer, source_BS: Tensor, target_in_BT: Tensor) -> AttentionMaps:
    """The attention weights of every layer and head on this batch, without dropout."""
    maps = AttentionMaps([], [], [])

    def record(into: list[Tensor]) -> Any:
        def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], _output: Tensor) -> None:
            into.append(module.weights(*args, **kwargs))

        return hook

    was_training = model.training
    model.eval()
    watched: list[tuple[nn.Module, list[Tensor]]] = [(e.self_attention, maps.encoder) for e in model.encoder_layers]
    watched += [(d.self_attention, maps.decoder) for d in model.decoder_layers]
    watched += [(d.source_attention, maps.cross) for d in model.decoder_layers]
    with ExitStack() as hooks:
        for module, into in watched:
            hooks.enter_context(module.register_forward_hook(record(into), with_kwargs=True))
        model.hidden(source_BS, target_in_BT)
    model.train(was_training)
    return maps
