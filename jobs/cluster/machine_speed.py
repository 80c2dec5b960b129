"""How fast this process multiplies matrices, the rate that training's share of FLOPs is measured against; its memory.

Noisy by nature: the best of several tries is what the machine can do.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import torch


def best_of(tries: int, act: Callable[[], None]) -> float:
    """Seconds of the fastest try."""
    seconds = []
    for _ in range(tries):
        began = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


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


def peak_memory_gb(device: torch.device) -> float:
    """The most that this process has held: of the GPU's memory where it has one, else of the machine's, in GiB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
