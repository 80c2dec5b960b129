"""Small models trained on the micro-batches of the pipeline's own shards, one process each, and what they translate.

The update is the paper's (transformer/update.py), the stream that of every training here (jobs/train/stream.py): two
models that are given the same seed see the same micro-batches in the same order.
"""

# N real target tokens, V vocabulary

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from jobs.lab.bench import Text
from jobs.train.stream import Stream, read_ahead, read_index
from jobs.translate.job import read_pairs
from transformer.batching import Batch, collate
from transformer.beam import search
from transformer.bleu import bleu
from transformer.config import END, START, SearchConfig, TrainingConfig
from transformer.model import Transformer
from transformer.schedule import learning_rate
from transformer.subwords import Subwords
from transformer.unpadded import Rectangle
from transformer.update import Gradients, MicroBatch, Ranks, make_optimizer, update

GREEDY = SearchConfig(beam=1, extra_length=20)
SEED_NOISE = 8.0  # BLEU: the seed alone may set two of these short trainings so far apart (54 and 62 at 500 updates)
Generate = Callable[[list[list[int]]], list[list[int]]]


@dataclass(frozen=True)
class TestSet:
    """Some sentences of the test set, as subwords and as references."""

    subwords: Subwords
    sources: list[list[int]]
    references: list[str]
    targets: list[list[int]]

    @property
    def batch(self) -> Batch:
        return collate(self.sources, self.targets)

    def bleu_of(self, generate: Generate) -> float:
        """sacreBLEU (13a) of what a model makes of the sources, greedily."""
        translations = [self.subwords.decode([token for token in ids if token > END]) for ids in generate(self.sources)]
        return bleu(translations, self.references).value


def read_test_set(text: Text, sentences: int) -> TestSet:
    subwords = Subwords(text.vocabulary.read_bytes("subwords.model"))
    pairs = read_pairs(text.test).slice(0, sentences)
    sources, references = pairs["source"].to_pylist(), pairs["reference"].to_pylist()
    return TestSet(subwords, subwords.encode_all(sources), references, subwords.encode_all(references))


def train(model: nn.Module, text: Text, config: TrainingConfig, *, d_model: int) -> Iterator[tuple[int, float]]:
    """Train on the stream of the shards; yields (update, loss per token) after every update, smoothing not counted."""
    index = read_index(text.shards)
    per_update = max(1, round(config.tokens_per_update / float(index.target_tokens.mean())))
    stream = Stream(index, config.seed, per_update)
    optimizer, gradients = make_optimizer(model, config), Gradients(model, per_update)
    order = [row for number in range(1, config.steps + 1) for row in stream.rows(number).tolist()]
    model.train()
    with closing(read_ahead(text.shards, index, order)) as batches:
        for number in range(1, config.steps + 1):
            micro = [
                MicroBatch(place, position, next(batches)) for place, position in enumerate(stream.positions(number))
            ]
            tokens = sum(each.batch.target_tokens for each in micro)
            rate = learning_rate(number, d_model=d_model, warmup=config.warmup, factor=config.learning_rate)
            outcome = update(
                cast(Transformer, model), optimizer, gradients, micro, count=per_update, tokens=tokens,
                learning_rate=rate, config=config, ranks=Ranks(),
            )  # fmt: skip
            yield number, float(outcome.losses_M2[:, 1].sum()) / tokens


def looks_at(steps: int, looks: int) -> set[int]:
    """Updates after which to look: so many, evenly spread, the last one among them."""
    return {round(steps * look / looks) for look in range(1, looks + 1)}


def greedy(model: Transformer) -> Generate:
    """By the project's own search, beam 1."""

    def generate(sources: list[list[int]]) -> list[list[int]]:
        model.eval()
        found = [list(best[0].ids) if best else [] for best in search(model, sources, GREEDY)]
        model.train()
        return found

    return generate


def greedy_by_prefix(model: Transformer) -> Generate:
    """Greedy, computing the whole prefix anew at every step: for decoders in which the past may see the future."""

    @torch.no_grad()
    def generate(sources: list[list[int]]) -> list[list[int]]:
        model.eval()
        source_BS = collate(sources, [[] for _ in sources]).source_BS
        memory = model.encode(source_BS, Rectangle.of(source_BS))
        said_BT = torch.full((len(sources), 1), START)
        ended_B = torch.zeros(len(sources), dtype=torch.bool)
        for _ in range(source_BS.size(1) + GREEDY.extra_length):
            rows = Rectangle.of(said_BT)
            logits_BV = model.logits(rows.unpack(model.decode(said_BT, rows, memory))[:, -1])
            logits_BV[:, :END] = -torch.inf
            next_B = logits_BV.argmax(dim=1).masked_fill(ended_B, END)
            said_BT = torch.cat((said_BT, next_B[:, None]), dim=1)
            ended_B |= next_B == END
            if bool(ended_B.all()):
                break
        model.train()
        limits = [len(source) + GREEDY.extra_length for source in sources]
        return [until_end(ids)[:limit] for ids, limit in zip(said_BT[:, 1:].tolist(), limits, strict=True)]

    return generate


def until_end(ids: Sequence[int]) -> list[int]:
    found = list(ids)
    return found[: found.index(END)] if END in found else found


@torch.no_grad()
def forced_accuracy(model: Any, batch: Batch) -> float:
    """The share of target tokens said right, each after the right prefix (teacher forcing); END counts."""
    model.eval()
    said_N = model.logits(model.hidden_rows(batch)).argmax(dim=-1)
    model.train()
    return float((said_N == batch.gold_N).double().mean())
