"""Shape names tell the truth: `x_RD` has two dimensions, `keys_BHSK` four, and a letter has one size in a function.

What is looked at is every local name and every field of the transformer package's functions as they end, through
training on rectangles and on packed rows, search, forced scoring and attention maps.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor

from transformer import beam
from transformer.batching import collate
from transformer.config import ModelConfig, SearchConfig, TrainingConfig
from transformer.model import Transformer
from transformer.packed import PackedBatch
from transformer.update import (
    Gradients,
    MicroBatch,
    PackedMicroBatches,
    Ranks,
    evaluate,
    make_optimizer,
    packed,
    update,
)

HERE = str(Path(beam.__file__).parent)
NAME = re.compile(r"[a-z]\w*_(?P<shape>[A-Z0-9]+)")
ANY = "X"  # a width that differs from tensor to tensor
MODEL = ModelConfig(layers=2, d_model=24, d_ff=40, num_heads=3, d_k=4, d_v=10, dropout=0.1, attention_dropout=0.1)
PACKABLE = ModelConfig(layers=2, d_model=16, d_ff=40, num_heads=2, dropout=0.1, relu_dropout=0.1)
SENTENCES = [[5, 6, 7], [8, 9, 10, 11, 12], [4], [7, 6, 5, 4, 6, 7, 5]]


def fields_of(value: Any) -> dict[str, Any]:
    if hasattr(value, "_asdict"):
        return dict(value._asdict())
    return vars(value) if is_dataclass(value) and hasattr(value, "__dict__") else {}


def lies_of(names: dict[str, Any]) -> Iterator[str]:
    """Names whose letters are not the dimensions, and letters that have two sizes."""
    sizes: dict[str, tuple[int, str]] = {}
    for name, value in names.items():
        matched = NAME.fullmatch(name)
        if matched is None or not isinstance(value, Tensor) or not value.numel():
            continue  # an empty tensor stands for none
        shape = matched["shape"]
        if len(shape) != value.ndim:
            yield f"{name} has the shape {tuple(value.shape)}"
            continue
        for letter, size in zip(shape, value.shape, strict=True):
            known, where = sizes.setdefault(letter, (int(letter) if letter.isdigit() else size, name))
            if letter != ANY and known != size:
                yield f"{letter} is {known} in {where} and {size} in {name}"


@contextmanager
def watching() -> Iterator[set[str]]:
    """What is wrong with the names of each function that ends meanwhile."""
    found: set[str] = set()

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event != "return" or not frame.f_code.co_filename.startswith(HERE):
            return
        where = f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}"
        names = frame.f_locals
        for each in (names, *(fields for value in names.values() if (fields := fields_of(value)))):
            found.update(f"{where}: {lie}" for lie in lies_of(each))

    sys.setprofile(look)
    try:
        yield found
    finally:
        sys.setprofile(None)


def trained(config: ModelConfig, work: MicroBatch | PackedMicroBatches) -> Transformer:
    torch.manual_seed(1)
    model = Transformer(config, 16)
    training = TrainingConfig()
    update(
        model, make_optimizer(model, training), Gradients(model, 1), iter([work]), count=1, tokens=20,
        learning_rate=1e-3, config=training, ranks=Ranks(),
    )  # fmt: skip
    return model.eval()


def rectangle() -> MicroBatch:
    return MicroBatch(0, 7, collate(SENTENCES, SENTENCES[::-1]))


def test_training_on_rectangles() -> None:
    with watching() as lies:
        model = trained(MODEL, rectangle())
        evaluate(model, iter([rectangle().batch]), 0.1, Ranks())
    assert lies == set()


def test_training_on_packed_rows() -> None:
    with watching() as lies:
        model = trained(PACKABLE, packed([rectangle()], seed=3))
        evaluate(model, iter([PackedBatch.of([rectangle().batch], [0])]), 0.1, Ranks())
    assert lies == set()


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_search(positions: Any) -> None:
    model = Transformer(replace(MODEL, positions=positions, norm="pre"), 16).eval()
    with watching() as lies, torch.no_grad():
        beam.search(model, SENTENCES, SearchConfig(beam=3))
    assert lies == set()


def test_what_lies_would_be_seen() -> None:
    assert list(lies_of({"x_BTD": torch.zeros(3, 4)})) == ["x_BTD has the shape (3, 4)"]
    assert list(lies_of({"x_RD": torch.zeros(3, 4), "y_RV": torch.zeros(2, 9)})) == ["R is 3 in x_RD and 2 in y_RV"]
    assert list(lies_of({"losses_M2": torch.zeros(5, 3)})) == ["2 is 2 in losses_M2 and 3 in losses_M2"]
    assert list(lies_of({"x_RD": torch.zeros(3, 4), "out_RD": torch.zeros(3, 4), "y_RX": torch.zeros(3, 7)})) == []
