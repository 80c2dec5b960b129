"""The learning rate (section 5.3, eq. 3): rising for `warmup` updates, then falling with their inverse square root.

Standard library only.
"""

from __future__ import annotations

import math


def learning_rate(update: int, *, d_model: int, warmup: int, factor: float = 1.0) -> float:
    """The rate of update number `update`, counted from 1."""
    return factor / math.sqrt(d_model) * min(1 / math.sqrt(update), update / (warmup * math.sqrt(warmup)))
