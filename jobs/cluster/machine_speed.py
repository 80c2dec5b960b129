"""How fast this machine is: matrix products, and training. For `attn doctor --measure` and for estimates.

Noisy by nature: the best of several tries is what the machine can do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
import torch

from transformer.batching import Batch, collate
from transformer.config import ModelConfig, TrainingConfig
from transformer.flops import flops_per_target_token
from transformer.model import Transformer
from transformer.update import Gradients, MicroBatch, Ranks, make_optimizer, update

MODELS: Mapping[str, tuple[ModelConfig, int]] = {  # with their vocabularies
    "small": (ModelConfig(layers=3, d_model=256, d_ff=1024, num_heads=4), 8_000),
    "base": (ModelConfig(), 37_000),
}
LENGTH, TOKENS = 30, 1_500


def best_of(tries: int, act: Callable[[], None]) -> float:
    """Seconds of the fastest try."""
    seconds = []
    for _ in range(tries):
        began = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def default_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def matmul_flops(device: torch.device, dtype: torch.dtype = torch.float32, *, tries: int = 5) -> float:
    """FLOP/s of large matrix products on this process's threads or its GPU, at the best of `tries`."""
    size, products = (1024, 4) if device.type == "cpu" else (4096, 8)
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))

    def multiply() -> None:
        for _ in range(products):
            left @ right
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    multiply()
    return products * 2 * size**3 / best_of(tries, multiply)


def training_tokens_per_second(model_config: ModelConfig, vocabulary_size: int, updates: int = 3) -> float:
    """Real target tokens per second of whole updates on one process: forward, backward, Adam."""
    device = default_device()
    config = TrainingConfig()
    model = Transformer(model_config, vocabulary_size).to(device).train()
    optimizer, gradients = make_optimizer(model, config), Gradients(model, 1)
    batch = random_batch(vocabulary_size).to(device)

    def one() -> None:
        outcome = update(
            model, optimizer, gradients, [MicroBatch(0, 0, batch)], count=1, tokens=batch.target_tokens,
            learning_rate=1e-4, config=config, ranks=Ranks(),
        )  # fmt: skip
        outcome.gradient_norm.item()

    one()
    return batch.target_tokens / best_of(updates, one)


def random_batch(vocabulary_size: int) -> Batch:
    numbers = np.random.default_rng(1)
    rows = [numbers.integers(4, vocabulary_size, LENGTH - 1).tolist() for _ in range(TOKENS // LENGTH)]
    return collate(rows, rows)


def measured() -> dict[str, float]:
    """The matrix rate in TFLOPS, and for each model tokens per second and the share of that rate it reaches."""
    rate = matmul_flops(default_device())
    found = {"matmul_tflops": rate / 1e12, "threads": float(torch.get_num_threads())}
    for name, (config, size) in MODELS.items():
        tokens = training_tokens_per_second(config, size)
        flops = flops_per_target_token(config, size, source=LENGTH, target=LENGTH)
        found |= {f"{name}_tokens_per_second": tokens, f"{name}_share_of_matmul": tokens * flops / rate}
    return found
