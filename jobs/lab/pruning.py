"""Taking heads out of a trained model, the least important first (Voita 2019, Michel 2019)."""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

import torch
from torch import Tensor

from jobs.lab.bench import Row, Text
from jobs.lab.text_training import TestSet, greedy
from jobs.train.stream import Reader, read_index
from transformer.attention import CrossAttention, SelfAttention
from transformer.model import Transformer
from transformer.update import Ranks, evaluate

STRIDE = 4  # once BLEU has fallen, it is looked at after every so many heads


class Head(NamedTuple):
    attention: SelfAttention | CrossAttention
    number: int

    def columns(self) -> Tensor:
        """The columns of W^O that this head's values are multiplied by."""
        weight = self.attention.output.weight.data
        width = weight.size(1) // self.attention.heads
        return weight[:, self.number * width : (self.number + 1) * width]


def all_heads(model: Transformer) -> list[Head]:
    attentions: list[SelfAttention | CrossAttention] = [layer.self_attention for layer in model.encoder_layers]
    for layer in model.decoder_layers:
        attentions += [layer.self_attention, layer.source_attention]
    return [Head(attention, number) for attention in attentions for number in range(attention.heads)]


def by_importance(model: Transformer, text: Text) -> list[Head]:
    """Least first: by the loss, on one micro-batch of the training text, when a head alone is missing."""
    index = read_index(text.shards)
    with closing(Reader(text.shards, index)) as reader:
        batch = reader.read(0)
    losses = []
    for head in all_heads(model):
        kept = head.columns().clone()
        head.columns().zero_()
        losses.append(evaluate(model, [batch], 0.0, Ranks())[1])
        head.columns().copy_(kept)
    order = sorted(range(len(losses)), key=lambda place: losses[place])
    return [all_heads(model)[place] for place in order]


@torch.no_grad()
def remove_heads(model: Transformer, text: Text, tested: TestSet, whole: float, margin: float) -> list[Row]:
    """BLEU by heads removed: after every one until it has fallen by more than `margin`, then after every few.

    The model is left without heads.
    """
    rows: list[Row] = [{"removed": 0, "bleu": whole}]
    heads = by_importance(model, text)
    fallen = False
    for removed, head in enumerate(heads, 1):
        head.columns().zero_()
        if not fallen or removed % STRIDE == 0 or removed == len(heads):
            rows.append({"removed": removed, "bleu": tested.bleu_of(greedy(model))})
            fallen |= rows[-1]["bleu"] < whole - margin
    return rows
