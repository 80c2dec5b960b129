"""The whole pipeline through the real command line: it learns, is found done, and survives a kill in every step."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from asked_hosts import asked_elsewhere
from mlflow.tracking import MlflowClient
from small_demo import LOGGED, ROOT, SMALL, asked, attn, result_files
from tracking_server import serving

from jobs.corpora.demo.shown import SHOWN

pytestmark = [pytest.mark.ray, pytest.mark.slow]

STAGES = ("corpora", "vocabulary", "shards", "train", "average", "translate", "score", "report")


def run_words(workspace: Path, settings: list[str]) -> list[str]:
    return ["run", *asked(workspace, settings)]


def test_a_second_run_finds_everything_done(undisturbed: Path) -> None:
    began = time.time()
    again = attn(*run_words(undisturbed, SMALL))
    assert "0 steps made, 11 found done" in again.stdout
    assert "attn translate" in again.stdout, "it still says what to try next"
    assert time.time() - began < 60


def test_nobody_on_the_network_is_asked(undisturbed: Path) -> None:
    """But for what Ray's own dashboard asks at its start, whatever it is told: is this one of three clouds?"""
    asked_by_ray = {"169.254.169.254", "metadata.google.internal"}
    assert asked_elsewhere(undisturbed.with_suffix(".asked")) <= asked_by_ray


def test_everything_is_in_mlflow(undisturbed: Path) -> None:
    client = MlflowClient(tracking_uri=f"sqlite:///{undisturbed}/mlflow/mlflow.db")
    experiment = client.get_experiment_by_name("demo")
    assert experiment is not None
    trained = client.search_runs([experiment.experiment_id], "tags.`attn.stage` = 'train' and params.num_heads = '2'")
    points = client.get_metric_history(trained[-1].info.run_id, "loss")
    assert sorted(point.step for point in points) == LOGGED, "each point of the curve once"
    assert 0 <= trained[-1].data.metrics["system/cpu_utilization_percentage"] <= 100
    assert trained[-1].data.params["training.seed"] == "1"
    scored = client.search_runs([experiment.experiment_id], "tags.`attn.stage` = 'score'")
    assert {"bleu", "chrf", "bleu_paper", "perplexity", "parameters"} <= set(scored[-1].data.metrics)
    assert "attn.fact.bleu_signature" in scored[-1].data.tags
    versions = client.search_model_versions("name = 'demo'")
    assert client.get_model_version_by_alias("demo", "champion").version == versions[0].version
    assert [version.tags["attn.fingerprint"] for version in versions] == [scored[-1].data.tags["attn.fingerprint"]]


def test_the_reading_commands_answer(undisturbed: Path) -> None:
    at = ["--workspace", str(undisturbed)]
    changes = [word for setting in SMALL for word in ("--set", setting)]
    listed = json.loads(attn("results", "--json", *at).stdout)
    assert listed[0]["recipe"] == "demo"
    assert listed[0]["BLEU"] is not None
    assert "BLEU" in attn("report", "demo", *changes, *at, env={**os.environ, "BROWSER": "true"}).stdout
    shown = attn("data", "show", "demo", *changes, *at)
    assert shown.returncode == 0, shown.stderr
    said = attn("translate", "demo", *changes, *at, "The old cat sleeps.", "")
    assert said.returncode == 0, said.stderr
    assert len(said.stdout.splitlines()) == 2, "an empty line stays a line"
    assert json.loads(attn("plan", "demo", "--json", *changes, *at).stdout)[0]["state"] == "done"


def test_a_tracking_server_gives_the_same_answers(undisturbed: Path) -> None:
    """And the lines of the README that ask MLflow without us work as they stand there."""
    where = "params.num_heads = 2 and metrics.bleu >= 0"
    with serving(undisturbed / "mlflow") as server:
        for question in (["results"], ["results", "--best", "bleu"], ["results", "--where", where]):
            words = [*question, "--json", "--workspace", str(undisturbed)]
            local = json.loads(attn(*words).stdout)
            assert local
            assert json.loads(attn(*words, env={**os.environ, "MLFLOW_TRACKING_URI": server.url}).stdout) == local
    (lines,) = re.findall(r"```python\n(import mlflow\n.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    *setting_up, query = lines.replace("sqlite:///workspace", f"sqlite:///{undisturbed}").strip().splitlines()
    asks_for_scores = query.replace(" and tags.`attn.table` = '3'", "")
    script = "\n".join([*setting_up, f"print(len({query}), len({asks_for_scores}))"])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    of_table_3, of_anything = map(int, done.stdout.split())
    assert of_table_3 == 0 < of_anything, done.stderr


def killed_in(stage: str, words: list[str]) -> bool:
    """Start the run and kill it hard as soon as it says that it is in this stage; False if it ended before."""
    command = [sys.executable, "-u", "-m", "pipelines.cli", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        for line in child.stdout:
            words_of_line = line.split()
            if len(words_of_line) > 2 and words_of_line[1] == stage and words_of_line[-1] == "started":
                time.sleep(0.3 if stage != "train" else 9.0)
                os.kill(child.pid, signal.SIGKILL)
                return True
    return False


def test_a_kill_in_the_middle_of_every_step_changes_nothing(undisturbed: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "killed"
    words = run_words(workspace, SMALL)
    killed = [stage for stage in STAGES if killed_in(stage, words)]
    assert killed == list(STAGES)
    done = attn(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert result_files(workspace) == result_files(undisturbed)
    client = MlflowClient(tracking_uri=f"sqlite:///{workspace}/mlflow/mlflow.db")
    experiment = client.get_experiment_by_name("demo")
    assert experiment is not None
    trained = client.search_runs(
        [experiment.experiment_id], "tags.`attn.stage` = 'train' and attributes.status = 'FINISHED'"
    )
    assert len(client.search_model_versions("name = 'demo'")) == 1, "the model is registered, once"
    made = [run for run in trained if "attn.cached" not in run.data.tags]
    points = client.get_metric_history(made[0].info.run_id, "loss")
    assert sorted(point.step for point in points) == LOGGED, "each point once, kill or no kill"


def test_ctrl_c_leaves_nothing_broken(undisturbed: Path, tmp_path: Path) -> None:
    words = run_words(tmp_path / "stopped", SMALL)
    command = [sys.executable, "-u", "-m", "pipelines.cli", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if "vocabulary" in line:
                child.send_signal(signal.SIGINT)
                break
        rest = child.stdout.read()
        assert child.stderr is not None
        errors = child.stderr.read()
    assert child.returncode == 130
    assert "Nothing is lost: the same command carries on" in rest
    assert errors == ""


def test_the_demo_learns_what_a_broken_mask_could_not(tmp_path: Path) -> None:
    """The recipe as it is: it translates sentences that were never seen, those that we suggest among them."""
    done = attn(*run_words(tmp_path, ["scoring.bootstrap=20"]), timeout=1_800)
    assert done.returncode == 0, done.stdout + done.stderr
    facts = json.loads(next(tmp_path.glob("score/*/record.json")).read_text())["facts"]
    assert facts["bleu"] > 85
    said = attn("translate", "demo", "--workspace", str(tmp_path), *SHOWN)
    assert said.stdout.splitlines() == list(SHOWN.values())


def test_the_whole_pipeline_runs_on_an_object_store(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every job reads and writes through S3; the model is then used from there."""
    settings = [word for setting in SMALL for word in ("--set", setting)]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    done = attn("run", "demo", "--workspace", bucket, *settings, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "11 steps made" in done.stdout
    again = attn("run", "demo", "--workspace", bucket, *settings, cwd=tmp_path)
    assert "0 steps made, 11 found done" in again.stdout
    said = attn("translate", "demo", "--workspace", bucket, *settings, "The cat sleeps.", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert len(said.stdout.splitlines()) == 1
