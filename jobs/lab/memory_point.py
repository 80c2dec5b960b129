"""One layer at one length, in a process of its own: its peak memory and its time. For jobs/lab/memory.py.

    python -m jobs.lab.memory_point '{"layer": "fused", "length": 1024, ...}'      prints a line of JSON

The peak is the process's own (VmHWM), set back just before the layer runs where Linux lets a process do that, minus
what it held then. Elsewhere the peak cannot be set back: the highest value so far (ru_maxrss) before and after is used.
"""

# B = 1 sequence, T length, D d_model

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from jobs.lab.layers import built

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def status(name: str) -> int | None:
    """Bytes that the kernel states of this process; None where it states nothing."""
    if not STATUS.exists():
        return None
    found = [line.split()[1] for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:")]
    return int(found[0]) * 1024 if found else None


def held() -> int:
    now = status("VmRSS")
    return now if now is not None else highest()


def highest() -> int:
    peak = status("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return peak if peak is not None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak_of(act: Callable[[], Any]) -> int:
    """Bytes above what the process held before, at the highest."""
    give_back()
    with contextlib.suppress(OSError):
        RESET.write_text("5")
    before = held()
    act()
    return max(0, highest() - before)


def give_back() -> None:
    """Hand what was freed back to the system, where its library can: else it would count as held before."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def best_of(tries: int, act: Callable[[], Any]) -> float:
    """Seconds of the processor: on one thread those of the clock on a quiet machine, whatever else runs here."""
    seconds = []
    for _ in range(tries):
        began = time.process_time()
        act()
        seconds.append(time.process_time() - began)
    return min(seconds)


def forward(layer: nn.Module, x_BTD: Tensor) -> None:
    with torch.no_grad():
        layer(x_BTD)


def forward_backward(layer: nn.Module, x_BTD: Tensor) -> None:
    layer.zero_grad(set_to_none=True)
    layer(x_BTD.detach().requires_grad_()).sum().backward()


def calibrate(megabytes: int) -> float:
    """What this method makes of a tensor whose size is known, in MB."""
    kept = [torch.ones(2**20)]
    return peak_of(lambda: kept.append(torch.ones(megabytes * 2**18))) / 2**20


def point(task: dict[str, Any]) -> dict[str, float]:
    torch.set_num_threads(1)
    torch.manual_seed(task["seed"])
    if task["layer"] == "calibration":
        return {"megabytes": calibrate(task["length"])}
    layer = built(task["layer"], task["d_model"], task["num_heads"])
    warm = torch.randn(1, 8, task["d_model"])
    forward(layer, warm)
    forward_backward(layer, warm)
    x_BTD = torch.randn(1, task["length"], task["d_model"])
    found = {}
    for name, act in (("forward", forward), ("backward", forward_backward)):
        found[f"{name}_mb"] = peak_of(lambda act=act: act(layer, x_BTD)) / 2**20  # type: ignore[misc]
        found[f"{name}_s"] = best_of(task["tries"], lambda act=act: act(layer, x_BTD))  # type: ignore[misc]
    return found


if __name__ == "__main__":
    print(json.dumps(point(json.loads(sys.argv[1]))))
