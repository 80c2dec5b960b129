"""How busy the machine of a worker is, under the names of MLflow's own system metrics: its pages draw them apart.

Read from Linux's /proc and from PyTorch; what a system does not tell is left out.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import torch

MEGABYTE = 1e6


class SystemMetrics:
    """Figures since the last call."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._busy, self._total = cpu_ticks()

    def sample(self) -> dict[str, float]:
        found: dict[str, float] = {}
        busy, total = cpu_ticks()
        if total > self._total:
            found["system/cpu_utilization_percentage"] = 100 * (busy - self._busy) / (total - self._total)
        self._busy, self._total = busy, total
        memory = memory_kilobytes()
        if {"MemTotal", "MemAvailable"} <= memory.keys():
            used = memory["MemTotal"] - memory["MemAvailable"]
            found["system/system_memory_usage_megabytes"] = used * 1024 / MEGABYTE
            found["system/system_memory_usage_percentage"] = 100 * used / memory["MemTotal"]
        if self.device.type == "cuda":
            free, size = torch.cuda.mem_get_info(self.device)
            found["system/gpu_0_memory_usage_megabytes"] = (size - free) / MEGABYTE
            found["system/gpu_0_memory_usage_percentage"] = 100 * (size - free) / size
            with contextlib.suppress(ImportError, RuntimeError):  # it takes NVIDIA's own library
                found["system/gpu_0_utilization_percentage"] = float(torch.cuda.utilization(self.device))
        return found


def cpu_ticks() -> tuple[int, int]:
    """Of all CPUs: busy, and in all."""
    with contextlib.suppress(OSError, ValueError):
        ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        idle = ticks[3] + ticks[4]  # waiting for a disk is not work
        return sum(ticks) - idle, sum(ticks)
    return 0, 0


def memory_kilobytes() -> dict[str, int]:
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return {}
