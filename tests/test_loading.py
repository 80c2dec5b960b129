"""A damaged or edited model directory is one sentence that names the file, whatever is wrong with it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_model import SHAPE, random_directory, random_model

from pipelines import cli
from transformer.config import ModelConfig, TrainingConfig
from transformer.translator import Translator


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_directory(tmp_path_factory.mktemp("model") / "whole")


def config(**changes: Any) -> Callable[[Path], None]:
    def edit(directory: Path) -> None:
        about = json.loads((directory / "config.json").read_text())
        about["model"].update({name: value for name, value in changes.items() if name in about["model"]})
        about.update({name: value for name, value in changes.items() if name not in about["model"]})
        (directory / "config.json").write_text(json.dumps(about))

    return edit


def content(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda directory: (directory / name).write_bytes(change((directory / name).read_bytes())) and None


def weights(change: Callable[[dict[str, torch.Tensor]], None]) -> Callable[[Path], None]:
    def edit(directory: Path) -> None:
        tensors = load_file(directory / "model.safetensors")
        change(tensors)
        save_file(tensors, directory / "model.safetensors")

    return edit


def first(value: float) -> Callable[[dict[str, torch.Tensor]], None]:
    return lambda tensors: tensors[min(tensors)].view(-1)[:1].fill_(value) and None


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "another width": (config(d_model=32), "model.safetensors.*weights of another model"),
    "a great width": (config(d_model=100_000), "model.safetensors.*weights of another model"),
    "a width out of this world": (config(d_model=2_000_000), "at most 100,000"),
    "another number of layers": (config(layers=3), "weights of another model"),
    "layers without end": (config(layers=10**9), "at most 1,000"),
    "half a layer": (config(layers=2.5), "model.layers must be a whole number"),
    "a number in words": (config(num_heads="four"), "model.num_heads must be a whole number"),
    "positions of no kind": (config(positions="nonsense"), "one of sinusoidal, learned"),
    "a norm of no kind": (config(norm="mid"), "one of post, pre"),
    "yes and no": (config(tied_embeddings="no"), "true or false"),
    "endless positions": (config(max_positions=10**12), "at most 1,000,000"),
    "another vocabulary size": (config(vocabulary_size=50), "weights of another model"),
    "a vocabulary size in words": (config(vocabulary_size="many"), "vocabulary_size is 'many'"),
    "no model": (content("config.json", lambda _: b"[]"), "does not describe a model"),
    "broken JSON": (content("config.json", lambda data: data[:20]), "config.json is not JSON"),
    "other bytes": (content("config.json", lambda _: b"\xff\xfe\x00"), "config.json is not UTF-8"),
    "cut weights": (content("model.safetensors", lambda data: data[: len(data) // 2]), "model.safetensors is damaged"),
    "empty weights": (content("model.safetensors", lambda _: b""), "model.safetensors is damaged"),
    "weights that are text": (content("model.safetensors", lambda _: b"hello " * 99), "model.safetensors is damaged"),
    "not a number": (weights(first(float("nan"))), "hold NaN or infinity"),
    "infinity": (weights(first(float("inf"))), "hold NaN or infinity"),
    "a tensor is missing": (weights(lambda tensors: tensors.__delitem__(min(tensors))), "weights of another model"),
    "subwords that are text": (content("subwords.model", lambda _: b"hello"), "subwords.model.*no SentencePiece"),
    "no subwords": (content("subwords.model", lambda _: b""), "subwords.model.*ids pad"),
    "cut subwords": (content("subwords.model", lambda data: data[: len(data) // 2]), "subwords.model"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_one_sentence(what: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "model"
    shutil.copytree(whole, directory)
    damage, says = DAMAGES[what]
    damage(directory)
    with pytest.raises(ValueError, match=says):
        Translator.load(directory)
    assert cli.main(["translate", str(directory), "kaba"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("attn: ")
    assert len(said.err.strip().splitlines()) == 1
    assert said.err.count("..") == 0


def test_a_whole_directory_loads(whole: Path) -> None:
    assert Translator.load(whole).translate(["kaba"])[0].tokens > 0


def test_a_table_may_have_more_rows_than_there_are_subwords(whole: Path) -> None:
    subwords = Translator.load(whole).subwords
    assert Translator(random_model(len(subwords) + 9), subwords).text([len(subwords) + 3]).strip() == "\u2047"


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "fast", True])
def test_a_rate_is_a_finite_number(value: Any) -> None:
    with pytest.raises(ValueError, match="learning_rate must be a number"):
        TrainingConfig(learning_rate=value)


def test_a_whole_number_will_do_for_a_number() -> None:
    assert replace(SHAPE, dropout=0) == ModelConfig(**{**vars(SHAPE), "dropout": 0.0})
