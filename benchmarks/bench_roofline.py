"""What an A100 would need for an update at the least, by the kernels that the update starts; counted without a GPU.

python benchmarks/bench_roofline.py        needs g++ and PyTorch's CPU build; two minutes

Products run at a share of the peak in bf16 or at the memory's rate, whichever is slower; all else at the memory's rate.
`fused` is what torch.compile would have to reach: it moves a third of what the plain kernels between products move.
These rates are assumed, not measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PEAK, REACHED = 312e12, 0.7
MEMORY = 0.8 * 1.555e12  # bytes per second of an A100 of 40 GB
LAUNCH = 5e-6  # seconds of the host for each kernel
FUSED = 1 / 3
NVLINK = 230e9  # bytes per second that each GPU sends and receives in a sum
PARAMETERS = {"base": 63.1e6, "big": 214.3e6}
EMBEDDING = {"base": 0.30, "big": 0.18}  # their share: summed last, beside nothing
SLOWEST = 1.06  # of eight workers with one micro-batch each, against the mean (docs/performance.md)
CASES = (
    ("base", 1, "padded"),
    ("base", 1, "packed"),
    ("base", 4, "packed"),
    ("big", 3, "padded"),
    ("big", 3, "packed"),
)


def counted(model: str, micro_batches: int, form: str) -> dict[str, Any]:
    command = [sys.executable, str(ROOT / "benchmarks/fake_update.py"), model, str(micro_batches), form]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def seconds(found: dict[str, Any], other: float) -> float:
    """On the device; the host starts kernels meanwhile, and is waited for where it is slower (not when fused)."""
    products = max(found["tflop"] * 1e12 / (PEAK * REACHED), found["product_gb"] * 1e9 / MEMORY)
    device = products + found["other_gb"] * other * 1e9 / MEMORY
    return max(device, found["launches"] * LAUNCH) if other == 1 else device


def on_eight(model: str, alone: float, share: float) -> float:
    """Seconds with seven more, where `share` of the sum over them stands beside nothing."""
    return alone * SLOWEST + share * 2 * 7 / 8 * 4 * PARAMETERS[model] / NVLINK


def main() -> None:
    print("| update | launches | TFLOP | GB of products | GB between | ms | tokens/s on 1 | on 8 |\n|" + "---|" * 8)
    for model, micro_batches, form in CASES:
        found = counted(model, micro_batches, form)
        for fused in (False, True) if form == "packed" else (False,):
            alone = seconds(found, FUSED if fused else 1)
            eight = on_eight(model, alone, EMBEDDING[model] if form == "packed" else 1.0)
            tokens, between = found["tokens"], found["other_gb"] * (FUSED if fused else 1)
            print(
                f"| {model}, {tokens:,} tokens, {form}{', fused' if fused else ''} | {found['launches']:,} | "
                f"{found['tflop']:.1f} | {found['product_gb']:.0f} | {between:.0f} | "
                f"{1000 * alone:.0f} | {tokens / alone:,.0f} | {8 * tokens / eight:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
