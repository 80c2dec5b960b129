"""A model kept in MLflow: loaded by one line in a process that knows nothing of the project, found by its scores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from small_model import random_directory
from step_job import StepConfig

from jobs.corpora.stage import CORPORA
from pipelines.steps.step import Step
from transformer.translator import Translator

CLEAN = """
import json, sys
import mlflow
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model(sys.argv[2])
print(json.dumps(model.predict(["kaba lori", "", "terel"])))
"""


@pytest.mark.slow
def test_a_logged_model_translates_in_a_clean_process_and_is_found_by_its_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.tracking import MlflowClient  # noqa: PLC0415  the quick tests do not load MLflow

    from pipelines.tracking.registry import Judged, keep_and_register, log_model, tracked_at  # noqa: PLC0415

    directory = random_directory(tmp_path / "model")
    (directory / "record.json").write_text("{}", encoding="utf-8")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    client = MlflowClient(uri)
    experiment = client.create_experiment("demo", artifact_location=str(tmp_path / "kept"))
    run = client.create_run(experiment)
    test_set = Step(stage=CORPORA, config=StepConfig(), label="test")
    params = {"model.num_heads": "2"}
    judged = Judged(
        recipe="table3/base", fingerprint="a", scores={"bleu": 12.5, "chrf": 40.0}, params=params, test_set=test_set
    )
    address = log_model(uri, run.info.run_id, directory, judged)
    assert address == "models:/table3-base/1"
    assert "MLFLOW_TRACKING_URI" not in os.environ, "the next run of this process may be tracked elsewhere"
    (found,) = client.search_model_versions("name = 'table3-base'")
    assert float(found.tags["bleu"]) == 12.5
    assert found.tags["attn.recipe"] == "table3/base"
    (best,) = client.search_logged_models([experiment], filter_string="metrics.bleu > 12")
    assert best.model_id
    assert best.params == params
    assert {(m.dataset_name, m.dataset_digest) for m in best.metrics} == {(test_set.name, test_set.fingerprint)}
    again = log_model(uri, run.info.run_id, directory, replace(judged, fingerprint="b", scores={"bleu": 13.0}))
    assert again == "models:/table3-base/2"
    worse = log_model(uri, run.info.run_id, directory, replace(judged, fingerprint="c", scores={"bleu": 11.0}))
    assert worse == "models:/table3-base/3"
    assert str(client.get_model_version_by_alias("table3-base", "champion").version) == "2"
    same = log_model(uri, run.info.run_id, directory, judged)
    assert same == address, "one that another run has just registered has one version"
    assert len(client.search_model_versions("name = 'table3-base'")) == 3
    runs = [client.create_run(experiment).info.run_id for _ in range(2)]
    fourth = replace(judged, fingerprint="d")
    with tracked_at(uri), ThreadPoolExecutor(2) as pool:  # two users who end at once, with no lock in common
        at_once = list(pool.map(lambda run_id: keep_and_register(client, run_id, directory, fourth), runs))
    assert len(set(at_once)) == 1
    known = client.search_model_versions("name = 'table3-base'")
    assert sorted(each.tags["attn.fingerprint"] for each in known) == ["a", "b", "c", "d"]

    for file in directory.iterdir():
        file.unlink()  # what MLflow keeps is whole
    said = subprocess.run(
        [sys.executable, "-c", CLEAN, uri, address], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    random_directory(directory)
    translator = Translator.load(directory)
    assert json.loads(said.stdout.splitlines()[-1]) == [
        found.text for found in translator.translate(["kaba lori", "", "terel"])
    ]


@pytest.mark.slow
def test_of_two_threads_none_leaves_its_address_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.tracking.registry import tracked_at  # noqa: PLC0415  the quick tests do not load MLflow

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    begun = threading.Event()

    def first() -> None:
        with tracked_at("sqlite:///first.db"):
            begun.set()
            time.sleep(0.3)  # the other comes meanwhile, and stays longer

    def second() -> str:
        begun.wait()
        with tracked_at("sqlite:///second.db"):
            time.sleep(0.6)
            return os.environ["MLFLOW_TRACKING_URI"]

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(first), pool.submit(second)
        one.result()
        assert other.result() == "sqlite:///second.db"
    assert "MLFLOW_TRACKING_URI" not in os.environ
