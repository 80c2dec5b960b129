"""A model and its optimiser on disk: safetensors and JSON, never pickle. Averaging of checkpoints (section 6.1).

A checkpoint is a directory: model.safetensors, optimizer.safetensors (Adam's moments by parameter name), curve.jsonl
(every point of the curve so far) and state.json (the progress of training). state.json is written last: a directory
that has it is complete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

MODEL, OPTIMIZER, STATE, CURVE = "model.safetensors", "optimizer.safetensors", "state.json", "curve.jsonl"
FILES = (MODEL, OPTIMIZER, CURVE, STATE)  # in the order of writing
MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Snapshot:
    """Everything that a checkpoint holds. Tensors are copies in main memory, so training may go on.

    Those of a GPU are on their way until `copied` has happened.
    """

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]
    curve: list[dict[str, float]]
    copied: torch.cuda.Event | None = None


def snapshot(
    model: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any], curve: Sequence[dict[str, float]]
) -> Snapshot:
    """Copy the weights and Adam's state as they are now: 12 bytes per parameter.

    A GPU copies on a stream of its own, beside the next forward and backward passes: `step_after` holds the step.
    """
    named = dict(model.named_parameters())
    weights: dict[str, Tensor] = {name: parameter.detach() for name, parameter in named.items()}
    moments: dict[str, Tensor] = {
        f"{moment}.{name}": optimizer.state[parameter][moment]
        for name, parameter in named.items()
        for moment in (*MOMENTS, "step")
        if parameter in optimizer.state
    }
    device = next(iter(weights.values())).device
    if device.type != "cuda":
        return Snapshot(_copies(weights), _copies(moments), dict(state), list(curve))
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        kept = _pinned_copies(weights), _pinned_copies(moments)
        copied = stream.record_event()
    return Snapshot(*kept, dict(state), list(curve), copied)


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.to("cpu", copy=True) for name, tensor in tensors.items()}


def _pinned_copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """In pinned memory, into which a GPU copies without anybody waiting; PyTorch keeps it for the next snapshot."""
    made = {name: torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True) for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        made[name].copy_(tensor, non_blocking=True)
    return made


def step_after(optimizer: torch.optim.Optimizer, copied: torch.cuda.Event) -> RemovableHandle:
    """Let the optimiser's steps wait, on the device, for copies that are being made. Remove it when others are made."""
    return optimizer.register_step_pre_hook(lambda *_: torch.cuda.current_stream().wait_event(copied))


def write(directory: Path, taken: Snapshot) -> None:
    """Write a checkpoint; state.json comes last and is on disk whole or not at all."""
    directory.mkdir(parents=True, exist_ok=True)
    if taken.copied is not None:
        taken.copied.synchronize()
    save_file(taken.model, directory / MODEL)
    save_file(taken.optimizer, directory / OPTIMIZER)
    (directory / CURVE).write_text("".join(json.dumps(point) + "\n" for point in taken.curve), encoding="utf-8")
    for name in (MODEL, OPTIMIZER, CURVE):
        with open(directory / name, "rb") as written:
            os.fsync(written.fileno())
    draft = directory / (STATE + ".partial")
    with open(draft, "w", encoding="utf-8") as file:
        json.dump(taken.state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, directory / STATE)


def read_state(directory: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((directory / STATE).read_text(encoding="utf-8"))
    return state


def read_curve(directory: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (directory / CURVE).read_text(encoding="utf-8").splitlines()]


def restore(directory: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Load weights and Adam's state, equal to the bit."""
    load_weights(directory / MODEL, model)
    moments = load_file(directory / OPTIMIZER)
    for name, parameter in model.named_parameters():
        if f"step.{name}" in moments:
            held = {moment: moments[f"{moment}.{name}"].to(parameter.device) for moment in MOMENTS}
            optimizer.state[parameter] = {"step": moments[f"step.{name}"].to(parameter.device), **held}


def load_weights(file: Path, model: nn.Module) -> None:
    """ValueError where the names are not exactly the model's."""
    weights = load_file(file)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if missing or unexpected:
        raise ValueError(
            f"{file} is of another model: it lacks {missing or 'nothing'}, it has {unexpected or 'nothing'}"
        )


def average(files: Iterable[Path]) -> dict[str, Tensor]:
    """The mean of several checkpoints' weights, summed in double precision, one file in memory at a time."""
    total: dict[str, Tensor] = {}
    count = 0
    for count, file in enumerate(files, start=1):  # noqa: B007  the last count is the number of files
        for name, weight in load_file(file).items():
            total[name] = total[name].add_(weight) if name in total else weight.double()
    return {name: (weight / count).float() for name, weight in total.items()}
