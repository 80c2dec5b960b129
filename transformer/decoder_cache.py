"""What the decoder need not compute again: keys and values of the source, and of every hypothesis decoded so far.

The hypotheses of one sentence share one store. A *slot* holds the key and value of one hypothesis at one position, and
`seen` says which hypothesis looks back on which slots. When hypotheses go on from others, only `seen` is rearranged;
keys and values stay where they are. A slot that no living hypothesis looks back on is free and is used again, so the
store grows with the length of a translation, not with beam times length, and is never copied from step to step.
"""

# N sentences, W hypotheses of each (the width of the beam), S source length, C slots, D d_model, H heads
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

NEVER = -math.inf
SPARE = 32  # slots by which a full store is made larger at the least


class Slots:
    """One layer's keys and values, (N, H, C, width) each."""

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

    def put(self, rows_N1: Tensor, chosen_NW: Tensor, new: KeysValues) -> None:
        """Store keys and values (N, H, W, width) in the chosen slots of each sentence."""
        self.keys_NHCK[rows_N1, :, chosen_NW] = new.keys_BHSK.transpose(1, 2)
        self.values_NHCV[rows_N1, :, chosen_NW] = new.values_BHSV.transpose(1, 2)

    def first(self, used: int) -> KeysValues:
        return KeysValues(self.keys_NHCK[:, :, :used], self.values_NHCV[:, :, :used])

    def select(self, rows: Tensor) -> None:
        self.keys_NHCK, self.values_NHCV = self.keys_NHCK[rows], self.values_NHCV[rows]


class DecoderCache:
    """Decodes a batch of sentences one position at a time. Starts with one hypothesis of each: the empty one."""

    def __init__(self, model: Transformer, source_NS: Tensor) -> None:
        self.model = model
        memory_NSD = model.encode(source_NS)
        self.position = 0
        real_NS = source_NS != PAD
        self.source_keep = None if bool(real_NS.all()) else source_mask(_added(real_NS, memory_NSD))
        self.source = [_contiguous(layer.source_attention.project(memory_NSD)) for layer in model.decoder_layers]
        sentences = source_NS.size(0)
        self.slots = [Slots(sentences, layer.self_attention, memory_NSD) for layer in model.decoder_layers]
        self.seen_NWC = memory_NSD.new_full((sentences, 1, 0), NEVER)

    def step(self, tokens_NW: Tensor) -> Tensor:
        """The decoder's output (N, W, D) at the next position, each hypothesis having just been given its token."""
        sentences, width = tokens_NW.shape
        chosen_NW = self._take_slots(width)
        rows_N1 = torch.arange(sentences, device=tokens_NW.device).unsqueeze(1)
        x_NWD = self.model.embed_target(tokens_NW.reshape(-1, 1), start=self.position).view(sentences, width, -1)
        for layer, slots, source in zip(self.model.decoder_layers, self.slots, self.source, strict=True):
            look_back = partial(self._look_back, layer.self_attention, slots, rows_N1, chosen_NW)
            x_NWD = layer.around(x_NWD, look_back, source, self.source_keep)
        self.position += 1
        out: Tensor = self.model.decoder_norm(x_NWD)
        return out

    def _take_slots(self, width: int) -> Tensor:
        """A free slot for each hypothesis, (N, W); from now on it looks back on it, and no other does."""
        used = self.seen_NWC.size(2)
        busy_NC = F.pad((self.seen_NWC == 0).any(dim=1), (0, width))
        order_NC = torch.arange(used + width, device=busy_NC.device) + busy_NC * (used + width)
        chosen_NW = order_NC.topk(width, dim=1, largest=False).indices
        needed = max(int(chosen_NW.max()) + 1, used)
        if needed > self.slots[0].capacity:
            for slots in self.slots:
                slots.grow(needed + max(SPARE, needed // 2))
        self.seen_NWC = F.pad(self.seen_NWC, (0, needed - used), value=NEVER)
        self.seen_NWC.scatter_(2, chosen_NW.unsqueeze(2), 0.0)
        return chosen_NW

    def _look_back(
        self, attention: SelfAttention, slots: Slots, rows_N1: Tensor, chosen_NW: Tensor, x_NWD: Tensor
    ) -> Tensor:
        queries_NHWK, new = attention.project(x_NWD)
        slots.put(rows_N1, chosen_NW, new)
        past = slots.first(self.seen_NWC.size(2))
        return attention.merge(attend(queries_NHWK, past, keep=self.seen_NWC.unsqueeze(1)))

    def follow(self, parents_NW: Tensor) -> None:
        """From now on hypothesis w of a sentence continues what was its hypothesis parents[w]."""
        chosen = parents_NW.unsqueeze(2).expand(-1, -1, self.seen_NWC.size(2))
        self.seen_NWC = self.seen_NWC.gather(1, chosen)

    def select(self, rows: Tensor) -> None:
        """Go on with these sentences only."""
        self.seen_NWC = self.seen_NWC[rows]
        self.source = [KeysValues(keys[rows], values[rows]) for keys, values in self.source]
        self.source_keep = None if self.source_keep is None else self.source_keep[rows]
        for slots in self.slots:
            slots.select(rows)


def _added(keep: Tensor, like: Tensor) -> Tensor:
    """A mask as what is added to attention scores, made once instead of at every step."""
    return like.new_zeros(keep.shape).masked_fill_(~keep, NEVER)


def _contiguous(seen: KeysValues) -> KeysValues:
    return KeysValues(seen.keys_BHSK.contiguous(), seen.values_BHSV.contiguous())
