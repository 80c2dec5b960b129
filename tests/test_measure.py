"""`attn doctor --measure`: what it measures is what training does, and it notices a device that computes wrongly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from jobs.cluster.profiles import load_profile
from jobs.configs import Resources
from jobs.measure import job
from jobs.measure.updates import Trial, made_up
from jobs.measure.worker import Measurement, measured
from jobs.storage.artifacts import Artifact
from pipelines.commands.measure import estimates, page
from pipelines.execution.workspace import Workspace
from pipelines.tracking.measurements import store_measurement
from pipelines.tracking.server import reader
from transformer.config import ModelConfig
from transformer.update import Ranks

TINY = ModelConfig(layers=1, d_model=16, d_ff=32, num_heads=2)
CPU = torch.device("cpu")


def small(place: Path) -> Measurement:
    return Measurement(
        models={"tiny": (TINY, 50)}, tokens=60, updates=2, precision="fp32", compile=False, threads=1,
        place=Artifact(str(place)),
    )  # fmt: skip


@pytest.mark.slow
def test_everything_is_measured_and_is_a_number(tmp_path: Path) -> None:
    found = measured(small(tmp_path), Ranks(), CPU)
    assert set(found["models"]["tiny"]["milliseconds"]) == {"copy", "forward", "backward", "sum", "adam"}
    assert found["models"]["tiny"]["tokens_per_second"] > 0
    assert found["models"]["tiny"]["gradient_apart"] == 0, "a CPU against itself"
    assert found["matmul_tflops"]["fp32"] > 0
    assert found["reading"]["mb_per_second"] > 0
    assert found["sum"] == {}, "one worker sums nothing"


def test_a_device_that_rounds_is_noticed_and_one_that_errs_more_so() -> None:
    exact, rounding = (Trial(TINY, 50, CPU, Ranks(), bf16=bf16).against_cpu() for bf16 in (False, True))
    assert exact == {"loss_apart": 0, "gradient_apart": 0}
    assert 1e-5 < rounding["gradient_apart"] < 0.05
    trial = Trial(TINY, 50, CPU, Ranks(), bf16=True)
    layer = trial.model.decoder_layers[0].feed_forward
    layer.register_forward_hook(lambda module, given, out: out * 1.5 if torch.is_autocast_enabled("cpu") else out)
    assert trial.against_cpu()["gradient_apart"] > 1.2 * rounding["gradient_apart"]


def test_measuring_leaves_a_model_that_trains(tmp_path: Path) -> None:
    trial = Trial(TINY, 50, CPU, Ranks(), bf16=False)
    trial.against_cpu()
    before = trial.model.embedding.weight.clone()
    trial.update(made_up(50, 60, seed=1))
    assert trial.model.training
    assert not torch.equal(before, trial.model.embedding.weight)


def test_the_page_says_all_of_it_and_mlflow_keeps_it(tmp_path: Path) -> None:
    model = {
        "tokens_per_second": 5e4, "tflops": 50.0, "milliseconds": {"forward": 3.0}, "loss_apart": 1e-4,
        "gradient_apart": 1e-2, "compiled_tokens_per_second": "CompileError: no compiler",
    }  # fmt: skip
    found: dict[str, Any] = {
        "workers": 8, "profile": "gpu8", "versions": {"torch": "2"}, "device": {"name": "A100", "memory_gb": 80.0},
        "matmul_tflops": {"fp32": 19.0, "bf16": 200.0}, "memory_gb_per_second": 1500.0, "peak_memory_gb": 9.0,
        "precision": "bf16", "sum": {}, "reading": {"mb_per_second": 300.0, "milliseconds_of_16_kb": 20.0},
        "models": {"base": model}, "recipes": estimates(load_profile("gpu8"), {"base": model}), "mlflow_run": "0",
    }  # fmt: skip
    assert "compiling failed: CompileError: no compiler" in "\n".join(page(found))
    for seconds in found["recipes"].values():
        training, planned = seconds["measured_seconds"], seconds["planned_seconds"]
        assert planned < training < 2.1 * planned, "half the profile's rate: training takes twice as long"
    run_id = store_measurement(Workspace(str(tmp_path)), "gpu8", found, 1)
    kept = reader(Workspace(str(tmp_path))).get_run(run_id).data
    assert kept.metrics["models.base.tokens_per_second"] == 5e4
    assert kept.params["device.name"] == "A100"


@pytest.mark.ray
@pytest.mark.slow
def test_the_workers_of_a_profile_measure_together(ray_session: None, tmp_path: Path) -> None:
    found = job.run(Resources(), Artifact(str(tmp_path)), print, small(tmp_path / "file"))
    assert found["workers"] == 2
    assert found["sum"]["gb_per_second"] > 0
    assert found["models"]["tiny"]["loss_apart"] == 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"], "nothing of Ray Train's own stays"
