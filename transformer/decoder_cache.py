"""What decoding a step needs of the steps before: keys and values of the source and of every hypothesis so far.

The hypotheses of one sentence share one store. A *slot* holds the key and value of one hypothesis at one position, and
`past_NWC` says which slots each hypothesis may look at. When hypotheses continue others, only `past_NWC` is rearranged;
keys and values stay in place. A slot that no hypothesis may look at any more is used again, so the store grows with the
length of a translation, not with beam times length, and is never copied from step to step.
"""

# N sentences, W hypotheses of each (the width of the beam), S source length, C slots, D d_model, H heads
# R rows: N x W tokens, one of each hypothesis
# Masks here are added to attention scores: 0 where a query may look, -inf where it may not.

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer.attention import KeysValues, SelfAttention, attend
from transformer.config import PAD
from transformer.model import Transformer, source_mask
from transformer.unpadded import Rectangle

NEVER = -math.inf
SPARE = 32  # slots that a full store grows by at least


class Slots:
    """One decoder layer's keys and values of all hypotheses: (N, H, C, width) each."""

    def __init__(self, sentences: int, attention: SelfAttention, like: Tensor) -> None:
        heads = attention.heads
        self.keys_NHCK = like.new_zeros(sentences, heads, 0, attention.widths[1] // heads)
        self.values_NHCV = like.new_zeros(sentences, heads, 0, attention.widths[2] // heads)

    @property
    def capacity(self) -> int:
        return self.keys_NHCK.size(2)

    def grow(self, capacity: int) -> None:
        more = capacity - self.capacity
        self.keys_NHCK = F.pad(self.keys_NHCK, (0, 0, 0, more))
        self.values_NHCV = F.pad(self.values_NHCV, (0, 0, 0, more))

    def put(self, sentence_N1: Tensor, chosen_NW: Tensor, new: KeysValues) -> None:
        """Store keys and values (N, H, W, width) in the chosen slots of each sentence."""
        self.keys_NHCK[sentence_N1, :, chosen_NW] = new.keys_BHSK.transpose(1, 2)
        self.values_NHCV[sentence_N1, :, chosen_NW] = new.values_BHSV.transpose(1, 2)

    def first(self, used: int) -> KeysValues:
        """Those of the first `used` slots: views."""
        return KeysValues(self.keys_NHCK[:, :, :used], self.values_NHCV[:, :, :used])

    def select(self, kept: Tensor) -> None:
        self.keys_NHCK, self.values_NHCV = self.keys_NHCK[kept], self.values_NHCV[kept]


class DecoderCache:
    """Decodes a batch of sentences one position at a time. Starts with one hypothesis of each: the empty one."""

    def __init__(self, model: Transformer, source_NS: Tensor) -> None:
        self.model = model
        memory = model.encode(source_NS, Rectangle.of(source_NS))
        self.position = 0
        real_NS = source_NS != PAD
        self.cross_keep = None if bool(real_NS.all()) else source_mask(_added(real_NS, memory.memory_MD))
        self.cross = [
            _contiguous(layer.source_attention.project_memory(memory.memory_MD, memory.rows))
            for layer in model.decoder_layers
        ]
        sentences = source_NS.size(0)
        self.slots = [Slots(sentences, layer.self_attention, memory.memory_MD) for layer in model.decoder_layers]
        self.past_NWC = memory.memory_MD.new_full((sentences, 1, 0), NEVER)

    def step(self, tokens_NW: Tensor) -> Tensor:
        """The decoder's output (R, D) at the next position, where each hypothesis has this token."""
        rows = Rectangle.of(tokens_NW)  # to attention, the hypotheses of a sentence are its queries
        chosen_NW = self._take_slots(rows.length)
        sentence_N1 = torch.arange(rows.sentences, device=tokens_NW.device).unsqueeze(1)
        alone = Rectangle(tokens_NW.numel(), 1)  # to the embedding, each is a sentence that begins here
        x_RD = self.model.embed_target(tokens_NW.flatten(), alone, first=self.position)
        for layer, slots, cross in zip(self.model.decoder_layers, self.slots, self.cross, strict=True):
            self_attention = partial(self._self_attention, layer.self_attention, rows, slots, sentence_N1, chosen_NW)
            x_RD = layer.sublayers(x_RD, rows, cross, self.cross_keep, self_attention)
        self.position += 1
        hidden_RD: Tensor = self.model.decoder_norm(x_RD)
        return hidden_RD

    def _take_slots(self, width: int) -> Tensor:
        """A free slot for each hypothesis, (N, W), which from now on it alone may look at."""
        used = self.past_NWC.size(2)
        busy_NC = F.pad((self.past_NWC == 0).any(dim=1), (0, width))
        order_NC = torch.arange(used + width, device=busy_NC.device) + busy_NC * (used + width)
        chosen_NW = order_NC.topk(width, dim=1, largest=False).indices
        needed = max(int(chosen_NW.max()) + 1, used)
        if needed > self.slots[0].capacity:
            for slots in self.slots:
                slots.grow(needed + max(SPARE, needed // 2))
        self.past_NWC = F.pad(self.past_NWC, (0, needed - used), value=NEVER)
        self.past_NWC.scatter_(2, chosen_NW.unsqueeze(2), 0.0)
        return chosen_NW

    def _self_attention(
        self,
        attention: SelfAttention,
        rows: Rectangle,
        slots: Slots,
        sentence_N1: Tensor,
        chosen_NW: Tensor,
        x_RD: Tensor,
    ) -> Tensor:
        """One layer's self-attention: the new keys and values are stored, then eq. (1) over all stored ones."""
        queries_NHWK, new = attention.project(x_RD, rows)
        slots.put(sentence_N1, chosen_NW, new)
        past = slots.first(self.past_NWC.size(2))
        return attention.merge(attend(queries_NHWK, past, keep=self.past_NWC.unsqueeze(1)), rows)

    def follow(self, parents_NW: Tensor) -> None:
        """Hypothesis w of a sentence becomes a continuation of its hypothesis parents[w]."""
        chosen = parents_NW.unsqueeze(2).expand(-1, -1, self.past_NWC.size(2))
        self.past_NWC = self.past_NWC.gather(1, chosen)

    def select(self, kept: Tensor) -> None:
        """Keep these sentences only."""
        self.past_NWC = self.past_NWC[kept]
        self.cross = [KeysValues(keys[kept], values[kept]) for keys, values in self.cross]
        self.cross_keep = None if self.cross_keep is None else self.cross_keep[kept]
        for slots in self.slots:
            slots.select(kept)


def _added(keep: Tensor, like: Tensor) -> Tensor:
    """A mask of truth values as one to be added to scores: converted once instead of at every step."""
    return like.new_zeros(keep.shape).masked_fill_(~keep, NEVER)


def _contiguous(keys_values: KeysValues) -> KeysValues:
    return KeysValues(keys_values.keys_BHSK.contiguous(), keys_values.values_BHSV.contiguous())
