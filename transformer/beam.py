"""Beam search (section 6.1): beam 4, length penalty ((5 + length) / 6) ^ 0.6, at most source + 50, an early stop.

At every step the extensions of a sentence's hypotheses are ranked by log-probability. Of the first `beam`, those that
end are finished; the best `beam` that do not end stay live. The search of a sentence is over when `beam` hypotheses
have finished, at least one of them ranked first at its step: without that, a few improbable early ends would cut off a
probable translation. The result is the best finished hypothesis by log-probability over length penalty (length counts
END). The search stops earlier when no live hypothesis can still be among the best, which changes no result: a
log-probability only falls, and no penalty is larger than that of the longest output. Beam 1 is greedy search.

A sentence's translation does not depend on the other sentences of its batch: they share matrix products only.
"""

# N sentences, W hypotheses of each, R rows (N x W), V vocabulary, D d_model, K extensions considered per hypothesis,
# T length so far

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer.batching import Ragged, collate, padded
from transformer.config import END, PAD, START, SearchConfig
from transformer.decoder_cache import DecoderCache
from transformer.model import Transformer
from transformer.parsing.well_formed import Sentence, TreeSymbols, WellFormed

NEVER = -math.inf
BLOCK = 64  # logits whose maximum is taken first
COLUMNS = 1024  # logits computed by one product
DONE_SHARE = 1 / 8  # sentences that are done leave the batch when they are this share of it


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation: its subwords without END, the score it is ranked by, its log-probability with END."""

    ids: tuple[int, ...]
    score: float
    log_probability: float


class Trees(NamedTuple):
    """What a search among well-formed trees needs to know: the symbols, and the words of each source."""

    symbols: TreeSymbols
    sentences: Sequence[Sentence]


class Forced(NamedTuple):
    """The probability of a given translation; `tokens` counts END. Perplexity: exp(-log_probability / tokens)."""

    log_probability: float
    tokens: int


def length_penalty(length: int | Tensor, alpha: float) -> Tensor:
    """The penalty of Google's NMT system: 1 for one subword, growing with length; alpha 0 is none."""
    return ((5.0 + torch.as_tensor(length, dtype=torch.float64)) / 6.0) ** alpha


@torch.inference_mode()
def search(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    config: SearchConfig,
    watch: Watch | None = None,
    trees: Trees | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` best translations of each source (bare subword ids), best first. `watch` is shown every step.

    With `trees` nothing but well-formed trees over the words of each source is considered.
    """
    if not sources:
        return []
    device = model.output_weight.device
    source_NS = torch.from_numpy(padded(Ragged.of(sources), last=END)).to(device)
    limits = [output_limit(model, len(ids), config) for ids in sources]
    if trees is not None:
        limits = [max(limit, each.symbols + 2) for limit, each in zip(limits, trees.sentences, strict=True)]
    limits_N = torch.tensor(limits, device=device)
    batch = _Batch(
        cache=DecoderCache(model, source_NS),
        index_N=torch.arange(len(sources), device=device),
        limits_N=limits_N,
        scores_NW=torch.zeros(len(sources), 1, dtype=torch.float64, device=device),
        history_NWT=torch.full((len(sources), 1, 1), START, device=device),
        finished=[_Finished(config.n_best) for _ in sources],
        watch=watch,
        well_formed=WellFormed(trees.symbols, trees.sentences, limits_N) if trees is not None else None,
    )
    while batch.index_N.numel():
        batch.advance(model, config)
    return [finished.hypotheses[: config.n_best] for finished in batch.finished]


def output_limit(model: Transformer, source_length: int, config: SearchConfig) -> int:
    """How many subwords a translation may have before END; a learned position table has a limit of its own."""
    limit = source_length + config.extra_length
    return limit if model.config.positions == "sinusoidal" else min(limit, model.config.max_positions - 1)


class _Finished:
    """The finished hypotheses of one sentence, best first; `any_first`: one of them was ranked first at its step."""

    def __init__(self, n_best: int) -> None:
        self.n_best = n_best
        self.hypotheses: list[Hypothesis] = []
        self.any_first = False

    def add(self, hypothesis: Hypothesis, rank: int) -> None:
        self.hypotheses.append(hypothesis)
        self.any_first |= rank == 0
        self.hypotheses.sort(key=lambda h: -h.score)  # stable: of equals, the first found comes first

    @property
    def threshold(self) -> float:
        """The score that a further hypothesis must exceed to be among the `n_best`."""
        return self.hypotheses[self.n_best - 1].score if len(self.hypotheses) >= self.n_best else NEVER


class _Extensions(NamedTuple):
    """The best continuations of each sentence, best first, (N, 2 x beam)."""

    scores: Tensor  # log-probability
    parents: Tensor  # the hypothesis that is continued
    tokens: Tensor  # the subword that continues it


class Step(NamedTuple):
    """What a search considers at one step, before it chooses: for each sentence its hypotheses so far and their best
    continuations. Of the first `beam` those with END finish; the best `beam` without END live on."""

    index_N: Tensor  # which of the sources
    history_NWT: Tensor  # the hypotheses, START first
    scores: Tensor  # of the continuations, best first, (N, 2 W): log-probabilities, -inf where there is none
    parents: Tensor  # the hypothesis that each continues
    tokens: Tensor  # the subword it adds


Watch = Callable[[Step], None]


@dataclass
class _Batch:
    """Sentences that are searched together; entry i of each tensor belongs to sources[index_N[i]]."""

    cache: DecoderCache
    index_N: Tensor
    limits_N: Tensor  # subwords before END
    scores_NW: Tensor  # log-probability of each live hypothesis; -inf where there is none
    history_NWT: Tensor  # subwords, START first
    finished: list[_Finished]
    watch: Watch | None = None
    well_formed: WellFormed | None = None
    done_N: Tensor = field(init=False)  # sentences that are done and have not left the batch yet

    def __post_init__(self) -> None:
        self.done_N = torch.zeros_like(self.index_N, dtype=torch.bool)

    def advance(self, model: Transformer, config: SearchConfig) -> None:
        """One more subword for every live hypothesis."""
        length = self.history_NWT.size(2)  # of the hypotheses that end now, END counted
        hidden_RD = self.cache.step(self.history_NWT[:, :, -1])
        best = self._extensions(model, hidden_RD, config.beam, last=self.limits_N < length)
        if self.watch is not None:
            self.watch(Step(self.index_N, self.history_NWT, *best))
        self._finish(best, length, config)
        self._continue(best, config.beam)
        self._remove_done(config)

    def _extensions(self, model: Transformer, hidden_RD: Tensor, beam: int, last: Tensor) -> _Extensions:
        """Rank the continuations of each sentence. Where `last` is True the only one is END."""
        sentences, width = self.scores_NW.shape
        logits_RV = logits(model, hidden_RD)
        ends_R = logits_RV[:, END].clone()
        rank = most_probable if self.well_formed is None else self.well_formed.most_probable
        top_RK, tokens_RK, totals_R = rank(logits_RV, 2 * beam)
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
        """Keep the hypotheses among the first `beam` that end at this step."""
        ended = (best.tokens == END) & (best.scores > NEVER) & ~self.done_N.unsqueeze(1)
        penalty = float(length_penalty(length, config.alpha))
        for place, rank in ended[:, : config.beam].nonzero().tolist():
            log_probability = float(best.scores[place, rank])
            ids = self.history_NWT[place, best.parents[place, rank], 1:].tolist()
            hypothesis = Hypothesis(tuple(ids), log_probability / penalty, log_probability)
            self.finished[self.index_N[place]].add(hypothesis, rank)

    def _continue(self, best: _Extensions, beam: int) -> None:
        """The best `beam` hypotheses that do not end are the live ones of the next step."""
        live = torch.argsort((best.tokens == END).to(torch.uint8), dim=1, stable=True)[:, :beam]
        parents, tokens = best.parents.gather(1, live), best.tokens.gather(1, live)
        self.scores_NW = best.scores.gather(1, live).masked_fill_(tokens == END, NEVER)
        self.cache.follow(parents)
        if self.well_formed is not None:
            self.well_formed.follow(parents, tokens)
        past = self.history_NWT.gather(1, parents.unsqueeze(2).expand(-1, -1, self.history_NWT.size(2)))
        self.history_NWT = torch.cat((past, tokens.unsqueeze(2)), dim=2)

    def _remove_done(self, config: SearchConfig) -> None:
        """Mark the sentences that are done; when they are many, they leave the batch."""
        finished = [self.finished[index] for index in self.index_N.tolist()]
        thresholds = torch.tensor([f.threshold for f in finished], dtype=torch.float64, device=self.index_N.device)
        enough = [f.any_first and len(f.hypotheses) >= config.beam for f in finished]
        longest = length_penalty(self.limits_N + 1, config.alpha).to(self.index_N.device)
        reachable = self.scores_NW.amax(dim=1) / longest
        self.done_N |= torch.tensor(enough, device=self.index_N.device) | (reachable <= thresholds)
        if self.done_N.all() or int(self.done_N.sum()) >= DONE_SHARE * len(finished):
            self._select((~self.done_N).nonzero().squeeze(1))

    def _select(self, kept: Tensor) -> None:
        self.cache.select(kept)
        if self.well_formed is not None:
            self.well_formed.select(kept)
        self.index_N, self.limits_N, self.done_N = self.index_N[kept], self.limits_N[kept], self.done_N[kept]
        self.scores_NW, self.history_NWT = self.scores_NW[kept], self.history_NWT[kept]


def logits(model: Transformer, hidden_RD: Tensor) -> Tensor:
    """`model.logits`; on a CPU as many columns at a time as its cache holds."""
    weight_VD = model.output_weight
    if hidden_RD.device.type != "cpu":
        return model.logits(hidden_RD)
    out_RV = hidden_RD.new_empty(hidden_RD.size(0), weight_VD.size(0))
    for columns, some_VD in zip(out_RV.split(COLUMNS, dim=1), weight_VD.split(COLUMNS), strict=True):
        torch.mm(hidden_RD, some_VD.t(), out=columns)
    return out_RV


def most_probable(logits_RV: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` largest logits of each row (never PAD, UNKNOWN, START), their subwords, and the row's logsumexp.

    Overwrites the logits. The largest `count` of a row are in the `count` blocks with the largest maxima, so only those
    blocks are sorted, with the columns after the last whole block.
    """
    rows, vocabulary = logits_RV.shape
    highest_R1 = logits_RV.amax(dim=1, keepdim=True)
    excluded = logits_RV[:, :END].clone()
    logits_RV[:, :END] = NEVER  # padding, unknown and start
    blocks = vocabulary // BLOCK
    inside, rest = logits_RV[:, : blocks * BLOCK].view(rows, blocks, BLOCK), logits_RV[:, blocks * BLOCK :]
    chosen = inside.amax(dim=2).topk(min(count, blocks), dim=1).indices
    places = (chosen.unsqueeze(2) * BLOCK + torch.arange(BLOCK, device=chosen.device)).flatten(1)
    tail = torch.arange(blocks * BLOCK, vocabulary, device=chosen.device).expand(rows, -1)
    candidates = torch.cat((inside.gather(1, chosen.unsqueeze(2).expand(-1, -1, BLOCK)).flatten(1), rest), dim=1)
    top_RK, found = candidates.topk(min(count, candidates.size(1)), dim=1)
    tokens_RK = torch.cat((places, tail), dim=1).gather(1, found)
    logits_RV[:, :END] = excluded
    totals_R = logits_RV.sub_(highest_R1).exp_().sum(dim=1).log_() + highest_R1.squeeze(1)
    return top_RK, tokens_RK, totals_R


def _top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row with their columns; where a row has fewer, -inf at column 0."""
    found, index = values.topk(min(count, values.size(1)), dim=1)
    missing = count - found.size(1)
    return F.pad(found, (0, missing), value=NEVER), F.pad(index, (0, missing))


@torch.inference_mode()
def forced(
    model: Transformer, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], chunk: int = 1024
) -> list[Forced]:
    """The log-probability of given translations; the softmax is computed for `chunk` positions at a time."""
    made = collate(sources, targets).to(model.output_weight.device)
    hidden_RD = model.hidden(made.source_BS, made.target_in_BT)[made.target_in_BT != PAD]
    parts = [
        -F.cross_entropy(model.logits(some_RD), some_R, reduction="none")
        for some_RD, some_R in zip(hidden_RD.split(chunk), made.gold_N.split(chunk), strict=True)
    ]
    log_probabilities = torch.cat(parts).double().split([len(ids) + 1 for ids in targets])
    return [Forced(float(of_one.sum()), of_one.numel()) for of_one in log_probabilities]
