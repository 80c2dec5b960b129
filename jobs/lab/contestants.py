"""The two models that jobs/lab/recurrence.py compares, how either translates, and how fast it trains.

    python -m jobs.lab.contestants '{"kind": "recurrent", "rank": 0, "workers": 2, ...}'    one worker of a timed update

prints target tokens per second over all workers.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, Literal, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from jobs.lab.recurrent import RecurrentTranslator, matched
from jobs.lab.text_training import GREEDY, Generate, greedy
from transformer.batching import Batch, collate
from transformer.config import END, ModelConfig, TrainingConfig
from transformer.model import Transformer, count_parameters
from transformer.update import Gradients, MicroBatch, Ranks, make_optimizer, update

Kind = Literal["transformer", "recurrent"]
KINDS: tuple[Kind, ...] = ("transformer", "recurrent")
CLIP = 1.0  # of the recurrent model's gradient
TIMED = 4  # updates; the fastest counts


def built(kind: Kind, config: ModelConfig, vocabulary: int, seed: int) -> nn.Module:
    """The Transformer, or a recurrent translator of about as many parameters."""
    torch.manual_seed(seed)
    transformer = Transformer(config, vocabulary)
    if kind == "transformer":
        return transformer
    hidden = matched(config.d_model, count_parameters(transformer), vocabulary)
    torch.manual_seed(seed)
    return RecurrentTranslator(config.d_model, hidden, vocabulary)


def translating(model: nn.Module) -> Generate:
    if isinstance(model, RecurrentTranslator):
        recurrent = model
        return lambda sources: recurrent.generate(sources, GREEDY.extra_length)
    return greedy(cast(Transformer, model))


def synthetic_batches(
    vocabulary: int, length: int, tokens: int, count: int, numbers: np.random.Generator
) -> list[Batch]:
    """Micro-batches of sentences that are all of one length, about so many target tokens each."""
    sentences = max(1, tokens // length)
    drawn = [numbers.integers(END + 1, vocabulary, (sentences, length - 1)).tolist() for _ in range(2 * count)]
    return [collate(drawn[2 * place], drawn[2 * place + 1]) for place in range(count)]


def tokens_per_second(
    model: nn.Module,
    batches: list[Batch],
    config: TrainingConfig,
    ranks: Ranks | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Target tokens per second, over all workers, of the fastest of a few whole updates."""
    ranks = ranks or Ranks()
    model.train()
    optimizer, gradients = make_optimizer(model, config), Gradients(model, len(batches))
    tokens = sum(batch.target_tokens for batch in batches)
    own = [MicroBatch(place, place, batch) for place, batch in enumerate(batches)][ranks.rank :: ranks.world_size]
    fastest = float("inf")
    for _ in range(1 + TIMED):  # the first is for warming up
        began = clock()
        update(
            cast(Transformer, model), optimizer, gradients, own, count=len(own), tokens=tokens, learning_rate=1e-4,
            config=config, ranks=ranks,
        )  # fmt: skip
        fastest = min(fastest, clock() - began)
    return tokens / fastest


def worker(task: dict[str, Any]) -> float:
    """This process's part of timed updates that several share."""
    torch.set_num_threads(1)
    ranks = Ranks(task["rank"], task["workers"])
    if ranks.world_size > 1:
        where = f"file://{task['meet']}"
        dist.init_process_group("gloo", init_method=where, rank=ranks.rank, world_size=ranks.world_size)
    config = ModelConfig(
        layers=task["layers"], d_model=task["d_model"], d_ff=task["d_ff"], num_heads=task["num_heads"], dropout=0.0
    )
    model = built(task["kind"], config, task["vocabulary"], task["seed"])
    numbers = np.random.default_rng(task["seed"])
    batches = synthetic_batches(task["vocabulary"], task["length"], task["tokens"], task["micro_batches"], numbers)
    speed = tokens_per_second(model, batches, TrainingConfig(), ranks)
    if ranks.world_size > 1:
        dist.destroy_process_group()
    return speed


if __name__ == "__main__":
    print(json.dumps(worker(json.loads(sys.argv[1]))))
