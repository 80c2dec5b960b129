"""From checkpoints to a model directory that stands by itself."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from jobs.average import job
from jobs.configs import AverageConfig, Resources
from jobs.errors import UserError
from jobs.events import Event, Note
from jobs.storage.artifacts import Artifact
from transformer.checkpoint import load_weights
from transformer.config import ModelConfig
from transformer.model import Transformer, count_parameters

MODEL = ModelConfig(layers=1, d_model=16, d_ff=32, num_heads=2)


@pytest.fixture
def training(tmp_path: Path) -> Artifact:
    """Three checkpoints whose weights are 1, 2 and 6 everywhere."""
    out = Artifact(str(tmp_path / "training"))
    entries = []
    for update, value in ((10, 1.0), (20, 2.0), (30, 6.0)):
        path = f"work/run/update-{update:07d}"
        Path(out.at(path)).mkdir(parents=True)
        weights = {k: torch.full_like(v, value) for k, v in Transformer(MODEL, 30).named_parameters()}
        save_file(weights, out.at(f"{path}/model.safetensors"))
        entries.append({"update": update, "path": path})
    out.write_json("checkpoints.json", entries)
    out.write_json("model.json", {"model": asdict(MODEL), "vocabulary_size": 30})
    return out


@pytest.fixture
def vocabulary(tmp_path: Path) -> Artifact:
    out = Artifact(str(tmp_path / "vocabulary"))
    out.write_bytes("subwords.model", b"subwords")
    return out


def run(last: int, training: Artifact, vocabulary: Artifact, events: list[Event]) -> tuple[Artifact, dict[str, object]]:
    out = Artifact(str(Path(training.uri).parent / f"model-{last}"))
    facts = job.run(
        AverageConfig(last=last), training=training, vocabulary=vocabulary, out=out, on=Resources(), log=events.append
    )
    return out, dict(facts)


@pytest.mark.ray
def test_the_last_checkpoints_become_one_model(ray_session: None, training: Artifact, vocabulary: Artifact) -> None:
    out, facts = run(2, training, vocabulary, [])
    assert all((weight == 4.0).all() for weight in load_file(out.at("model.safetensors")).values())
    config = json.loads(out.read_text("config.json"))
    assert ModelConfig(**config["model"]) == MODEL
    assert (config["vocabulary_size"], config["checkpoints"]) == (30, [20, 30])
    assert out.read_bytes("subwords.model") == b"subwords"
    assert "after updates 20, 30" in out.read_text("README.md")
    model = Transformer(ModelConfig(**config["model"]), config["vocabulary_size"])
    load_weights(Path(out.at("model.safetensors")), model)
    assert facts == {"parameters": count_parameters(model), "checkpoints": 2, "first_update": 20, "last_update": 30}


@pytest.mark.ray
def test_one_is_the_last_and_too_many_are_said(ray_session: None, training: Artifact, vocabulary: Artifact) -> None:
    events: list[Event] = []
    out, facts = run(1, training, vocabulary, events)
    assert all((weight == 6.0).all() for weight in load_file(out.at("model.safetensors")).values())
    assert not events
    _, facts = run(9, training, vocabulary, events)
    assert facts["checkpoints"] == 3
    assert events == [Note("Averaging 3 checkpoints, not 9: the training run has no more of them.")]


def test_a_run_without_checkpoints_is_refused(training: Artifact, vocabulary: Artifact) -> None:
    training.write_json("checkpoints.json", [])
    with pytest.raises(UserError, match="no checkpoint to average"):
        run(5, training, vocabulary, [])
