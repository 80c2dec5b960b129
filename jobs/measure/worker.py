"""What each worker measures: versions, matrix products, memory, the sum over all workers, reading, updates.

All workers go through the same, so that they share what they will share in training; rank 0's figures are the answer.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import ray
import ray.train
import ray.train.torch
import torch
import torch.distributed as dist

from jobs.cluster.machine_speed import matmul_flops, peak_memory_gb
from jobs.configs import Precision
from jobs.measure.updates import Trial, measure_model, synchronize
from jobs.storage.artifacts import Artifact
from jobs.storage.object_store import filesystem
from jobs.train.precision import agreed_precision
from transformer.config import ModelConfig
from transformer.update import Ranks

SUMMED = 2**24  # numbers: 64 MB in single precision
STORED = 2**23  # bytes of the file that is read back
RANGE = 2**14  # bytes of a micro-batch on disk, about


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What to measure. `models` are names with config and size of the vocabulary."""

    models: Mapping[str, tuple[ModelConfig, int]]
    tokens: int  # of a micro-batch
    updates: int
    precision: Precision
    compile: bool
    threads: int
    place: Artifact  # in the workspace, for a file to read back


def measure(settings: dict[str, Any]) -> dict[str, Any]:
    """The function that Ray Train runs on every worker."""
    wanted: Measurement = settings["measurement"]
    context = ray.train.get_context()
    ranks = Ranks(context.get_world_rank(), context.get_world_size())
    device = ray.train.torch.get_device()
    if device.type == "cpu":
        torch.set_num_threads(wanted.threads)
    return measured(wanted, ranks, device)


def measured(wanted: Measurement, ranks: Ranks, device: torch.device) -> dict[str, Any]:
    precision = agreed_precision(wanted.precision, device, ranks)
    found: dict[str, Any] = {
        "workers": ranks.world_size,
        "precision": precision,
        "versions": versions(),
        "device": describe(device),
        "matmul_tflops": {
            "fp32": matmul_flops(device) / 1e12,
            "bf16": matmul_flops(device, torch.bfloat16) / 1e12,
        },
        "memory_gb_per_second": copy_rate(device),
        "sum": sum_rate(ranks, device),
        "reading": read_rate(wanted.place, ranks),
    }
    models: dict[str, Any] = {}
    for name, (config, vocabulary_size) in wanted.models.items():
        trial = Trial(config, vocabulary_size, device, ranks, precision == "bf16")
        models[name] = measure_model(trial, wanted.tokens, wanted.updates, compiled=wanted.compile)
        del trial
    return {**found, "models": models, "peak_memory_gb": peak_memory_gb(device)}


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "torch": torch.__version__, "ray": ray.__version__}
    if torch.version.cuda:
        found |= {"cuda": torch.version.cuda, "driver": driver_version()}
    if torch.cuda.is_available():
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return found


def driver_version() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return "unknown: there is no nvidia-smi"
    command = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout
    return answer.strip().partition("\n")[0] or "unknown"


def describe(device: torch.device) -> dict[str, Any]:
    if device.type == "cpu":
        return {"name": platform.processor() or platform.machine(), "threads": torch.get_num_threads()}
    known = torch.cuda.get_device_properties(device)
    kernels = torch.cuda.get_arch_list()
    return {
        "name": known.name,
        "memory_gb": known.total_memory / 1e9,
        "compute_capability": f"{known.major}.{known.minor}",
        "kernels_of_torch": ", ".join(kernels),
    }


def seconds_of(act: Callable[[], Any], device: torch.device, tries: int = 5) -> float:
    """At the median, after one try that does not count."""
    spent = []
    for _ in range(tries + 1):
        synchronize(device)
        began = time.perf_counter()
        act()
        synchronize(device)
        spent.append(time.perf_counter() - began)
    return median(spent[1:])


def copy_rate(device: torch.device) -> float:
    """GB read and written per second in copying a large tensor on the device."""
    source = torch.ones(SUMMED, device=device)
    target = torch.empty_like(source)
    return 2 * 4 * SUMMED / seconds_of(lambda: target.copy_(source), device) / 1e9


def sum_rate(ranks: Ranks, device: torch.device) -> dict[str, float]:
    """Of gradients over all workers: seconds for 64 MB, and what each worker sends and receives in a ring per second.

    One worker alone sums nothing.
    """
    if ranks.world_size == 1:
        return {}
    numbers = torch.zeros(SUMMED, device=device)
    seconds = seconds_of(lambda: ranks.sum(numbers), device)
    sent = 2 * (ranks.world_size - 1) / ranks.world_size * 4 * SUMMED
    return {"seconds_of_64_mb": seconds, "gb_per_second": sent / seconds / 1e9}


def read_rate(place: Artifact, ranks: Ranks) -> dict[str, float]:
    """From the workspace, all workers at once: a file of 8 MB, and ranges of the size of a micro-batch."""
    name = "bytes"
    if ranks.rank == 0:
        place.write_bytes(name, bytes(STORED))
    if ranks.world_size > 1:
        dist.barrier()
    store, path = filesystem(place, name)
    cpu = torch.device("cpu")
    whole = seconds_of(lambda: place.read_bytes(name), cpu, tries=3)
    with store.open_input_file(path) as file:
        offsets = iter(range(0, STORED, 3 * RANGE))
        piece = seconds_of(lambda: file.read_at(RANGE, next(offsets)), cpu, tries=20)
    return {"mb_per_second": STORED / whole / 1e6, "milliseconds_of_16_kb": 1000 * piece}
