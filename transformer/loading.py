"""A model directory, read and checked: whatever is wrong with it is one ValueError that names the file.

Reads  config.json, model.safetensors, subwords.model
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from transformer.checkpoint import load_weights
from transformer.config import CONFIG, SUBWORDS, WEIGHTS, ModelConfig
from transformer.model import Transformer
from transformer.subwords import Subwords


@contextmanager
def faults_of(file: Path) -> Iterator[None]:
    """What goes wrong with a file as a sentence that names it."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 text") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{file} is not JSON: {error}") from error
    except SafetensorError as error:
        raise ValueError(f"{file} is damaged: {error}") from error
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def load_model(directory: Path) -> Transformer:
    """The model with its weights, on the CPU."""
    with faults_of(directory / CONFIG):
        shape = model_shape(json.loads((directory / CONFIG).read_text(encoding="utf-8")))
    with faults_of(directory / WEIGHTS):
        require_same_shapes(directory / WEIGHTS, *shape)  # before memory is taken for what a wrong config asks for
        model = Transformer(*shape)
        load_weights(directory / WEIGHTS, model)
        broken = [name for name, weight in model.named_parameters() if not torch.isfinite(weight).all()]
        if broken:
            raise ValueError(f"{len(broken)} of its tensors hold NaN or infinity, {broken[0]} for one")
    return model


def load_subwords(directory: Path) -> Subwords:
    with faults_of(directory / SUBWORDS):
        return Subwords.load(directory / SUBWORDS)


def model_shape(about: Any) -> tuple[ModelConfig, int]:
    """The model of a directory by its config.json."""
    try:
        config, size = ModelConfig(**about["model"]), about["vocabulary_size"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"config.json does not describe a model: {error}") from error
    if type(size) is not int or size < 1:
        raise ValueError(f"config.json does not describe a model: vocabulary_size is {size!r}")
    return config, size


def require_same_shapes(file: Path, config: ModelConfig, vocabulary_size: int) -> None:
    """The config's tensors are the file's, by name and shape."""
    with torch.device("meta"):
        expected = {
            name: tuple(weight.shape) for name, weight in Transformer(config, vocabulary_size).named_parameters()
        }
    with safe_open(file, framework="pt") as opened:
        found = {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118  no mapping
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            shapes = " and ".join(str(known.get(name, "none")) for known in (found, expected))
            raise ValueError(f"these are weights of another model: {name} has the shapes {shapes} here and by {CONFIG}")
