"""Whether this machine's CPU multiplies bf16 in hardware. Standard library only: a plan asks, too."""

from __future__ import annotations

from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}  # two to three times the rate of single precision, or more


def multiplies_bf16() -> bool:
    return bool(INSTRUCTIONS & instructions(CPUINFO))


@cache
def instructions(cpuinfo: Path) -> frozenset[str]:
    """What the first CPU of the list can do; nothing is known where there is no such list."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())
