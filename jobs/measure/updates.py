"""Updates of a model on made-up sentences, on this worker's device: how fast, where the time goes, and how exact.

The same `transformer.update` that training uses, through the same sum over the workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch

from jobs.train.packing import compile_model
from transformer.batching import Batch, collate
from transformer.config import ModelConfig, TrainingConfig
from transformer.flops import flops_per_target_token
from transformer.model import Transformer
from transformer.packed import PackedBatch, can_pack
from transformer.update import (
    Gradients,
    MicroBatch,
    PackedMicroBatches,
    Ranks,
    batch_losses,
    make_optimizer,
    update,
)

LENGTH = 30  # subwords of a sentence on average, END counted, as in WMT
WARM_UP = 3  # updates before the clock starts
COMPARED_TOKENS = 500  # of the micro-batch that the CPU computes too
CONFIG = TrainingConfig()


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def made_up(vocabulary_size: int, tokens: int, seed: int) -> Batch:
    """About so many tokens on each side, in sentences of like but not equal lengths: shapes change as in training."""
    numbers = np.random.default_rng(seed)
    length = int(numbers.integers(LENGTH - 8, LENGTH + 8))
    count = max(1, tokens // length)
    source, target = (
        [numbers.integers(4, vocabulary_size, int(numbers.integers(length - 3, length))).tolist() for _ in range(count)]
        for _ in range(2)
    )
    return collate(source, target)


class Trial:
    """A model on this device with all that an update needs."""

    def __init__(self, config: ModelConfig, vocabulary_size: int, device: torch.device, ranks: Ranks, bf16: bool):
        torch.manual_seed(1)
        self.config, self.vocabulary_size = config, vocabulary_size
        self.device, self.ranks, self.bf16 = device, ranks, bf16
        self.model = Transformer(config, vocabulary_size).to(device).train()
        self.optimizer = make_optimizer(self.model, CONFIG)
        self.gradients = Gradients(self.model, ranks.world_size)
        self.packs = device.type == "cuda" and can_pack(config, device, bf16=bf16)

    def on_device(self, batch: Batch) -> Batch | PackedBatch:
        """As training has it there."""
        return (PackedBatch.of([batch], [CONFIG.seed]) if self.packs else batch).to(self.device)

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16)

    def update(self, batch: Batch) -> None:
        """Of one micro-batch for each worker."""
        made, place = self.on_device(batch), self.ranks.rank
        part = PackedMicroBatches([place], made) if isinstance(made, PackedBatch) else MicroBatch(place, 0, made)
        with self.autocast():
            update(
                self.model, self.optimizer, self.gradients, [part],
                count=1, tokens=batch.target_tokens * self.ranks.world_size, learning_rate=1e-4, config=CONFIG,
                ranks=self.ranks,
            )  # fmt: skip

    def rate(self, tokens: int, updates: int) -> float:
        """Real target tokens per second of this worker, the clock read once at the end."""
        batches = [made_up(self.vocabulary_size, tokens, seed) for seed in range(WARM_UP + updates)]
        for batch in batches[:WARM_UP]:
            self.update(batch)
        synchronize(self.device)
        began = time.perf_counter()
        for batch in batches[WARM_UP:]:
            self.update(batch)
        synchronize(self.device)
        return sum(batch.target_tokens for batch in batches[WARM_UP:]) / (time.perf_counter() - began)

    def phases(self, tokens: int, updates: int) -> dict[str, float]:
        """Milliseconds of each part of an update at the median, waited for one by one: together they are slower."""
        spent: dict[str, list[float]] = {}

        def timed(name: str, act: Callable[[], Any]) -> Any:
            synchronize(self.device)
            began = time.perf_counter()
            result = act()
            synchronize(self.device)
            spent.setdefault(name, []).append(1000 * (time.perf_counter() - began))
            return result

        for seed in range(updates):
            batch = made_up(self.vocabulary_size, tokens, seed)
            on_device = timed("copy", partial(self.on_device, batch))
            with self.autocast():
                loss, _ = timed("forward", partial(batch_losses, self.model, on_device, CONFIG.label_smoothing))
            timed("backward", (loss / batch.target_tokens).backward)
            timed("sum", partial(self.ranks.sum, self.gradients.buffer))
            timed("adam", self.optimizer.step)
            self.gradients.buffer.zero_()
        return {name: median(each) for name, each in spent.items()}

    def against_cpu(self) -> dict[str, float]:
        """How far loss and gradient, without dropout, are from those of the CPU in single precision: relative."""
        batch = made_up(self.vocabulary_size, COMPARED_TOKENS, seed=99)
        here = loss_and_gradient(self.model, self.on_device(batch), self.device, self.bf16)
        cpu = torch.device("cpu")
        there = loss_and_gradient(deepcopy(self.model).to(cpu), batch, cpu, bf16=False)
        self.gradients = Gradients(self.model, self.ranks.world_size)  # its views are the parameters' gradients again
        apart = torch.linalg.vector_norm(here[1].cpu() - there[1]) / torch.linalg.vector_norm(there[1])
        return {"loss_apart": abs(here[0] - there[0]) / abs(there[0]), "gradient_apart": float(apart)}


def loss_and_gradient(
    model: Transformer, batch: Batch | PackedBatch, device: torch.device, bf16: bool
) -> tuple[float, torch.Tensor]:
    gradients = Gradients(model, 1)
    model.eval()
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16):
        loss, _ = batch_losses(model, batch, CONFIG.label_smoothing)
    (loss / batch.target_tokens).backward()
    model.train()
    return float(loss.detach()) / batch.target_tokens, gradients.buffer[: gradients.size].clone()


def measure_model(trial: Trial, tokens: int, updates: int, *, compiled: bool) -> Mapping[str, Any]:
    per_token = flops_per_target_token(trial.config, trial.vocabulary_size, source=LENGTH, target=LENGTH)
    rate = trial.rate(tokens, updates)
    found: dict[str, Any] = {
        "tokens_per_second": rate,
        "tflops": rate * per_token / 1e12,
        "milliseconds": trial.phases(tokens, max(3, updates // 4)),
        **trial.against_cpu(),
    }
    if compiled and trial.packs:
        found["compiled_tokens_per_second"] = compiled_rate(trial, tokens, updates)
    return found


def compiled_rate(trial: Trial, tokens: int, updates: int) -> float | str:
    """The same with torch.compile, or why it does not work here."""
    problem = compile_model(trial.model, trial.device, trial.autocast())
    trial.gradients = Gradients(trial.model, trial.ranks.world_size)  # its views are the parameters' gradients again
    return trial.rate(tokens, updates) if problem is None else problem
