"""Beam search (section 6.1): beam 4, length penalty ((5 + length) / 6) ^ 0.6, at most source + 50, an early stop.

At every step the extensions of a sentence's hypotheses are ranked by log-probability. Of the first `beam`, those that
end are finished; the best `beam` that do not end live on. The search of a sentence is over when `beam` hypotheses have
finished, one of them as the first of its step: without that, a few improbable early ends would cut off a translation
that the model is sure of. The result is the best of the finished by log-probability over length penalty (length counts
END). The search stops before that when no living hypothesis could still come to stand among the best, which changes no
result: a log-probability only falls, and no penalty is larger than that of the longest output. Beam 1 is greedy search.

A sentence's translation does not depend on its neighbours: they share matrix products and nothing else.
"""

# N sentences, W hypotheses of each, V vocabulary, D d_model, K extensions considered per hypothesis, T length so far

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer.config import END, PAD, START, SearchConfig
from transformer.decoder_cache import DecoderCache
from transformer.model import Transformer

NEVER = -math.inf
BLOCK = 64  # logits looked at together
COLUMNS = 1024  # logits computed together
SETTLED = 1 / 8  # when such a share of a batch's sentences is done, they leave it


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation: its subwords without END, the score it is ranked by, its log-probability with END."""

    ids: tuple[int, ...]
    score: float
    log_probability: float


class Forced(NamedTuple):
    """What the model makes of a given translation; `tokens` counts END. Perplexity: exp(-log_probability / tokens)."""

    log_probability: float
    tokens: int


def length_penalty(length: int | Tensor, alpha: float) -> Tensor:
    """The penalty of Google's NMT system: 1 for one subword, growing with length; alpha 0 is none."""
    return ((5.0 + torch.as_tensor(length, dtype=torch.float64)) / 6.0) ** alpha


def pad(sequences: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """A rectangle of ids, short rows filled up with PAD."""
    rows = [torch.tensor(ids, dtype=torch.long) for ids in sequences]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD).to(device)


@torch.inference_mode()
def search(model: Transformer, sources: Sequence[Sequence[int]], config: SearchConfig) -> list[list[Hypothesis]]:
    """The `n_best` best translations of each source (bare subword ids), best first."""
    if not sources:
        return []
    device = model.output_weight.device
    batch = _Batch(
        cache=DecoderCache(model, pad([[*ids, END] for ids in sources], device)),
        rows=torch.arange(len(sources), device=device),
        limits=torch.tensor([output_limit(model, len(ids), config) for ids in sources], device=device),
        scores_NW=torch.zeros(len(sources), 1, dtype=torch.float64, device=device),
        history_NWT=torch.full((len(sources), 1, 1), START, device=device),
        finished=[_Finished(config.n_best) for _ in sources],
    )
    while batch.rows.numel():
        batch.advance(model, config)
    return [finished.hypotheses[: config.n_best] for finished in batch.finished]


def output_limit(model: Transformer, source_length: int, config: SearchConfig) -> int:
    """How many subwords a translation may have before END; a learned position table sets a limit of its own."""
    limit = source_length + config.extra_length
    return limit if model.config.positions == "sinusoidal" else min(limit, model.config.max_positions - 1)


class _Finished:
    """The finished hypotheses of one sentence, best first; and whether one of them was the first of its step."""

    def __init__(self, n_best: int) -> None:
        self.n_best = n_best
        self.hypotheses: list[Hypothesis] = []
        self.favourite = False

    def add(self, hypothesis: Hypothesis, rank: int) -> None:
        self.hypotheses.append(hypothesis)
        self.favourite |= rank == 0
        self.hypotheses.sort(key=lambda h: -h.score)  # stable: of equals, the first found stands first

    @property
    def bar(self) -> float:
        """What a hypothesis must beat to matter."""
        return self.hypotheses[self.n_best - 1].score if len(self.hypotheses) >= self.n_best else NEVER


class _Extensions(NamedTuple):
    """The best continuations of each sentence, best first, (N, 2 W): whom they continue, with what, and how likely."""

    scores: Tensor
    parents: Tensor
    tokens: Tensor


@dataclass
class _Batch:
    """Sentences that are searched together; row i of each tensor belongs to sentence rows[i]."""

    cache: DecoderCache
    rows: Tensor
    limits: Tensor
    scores_NW: Tensor  # log-probability of each living hypothesis; -inf where there is none
    history_NWT: Tensor
    finished: list[_Finished]
    waiting: Tensor = field(init=False)  # sentences that are done and have not left yet

    def __post_init__(self) -> None:
        self.waiting = torch.zeros_like(self.rows, dtype=torch.bool)

    def advance(self, model: Transformer, config: SearchConfig) -> None:
        """One more subword for every living hypothesis."""
        length = self.history_NWT.size(2)  # of the hypotheses that end now, END counted
        hidden_NWD = self.cache.step(self.history_NWT[:, :, -1])
        best = self._extensions(model, hidden_NWD, config.beam, last=self.limits < length)
        self._finish(best, length, config)
        self._go_on(best, config.beam)
        self._settle(length, config)

    def _extensions(self, model: Transformer, hidden_NWD: Tensor, beam: int, last: Tensor) -> _Extensions:
        """Rank the continuations of each sentence. Where `last` is True the only one is END."""
        sentences, width, _ = hidden_NWD.shape
        logits_RV = logits(model, hidden_NWD.flatten(0, 1))
        ends_R = logits_RV[:, END].clone()
        top_RK, tokens_RK, totals_R = most_probable(logits_RV, 2 * beam)
        if not bool(torch.isfinite(totals_R).all()):
            raise ValueError("The model's scores are not numbers: its weights are damaged or training diverged.")
        if bool(last.any()):
            last_R = last.repeat_interleave(width)
            top_RK[last_R] = NEVER
            top_RK[last_R, 0] = ends_R[last_R]
            tokens_RK[last_R, 0] = END
        scores_RK = self.scores_NW.flatten().unsqueeze(1) + (top_RK.double() - totals_R.double().unsqueeze(1))
        scores, index = _top(scores_RK.view(sentences, -1), 2 * beam)
        return _Extensions(scores, index // top_RK.size(1), tokens_RK.view(sentences, -1).gather(1, index))

    def _finish(self, best: _Extensions, length: int, config: SearchConfig) -> None:
        """Keep the hypotheses among the first `beam` that have come to their end."""
        ended = (best.tokens == END) & (best.scores > NEVER) & ~self.waiting.unsqueeze(1)
        penalty = float(length_penalty(length, config.alpha))
        for row, rank in ended[:, : config.beam].nonzero().tolist():
            log_probability = float(best.scores[row, rank])
            ids = self.history_NWT[row, best.parents[row, rank], 1:].tolist()
            hypothesis = Hypothesis(tuple(ids), log_probability / penalty, log_probability)
            self.finished[self.rows[row]].add(hypothesis, rank)

    def _go_on(self, best: _Extensions, beam: int) -> None:
        """The best `beam` hypotheses that have not ended live on."""
        living = torch.argsort((best.tokens == END).to(torch.uint8), dim=1, stable=True)[:, :beam]
        parents, tokens = best.parents.gather(1, living), best.tokens.gather(1, living)
        self.scores_NW = best.scores.gather(1, living).masked_fill_(tokens == END, NEVER)
        self.cache.follow(parents)
        past = self.history_NWT.gather(1, parents.unsqueeze(2).expand(-1, -1, self.history_NWT.size(2)))
        self.history_NWT = torch.cat((past, tokens.unsqueeze(2)), dim=2)

    def _settle(self, length: int, config: SearchConfig) -> None:
        """Find the sentences that are done; when they are many, they leave the batch."""
        finished = [self.finished[row] for row in self.rows.tolist()]
        bars = torch.tensor([f.bar for f in finished], dtype=torch.float64, device=self.rows.device)
        enough = [f.favourite and len(f.hypotheses) >= config.beam for f in finished]
        longest = length_penalty(self.limits + 1, config.alpha).to(self.rows.device)
        reachable = self.scores_NW.amax(dim=1) / longest
        self.waiting |= torch.tensor(enough, device=self.rows.device) | (reachable <= bars)
        if self.waiting.all() or int(self.waiting.sum()) >= SETTLED * len(finished):
            self._select((~self.waiting).nonzero().squeeze(1))

    def _select(self, rows: Tensor) -> None:
        self.cache.select(rows)
        self.rows, self.limits, self.waiting = self.rows[rows], self.limits[rows], self.waiting[rows]
        self.scores_NW, self.history_NWT = self.scores_NW[rows], self.history_NWT[rows]


def logits(model: Transformer, hidden_RD: Tensor) -> Tensor:
    """`model.logits`, as many columns at a time as a processor's cache holds."""
    weight_VD = model.output_weight
    if hidden_RD.device.type != "cpu":
        return model.logits(hidden_RD)
    out_RV = hidden_RD.new_empty(hidden_RD.size(0), weight_VD.size(0))
    for columns, some_VD in zip(out_RV.split(COLUMNS, dim=1), weight_VD.split(COLUMNS), strict=True):
        torch.mm(hidden_RD, some_VD.t(), out=columns)
    return out_RV


def most_probable(logits_RV: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` largest sayable logits of each row, their subwords, and the log of its summed exponentials.

    The logits are used up. The largest `count` of a row stand in the `count` blocks with the largest maxima, so only
    those blocks are sorted; what is left of the row at the end is sorted with them.
    """
    rows, vocabulary = logits_RV.shape
    highest_R1 = logits_RV.amax(dim=1, keepdim=True)
    unsayable = logits_RV[:, :END].clone()
    logits_RV[:, :END] = NEVER  # padding, unknown and start
    blocks = vocabulary // BLOCK
    inside, rest = logits_RV[:, : blocks * BLOCK].view(rows, blocks, BLOCK), logits_RV[:, blocks * BLOCK :]
    chosen = inside.amax(dim=2).topk(min(count, blocks), dim=1).indices
    places = (chosen.unsqueeze(2) * BLOCK + torch.arange(BLOCK, device=chosen.device)).flatten(1)
    tail = torch.arange(blocks * BLOCK, vocabulary, device=chosen.device).expand(rows, -1)
    candidates = torch.cat((inside.gather(1, chosen.unsqueeze(2).expand(-1, -1, BLOCK)).flatten(1), rest), dim=1)
    top_RK, found = candidates.topk(min(count, candidates.size(1)), dim=1)
    tokens_RK = torch.cat((places, tail), dim=1).gather(1, found)
    logits_RV[:, :END] = unsayable
    totals_R = logits_RV.sub_(highest_R1).exp_().sum(dim=1).log_() + highest_R1.squeeze(1)
    return top_RK, tokens_RK, totals_R


def _top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row with their places; where a row has fewer, -inf at place 0."""
    found, index = values.topk(min(count, values.size(1)), dim=1)
    missing = count - found.size(1)
    return F.pad(found, (0, missing), value=NEVER), F.pad(index, (0, missing))


@torch.inference_mode()
def forced(
    model: Transformer, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], rows: int = 1024
) -> list[Forced]:
    """The log-probability of given translations, `rows` positions of the softmax at a time."""
    device = model.output_weight.device
    source_NS = pad([[*ids, END] for ids in sources], device)
    target_in_NT = pad([[START, *ids] for ids in targets], device)
    hidden_NTD = model.hidden(source_NS, target_in_NT)
    gold_NT = pad([[*ids, END] for ids in targets], device)
    real_NT = gold_NT != PAD
    gold_R, hidden_RD = gold_NT[real_NT], hidden_NTD[real_NT]
    parts = [
        -F.cross_entropy(model.logits(some_RD), some_R, reduction="none")
        for some_RD, some_R in zip(hidden_RD.split(rows), gold_R.split(rows), strict=True)
    ]
    log_probabilities = torch.cat(parts).double().split([len(ids) + 1 for ids in targets])
    return [Forced(float(of_one.sum()), of_one.numel()) for of_one in log_probabilities]
