"""Everything in MLflow once, readable, and found again: real SQLite store, real server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.tracking import MlflowClient
from step_job import StepConfig

from jobs.configs import ScoreConfig
from jobs.corpora.stage import CORPORA
from jobs.errors import UserError
from jobs.events import Metrics
from jobs.passwords import hidden
from jobs.score.stage import SCORE
from jobs.train.stage import TRAIN
from pipelines import cli
from pipelines.execution.workspace import Workspace
from pipelines.recipes.recipes import RECIPES
from pipelines.steps.step import Step
from pipelines.tracking import query
from pipelines.tracking.server import reader, require_kept, tracking_uri
from pipelines.tracking.settings import by_full_name, parameters
from pipelines.tracking.writer import RUN_FILE, Tracker

pytestmark = pytest.mark.slow


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(str(tmp_path / "workspace"))


def tracker_in(workspace: Workspace) -> Tracker:
    return Tracker(tracking_uri(workspace), "recipe", artifacts=Path(workspace.uri) / "artifacts", command="attn run")


RECORD: dict[str, Any] = {
    "facts": {"bleu": 30.5, "bleu_signature": "nrefs:1"},
    "made": {"seconds": 2.0, "run_id": "abc", "when": "2026-01-02T03:04:05+00:00"},
}


@pytest.mark.parametrize(
    ("words", "uri"),
    [
        (["run", "demo"], None),
        (["submit", "demo"], None),
        (["submit", "demo"], "sqlite:////here/mlflow.db"),
        (["lab", "mask"], None),
    ],
)
def test_runs_that_would_be_lost_are_refused_before_anything_is_spent(
    words: list[str], uri: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the store nor a cluster is asked anything: there are none at these addresses."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert cli.main([*words, "--workspace", "s3://bucket/attn?endpoint_override=127.0.0.1:9&scheme=http"]) == 2
    said = capsys.readouterr().err
    assert "Set MLFLOW_TRACKING_URI to a server" in said
    assert "--untracked" in said


def test_runs_are_lost_only_where_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    store = Workspace("s3://bucket/attn")
    require_kept(store, untracked=True)
    require_kept(Workspace(str(tmp_path)), untracked=False, elsewhere=True)
    with pytest.raises(UserError, match="is not said"):
        reader(store)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow:5000")
    require_kept(store, untracked=False, elsewhere=True)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    require_kept(store, untracked=False)


def test_a_curve_interrupted_and_gone_over_again_has_each_point_once(workspace: Workspace) -> None:
    step = Step(stage=TRAIN, config=StepConfig(), label="base")
    out = workspace.artifact(step)
    first = tracker_in(workspace)
    run = first.begin(step, out)
    for update in range(1, 6):
        run.log(Metrics(update, {"loss": 1 / update}))
    run.flush()
    first.close("KILLED")

    second = tracker_in(workspace)
    resumed = second.begin(step, out)
    for update in range(3, 9):  # from the last checkpoint on
        resumed.log(Metrics(update, {"loss": 1 / update}))
    resumed.end("FINISHED")
    second.close("FINISHED")

    client = MlflowClient(tracking_uri=tracking_uri(workspace))
    run_id = out.read_json(RUN_FILE)["run_id"]
    history = client.get_metric_history(run_id, "loss")
    assert sorted(point.step for point in history) == list(range(1, 9))
    tracked = client.get_run(run_id)
    assert tracked.info.status == "FINISHED"
    assert tracked.data.tags["mlflow.parentRunId"] == second.parent, "carried on under the run that finished it"


def test_a_found_step_points_at_the_run_that_made_it(workspace: Workspace) -> None:
    tracker = tracker_in(workspace)
    step = Step(stage=SCORE, config=StepConfig(), label="base", tags={"attn.set": "dev"})
    tracker.found(step, RECORD)
    tracker.close("FINISHED")
    client = MlflowClient(tracking_uri=tracking_uri(workspace))
    runs = client.search_runs([tracker.experiment], "tags.`attn.stage` = 'score'")
    assert len(runs) == 1
    assert runs[0].data.tags["attn.made_by"] == "abc"
    assert runs[0].data.tags["attn.cached"] == "true"
    assert runs[0].data.tags["attn.fact.bleu_signature"] == "nrefs:1"
    assert runs[0].data.metrics["bleu"] == runs[0].data.metrics["dev_bleu"] == 30.5
    assert client.get_run(tracker.parent).info.status == "FINISHED"


def test_one_measurement_is_counted_once_however_often_it_is_found(workspace: Workspace) -> None:
    tags = {"attn.set": "dev", "attn.row": "base"}
    step = Step(stage=SCORE, config=StepConfig(), label="base", tags=tags)
    other_row = Step(stage=SCORE, config=StepConfig(), label="base", tags={**tags, "attn.row": "another name"})
    for _ in range(3):
        tracker = tracker_in(workspace)
        tracker.found(step, RECORD)
        tracker.found(other_row, RECORD)
        tracker.close("FINISHED")
    client = MlflowClient(tracking_uri=tracking_uri(workspace))
    scores = client.search_runs([tracker.experiment], "tags.`attn.stage` = 'score'")
    assert sorted(run.data.tags["attn.row"] for run in scores) == ["another name", "base"]
    parents = client.search_runs([tracker.experiment], "tags.`attn.stage` = 'run'")
    assert len(parents) == 3, "every run is seen, and points at what it found"
    assert parents[0].data.tags["attn.found"] == "abc,abc"
    assert {result.when for result in query.read(client, None, None)} == {"2026-01-02 03:04"}, "when it was measured"


def test_what_a_killed_run_had_not_written_yet_is_made_up_for(workspace: Workspace) -> None:
    """Killed between the record and the last points of the curve."""
    step = Step(stage=TRAIN, config=StepConfig(), label="base")
    out = workspace.artifact(step)
    killed = tracker_in(workspace)
    run = killed.begin(step, out)
    for update in range(1, 4):
        run.log(Metrics(update, {"loss": 1 / update}))
    run.flush()
    run_id = run.id.result(timeout=60)
    killed.open.clear()  # it never comes to end it
    killed.close("FINISHED")
    points = [json.dumps({"update": update, "loss": 1 / update}) for update in range(1, 6)]
    out.write_text("curve.jsonl", "\n".join(points))

    tracker = tracker_in(workspace)
    tracker.found(step, {**RECORD, "made": {**RECORD["made"], "run_id": run_id}}, out)
    tracker.close("FINISHED")
    client = MlflowClient(tracking_uri=tracking_uri(workspace))
    assert client.get_run(run_id).info.status == "FINISHED"
    assert client.get_run(run_id).data.metrics["bleu"] == 30.5
    assert sorted(point.step for point in client.get_metric_history(run_id, "loss")) == [1, 2, 3, 4, 5]


def test_a_score_carries_every_setting_that_led_to_it() -> None:
    score = RECIPES["demo"].step().rows[0]["scores"]
    found = parameters(score)
    assert found["num_heads"] == found["model.num_heads"] == "4"
    assert found["label_smoothing"] == found["training.label_smoothing"] == "0.1"
    assert found["beam"] == found["search.beam"] == "4"
    assert found["size"] == found["vocabulary.size"] == "2000"
    assert {found["score.seed"], found["training.seed"], found["shards.seed"]} == {"12345", "1"}
    assert "seed" not in found, "a name that several sections have stands there by its full name alone"
    once = by_full_name(found)
    assert "model.num_heads" in once
    assert "num_heads" not in once


def test_a_run_says_who_made_it_where_and_with_what_and_opens_its_data(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTN_USER", "alice")
    monkeypatch.setenv("ATTN_COMMIT", "c0ffee")
    uri = tracking_uri(workspace)
    text = Step(stage=CORPORA, config=StepConfig(), label="test")
    workspace.artifact(text).write_text("pairs/a.txt", "x")
    workspace.finish(text, {"pairs": 7}, {"seconds": 0.0, "when": "now"})
    score = Step(stage=SCORE, config=ScoreConfig(), inputs={"testset": text}, label="base")
    tracker = Tracker(
        uri, "recipe", artifacts=Path(workspace.uri) / "a", command="attn run", profile="laptop", workspace=workspace
    )
    run = tracker.begin(score, workspace.artifact(score))
    run.end("FINISHED")
    tracker.close("FINISHED")
    client = MlflowClient(tracking_uri=uri)
    for run_id in (tracker.parent, run.known_id()):
        tags = client.get_run(run_id).data.tags
        assert (tags["mlflow.user"], tags["mlflow.source.git.commit"], tags["attn.profile"]) == (
            "alice",
            "c0ffee",
            "laptop",
        )
        assert tags["mlflow.source.name"] == "attn run"
        assert tags["attn.host"]
        assert ("`attn run`" if run_id == tracker.parent else score.key) in tags["mlflow.note.content"]
        assert tags["attn.version.torch"].startswith("2.")
    assert "`recipe`" in client.get_experiment(tracker.experiment).tags["mlflow.note.content"]
    (read,) = client.get_run(run.known_id()).inputs.dataset_inputs
    assert json.loads(read.dataset.profile) == {"pairs": 7}
    assert [column["name"] for column in json.loads(read.dataset.schema)["mlflow_colspec"]] == ["source", "target"]
    opened = Path(mlflow.data.get_source(read.dataset).load())
    assert (opened / "pairs" / "a.txt").read_text() == "x"
    found = client.search_runs([tracker.experiment], "params.score.seed = '12345' and params.bootstrap = '1000'")
    assert [each.info.run_id for each in found] == [run.known_id()]


def test_a_password_is_never_shown() -> None:
    assert hidden("postgresql://user:secret@host/db") == "postgresql://***@host/db"
    assert hidden("sqlite:///a/b.db") == "sqlite:///a/b.db"
