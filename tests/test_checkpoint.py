"""Checkpoints: everything back to the bit, whole or not at all, and the mean of several."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from transformer import checkpoint
from transformer.batching import collate
from transformer.config import ModelConfig, TrainingConfig
from transformer.model import Transformer
from transformer.update import Gradients, MicroBatch, Ranks, make_optimizer, update

MODEL = ModelConfig(layers=1, d_model=16, d_ff=32, num_heads=2)
TRAINING = TrainingConfig()
BATCH = collate([[5, 6], [7]], [[8, 9, 10], [11]])


class Run:
    """A model in training."""

    def __init__(self, seed: int = 1) -> None:
        torch.manual_seed(seed)
        self.model = Transformer(MODEL, 30)
        self.optimizer = make_optimizer(self.model, TRAINING)
        self.gradients = Gradients(self.model, 1)

    def go(self, first: int, last: int) -> None:
        for number in range(first, last + 1):
            update(
                self.model, self.optimizer, self.gradients, [MicroBatch(0, number, BATCH)],
                count=1, tokens=6, learning_rate=0.01, config=TRAINING, ranks=Ranks(),
            )  # fmt: skip

    def weights(self) -> torch.Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in self.model.parameters()])


def test_training_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    straight, first, second = Run(), Run(), Run(seed=99)
    straight.go(1, 6)
    first.go(1, 3)
    taken = checkpoint.snapshot(first.model, first.optimizer, {"update": 3}, [{"update": 1, "loss": 2.5}])
    first.go(4, 5)  # what comes after the snapshot is not in it, though it was written later
    checkpoint.write(tmp_path / "c", taken)
    checkpoint.restore(tmp_path / "c", second.model, second.optimizer)
    assert checkpoint.read_state(tmp_path / "c") == {"update": 3}
    assert checkpoint.read_curve(tmp_path / "c") == [{"update": 1, "loss": 2.5}]
    second.go(4, 6)
    assert torch.equal(second.weights(), straight.weights())


def test_state_is_written_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stops while a checkpoint is written leaves none."""
    run = Run()
    run.go(1, 1)
    taken = checkpoint.snapshot(run.model, run.optimizer, {"update": 1}, [])

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(json, "dump", stop)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.write(tmp_path, taken)
    assert (tmp_path / checkpoint.MODEL).exists()
    assert not (tmp_path / checkpoint.STATE).exists()


def test_saved_weights_keep_their_names() -> None:
    """Weights saved before must load: a rename in the model is a rename in every model directory and checkpoint."""
    attention = ["self_attention.queries_keys_values.weight", "self_attention.output.weight"]
    cross = [f"source_attention.{name}.weight" for name in ("queries", "keys_values", "output")]
    feed_forward = [f"feed_forward.{name}.{part}" for name in ("inner", "outer") for part in ("weight", "bias")]

    def norms(*names: str) -> list[str]:
        return [f"{name}.norm.{part}" for name in names for part in ("weight", "bias")]

    encoder = [*attention, *feed_forward, *norms("around_attention", "around_feed_forward")]
    decoder = [*attention, *cross, *feed_forward, *norms("around_self", "around_source", "around_feed_forward")]
    saved = ["embedding.weight", *(f"encoder.0.{name}" for name in encoder), *(f"decoder.0.{name}" for name in decoder)]
    assert list(Run().model.state_dict()) == saved


def test_another_models_weights_are_refused_by_name(tmp_path: Path) -> None:
    save_file({"stranger": torch.zeros(1)}, tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match=r"of another model: .*stranger"):
        checkpoint.load_weights(tmp_path / "w.safetensors", Run().model)


def test_the_mean_of_equal_checkpoints_is_the_checkpoint(tmp_path: Path) -> None:
    files = []
    for name in "abc":
        files.append(tmp_path / f"{name}.safetensors")
        save_file({k: v.detach() for k, v in Run().model.named_parameters()}, files[-1])
    mean = checkpoint.average(files)
    for name, weight in load_file(files[0]).items():
        assert torch.equal(mean[name], weight)


def test_the_mean_is_by_weight(tmp_path: Path) -> None:
    values = [1.0, 2.0, 6.0]
    for value in values:
        save_file({"w": torch.full((2,), value)}, tmp_path / f"{value}.safetensors")
    mean = checkpoint.average(tmp_path / f"{value}.safetensors" for value in values)
    assert mean["w"].tolist() == [3.0, 3.0]


@pytest.mark.gpu
def test_a_snapshot_of_a_gpu_holds_what_was_there_though_training_goes_on_at_once(tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU here")
    model = torch.nn.Linear(4096, 4096, device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, fused=True)
    (model(torch.ones(8, 4096, device="cuda"))).sum().backward()
    optimizer.step()
    before = model.weight.detach().cpu()
    taken = checkpoint.snapshot(model, optimizer, {}, [])
    assert taken.copied is not None
    checkpoint.step_after(optimizer, taken.copied)
    optimizer.step()
    checkpoint.write(tmp_path, taken)
    assert torch.equal(load_file(tmp_path / "model.safetensors")["weight"], before)
