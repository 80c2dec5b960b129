"""The precision of a training's matrix products: what the profile says, or with `auto` what the hardware is for.

Weights, their gradients, softmax, norms and loss are in single precision in either case.
"""

from __future__ import annotations

from typing import Literal

import torch

from jobs.configs import Precision
from transformer.cpu.linear import can_use_onednn
from transformer.packed import LEAST_CAPABILITY
from transformer.update import Ranks


def agreed_precision(wanted: Precision, device: torch.device, ranks: Ranks) -> Literal["fp32", "tf32", "bf16"]:
    """`auto` is bf16 where the hardware of every worker multiplies it, else fp32: all of them answer alike."""
    if wanted != "auto":
        return wanted
    able = torch.tensor(float(multiplies_bf16(device)), device=device)
    ranks.sum(able)
    return "bf16" if float(able) == ranks.world_size else "fp32"


def multiplies_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= LEAST_CAPABILITY
    return can_use_onednn(torch.empty(0), torch.bfloat16)


def so_far(recorded: str, precision: str) -> str:
    """A training that went on elsewhere may have had more than one: all of them, in order."""
    return ", ".join(dict.fromkeys([*filter(None, recorded.split(", ")), precision]))
