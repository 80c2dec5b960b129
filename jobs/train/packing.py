"""What training does for a GPU's speed alone: several micro-batches in one pass, packed; torch.compile of the model.

The compiler is tried before it is trusted: where it fails, training goes on without it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from transformer.batching import collate
from transformer.config import END
from transformer.model import Transformer
from transformer.packed import PackedBatch
from transformer.update import MicroBatch, PackedMicroBatches, batch_losses, packed

TRIAL = collate([[END + 1] * length for length in (3, 5, 9)], [[END + 1] * length for length in (7, 4, 12)])


def passes(places: Sequence[int], per_pass: int | None) -> list[list[int]]:
    """A worker's places of an update, by what goes through the model at once."""
    size = per_pass or 1
    return [list(places[start : start + size]) for start in range(0, len(places), size)]


def on_device(
    made: Sequence[MicroBatch], device: torch.device, *, pack: bool, seed: int
) -> MicroBatch | PackedMicroBatches:
    """What goes through the model at once: with `pack` several, else one."""
    if pack:
        places, batch = packed(made, seed)
        return PackedMicroBatches(places, batch.to(device))
    (alone,) = made
    return alone._replace(batch=alone.batch.to(device))


def compile_model(model: Transformer, device: torch.device, autocast: torch.autocast) -> str | None:
    """Compile what stands before the loss, or leave the model as it is and say why.

    The first batch fixes what a graph takes for a constant. In the trial's no size is 0, 1, or another's, so that one
    graph serves all that come.
    """
    plain = model.hidden_rows
    model.hidden_rows = torch.compile(plain, dynamic=True)  # type: ignore[method-assign]
    try:
        with autocast:
            loss, _ = batch_losses(model, PackedBatch.of([TRIAL], [0]).to(device), smoothing=0.1)
        loss.backward()
    except Exception as error:  # each backend of the compiler has its own
        model.hidden_rows = plain  # type: ignore[method-assign]
        return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    finally:
        model.zero_grad(set_to_none=True)
    return None
