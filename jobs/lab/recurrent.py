"""A recurrent translator: a bidirectional LSTM encoder, an LSTM decoder, and additive attention (Bahdanau 2015).

It takes the same batches and gives the loss the same rows as the Transformer, so that one update serves both. The
embedding is shared by both sides and the softmax, as in the paper that it is compared with.
"""

# B batch, S source length, T target length, N real target tokens, E width of an embedding, H of a state, V vocabulary

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from transformer.batching import Batch, collate
from transformer.config import END, PAD, START
from transformer.model import count_parameters

State = tuple[Tensor, Tensor]


class RecurrentTranslator(nn.Module):
    def __init__(self, width: int, hidden: int, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.encoder = nn.LSTM(width, hidden // 2, batch_first=True, bidirectional=True)
        self.cell = nn.LSTMCell(width + hidden, hidden)
        self.begin = nn.Linear(hidden, 2 * hidden)
        self.of_state = nn.Linear(hidden, hidden // 2, bias=False)
        self.of_memory = nn.Linear(hidden, hidden // 2)
        self.energy = nn.Linear(hidden // 2, 1, bias=False)
        self.readout = nn.Linear(2 * hidden + width, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)

    @property
    def output_weight(self) -> Tensor:
        return self.embedding.weight

    def matrices(self) -> list[Tensor]:
        """None by which the update would multiply in a layout of its own."""
        return []

    def embed(self, ids: Tensor) -> Tensor:
        """Scaled as the Transformer's, to unit variance."""
        out: Tensor = self.embedding(ids) * self.embedding.embedding_dim**0.5
        return out

    def encode(self, source_BS: Tensor) -> tuple[Tensor, Tensor, State]:
        """Memory, its share of the attention's energy, and the decoder's first state."""
        lengths = (source_BS != PAD).sum(dim=1)
        packed = pack_padded_sequence(self.embed(source_BS), lengths, batch_first=True, enforce_sorted=False)
        states, _ = self.encoder(packed)
        memory_BSH, _ = pad_packed_sequence(states, batch_first=True, total_length=source_BS.size(1))
        mean_BH = memory_BSH.sum(dim=1) / lengths[:, None]
        hidden_BH, memory_cell_BH = self.begin(mean_BH).tanh().chunk(2, dim=1)
        return memory_BSH, self.of_memory(memory_BSH), (hidden_BH, memory_cell_BH)

    def step(
        self, embedded_BE: Tensor, state: State, memory_BSH: Tensor, keys: Tensor, pad_BS: Tensor
    ) -> tuple[Tensor, State]:
        """Attend from the last state, go on to the next, and say what the softmax takes, (B, E)."""
        energy_BS = self.energy((self.of_state(state[0])[:, None] + keys).tanh()).squeeze(2)
        weights_BS = energy_BS.masked_fill(pad_BS, -torch.inf).softmax(dim=1)
        context_BH = torch.bmm(weights_BS[:, None], memory_BSH).squeeze(1)
        state = self.cell(torch.cat((embedded_BE, context_BH), dim=1), state)
        return self.readout(torch.cat((state[0], context_BH, embedded_BE), dim=1)).tanh(), state

    def hidden_rows(self, batch: Batch) -> Tensor:
        """Before the softmax, for the target's real tokens, (N, E), in the order of the gold."""
        memory_BSH, keys, state = self.encode(batch.source_BS)
        pad_BS = batch.source_BS == PAD
        embedded_BTE = self.embed(batch.target_in_BT)
        outputs: list[Tensor] = []
        for at in range(batch.target_in_BT.size(1)):
            out_BE, state = self.step(embedded_BTE[:, at], state, memory_BSH, keys, pad_BS)
            outputs.append(out_BE)
        rows = batch.target_rows
        return torch.stack(outputs, dim=1).flatten(0, 1)[rows.place_R[: rows.real]]

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.output_weight)

    @torch.no_grad()
    def generate(self, sources: list[list[int]], extra: int) -> list[list[int]]:
        """Greedy translations, at most source + `extra` long."""
        source_BS = collate(sources, [[] for _ in sources]).source_BS
        memory_BSH, keys, state = self.encode(source_BS)
        pad_BS = source_BS == PAD
        last_B = torch.full((len(sources),), START)
        ended_B = torch.zeros(len(sources), dtype=torch.bool)
        outputs: list[Tensor] = []
        for _ in range(source_BS.size(1) + extra):
            out_BE, state = self.step(self.embed(last_B), state, memory_BSH, keys, pad_BS)
            logits_BV = self.logits(out_BE)
            logits_BV[:, :END] = -torch.inf
            last_B = logits_BV.argmax(dim=1).masked_fill(ended_B, END)
            outputs.append(last_B)
            ended_B |= last_B == END
            if bool(ended_B.all()):
                break
        found = [[token for token in ids if token != END] for ids in torch.stack(outputs, dim=1).tolist()]
        return [ids[: len(source) + extra] for ids, source in zip(found, sources, strict=True)]


def matched(width: int, parameters: int, vocabulary: int) -> int:
    """The width of the state with which a recurrent translator has about so many parameters."""

    def count(hidden: int) -> int:
        with torch.device("meta"):
            return count_parameters(RecurrentTranslator(width, hidden, vocabulary))

    low, high = 2, 4
    while count(high) < parameters:
        low, high = high, 2 * high
    while high - low > 2:
        middle = (low + high) // 4 * 2
        low, high = (middle, high) if count(middle) < parameters else (low, middle)
    return min((low, high), key=lambda hidden: abs(count(hidden) - parameters))
