"""Everything that a run stands on is lost in the middle of it: it goes on by itself, or the same command carries on.

Real nodes of real processes (survival_cluster.py), a real MLflow server, a real S3 protocol server behind a proxy that
stumbles, a real disk that is full. What comes out is what comes out of a run that nobody disturbs. What takes longest,
here and in test_soak.py, is for `make soak`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster_training import config
from faulty_store import in_front_of
from mlflow.tracking import MlflowClient
from small_demo import SMALL, asked, result_files
from small_shards import small_shards
from small_training import Bench, assert_same, curve, on
from step_job import StepConfig
from survival_cluster import (
    SHARDING,
    TRAINING,
    TRANSLATING,
    Cluster,
    cluster_of,
    end,
    kept,
    wait_for,
)
from test_runner import Recorder, step
from tracking_server import TrackingServer, serving

from jobs.configs import Resources
from jobs.storage import leases, object_store
from jobs.storage.artifacts import Artifact
from pipelines.execution.runner import Outcome, Runner, sentence_of
from pipelines.execution.workspace import Workspace
from pipelines.steps.plan import plan
from pipelines.steps.step import Step
from pipelines.tracking import background
from pipelines.tracking.writer import Tracker

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with cluster_of(3) as made:
        yield made


@pytest.fixture(scope="module")
def bench(ray_session: None, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("survival"))


# --- workers and nodes -----------------------------------------------------------------------------------------------


def test_two_users_ask_at_once_and_lose_workers_and_a_node(cluster: Cluster, undisturbed: Path, tmp_path: Path) -> None:
    """A process in sharding, a node in training, an actor in translating: nobody has to do anything."""
    words = ["submit", *asked(tmp_path, SMALL), "--address", cluster.url, "--follow"]
    users = [cluster.attn(*words) for _ in range(2)]
    cluster.kill_worker(SHARDING)
    wait_for(lambda: kept(tmp_path)["update"] >= 5, "a checkpoint")
    cluster.lose(cluster.wait_until_working(TRAINING))
    cluster.kill_worker(TRANSLATING)
    said = [end(user) for user in users]
    assert all("11 steps made, 0 found done" in each for each in said), said
    assert all("Going on from the checkpoint of update" in each for each in said)
    assert sorted("Already under way" in each for each in said) == [False, True], "both watched the same job"
    assert result_files(tmp_path) == result_files(undisturbed)


@pytest.mark.soak
def test_a_node_joins_and_a_node_leaves_in_the_middle_of_training(
    cluster: Cluster, bench: Bench, tmp_path: Path
) -> None:
    """It is used, and done without; the loss knows nothing of either."""
    small_shards(tmp_path / "shards", pairs=40)
    small_shards(tmp_path / "dev", micro_batches=3, seed=9)
    script, nodes = str(Path(__file__).parent / "fixtures" / "cluster_training.py"), len(cluster.nodes)
    run = [sys.executable, script, cluster.address, str(tmp_path), "elastic", "1000000", "1", str(nodes + 1)]
    training = cluster.run(run)

    def kept_by(workers: int, after: int = 0) -> int:
        def reached() -> bool:
            assert training.poll() is None, training.communicate()[0]
            standing = kept(tmp_path, "elastic")
            return bool(standing["world_size"] == workers and standing["update"] > after)

        wait_for(reached, f"a checkpoint of {workers} workers")
        return int(kept(tmp_path, "elastic")["update"])

    before = kept_by(nodes)
    cluster.join()
    more = kept_by(nodes + 1, after=before)
    cluster.lose(cluster.wait_until_working(TRAINING))
    kept_by(nodes, after=more)
    training.kill()
    training.wait()

    elastic = sorted((tmp_path / "elastic" / "work" / "elastic").glob("update-*/state.json"))[-1].parent
    points = [json.loads(line) for line in (elastic / "curve.jsonl").read_text().splitlines()]
    straight = curve(bench.train("as-elastic", on(1), config(points[-1]["update"])))
    assert [point["update"] for point in points] == [point["update"] for point in straight]
    assert [point["loss"] for point in points] == pytest.approx([point["loss"] for point in straight], rel=2e-4)


# --- the tracking server ---------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TrackingServer]:
    with serving(tmp_path) as made:
        yield made


@pytest.mark.soak
def test_the_tracking_server_goes_away_in_training_and_no_point_is_lost(
    server: TrackingServer, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, steps = tmp_path / "w", 300
    for stage in ("corpora", "vocabulary", "shards"):
        shutil.copytree(undisturbed / stage, workspace / stage)
    longer = [*SMALL, f"training.steps={steps}", "training.checkpoint_every=10"]
    command = [sys.executable, "-u", "-m", "pipelines.cli", "run", *asked(workspace, longer), "--until", "train"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    run = subprocess.Popen(command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    wait_for(lambda: kept(workspace)["update"] >= 30, "a checkpoint")
    server.stop()
    wait_for(lambda: kept(workspace)["update"] >= 200, "training to go on")
    server.start()
    said = end(run)
    assert "1 steps made, 5 found done" in said
    assert "lost" not in said
    client = MlflowClient(tracking_uri=server.url)
    runs = client.search_runs([client.get_experiment_by_name("demo").experiment_id], "tags.`attn.stage` = 'train'")
    assert [run.info.status for run in runs] == ["FINISHED"]
    for name in ("loss", "learning_rate", "gradient_norm"):
        points = client.get_metric_history(runs[0].info.run_id, name)
        assert sorted(point.step for point in points) == [1, *range(5, steps + 1, 5)], name


# --- the object store ------------------------------------------------------------------------------------------------


def behind_proxy(bucket: str, port: int) -> str:
    address, _, options = bucket.partition("?")
    return f"{address}?endpoint_override=127.0.0.1:{port}&{options.partition('&')[2]}"


def server_of(bucket: str) -> tuple[str, int]:
    host, _, port = bucket.partition("endpoint_override=")[2].partition("&")[0].partition(":")
    return host, int(port)


@pytest.mark.soak
def test_a_store_that_stumbles_and_is_slow_trains_the_same_model(bench: Bench, bucket: str) -> None:
    """One request of four fails, with a 500, a 503 or a cut line; each takes its time."""
    with in_front_of(*server_of(bucket)) as (store, port):
        place = Artifact(behind_proxy(bucket, port))
        for name in ("shards", "dev"):
            local = Artifact(str(bench.directory / name))
            for file in local.names():
                place.child(name).publish(Path(local.at(file)), file)
        store.every, store.delay = 4, 0.02
        bench.shards, local_shards = place.child("shards"), bench.shards
        bench.dev, local_dev = place.child("dev"), bench.dev
        try:
            out = bench.train_at(place.child("trained"), on(1))
        finally:
            bench.shards, bench.dev = local_shards, local_dev
        store.every, store.delay = 0, 0.0
        assert store.faults > 20
        assert curve(out) == curve(bench.straight(1))
        last = out.read_json("checkpoints.json")[-1]["path"] + "/model.safetensors"
        straight = bench.straight(1)
        assert out.read_bytes(last) == straight.read_bytes(
            straight.read_json("checkpoints.json")[-1]["path"] + "/model.safetensors"
        )


def made(workspace: Workspace, target: Step) -> Outcome:
    """Of a run whose tracking may lose something too."""
    tracker = Tracker(f"sqlite:///{Path.cwd()}/mlflow.db", "test", artifacts=Path.cwd(), command="test")
    outcome = Runner(workspace, Resources(), tracker, Recorder(), {"CPU": 4}).run(plan([target], workspace))
    tracker.close("FINISHED")
    return outcome


def test_a_store_that_stays_away_is_a_sentence_and_leaves_no_result(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, value in ((object_store, "TRIES", 2), (object_store, "ATTEMPTS", 2), (leases, "STALE_S", 1.0)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(background, "PATIENCE_S", 2.0)  # the run's name in MLflow is kept in the store
    monkeypatch.chdir(tmp_path)  # MLflow's database
    asked_for = step("down", StepConfig(seconds=3.0))
    with in_front_of(*server_of(bucket)) as (store, port):
        workspace = Workspace(behind_proxy(bucket, port))
        begun = Workspace(bucket).artifact(asked_for)  # the same place, not through the proxy

        def go_down() -> None:
            wait_for(lambda: begun.exists("half.txt"), "the step to begin")
            store.down = True

        threading.Thread(target=go_down, daemon=True).start()
        outcome = made(workspace, asked_for)
        store.down = False
        (sentence,) = outcome.failures.values()
        assert sentence.startswith("The object store would not, however often it was asked:")
        assert sentence.endswith("Nothing is lost: run the same command again when it is well.")
        assert workspace.record(asked_for) is None
        again = made(workspace, asked_for)
        assert again.made == [asked_for.key], "what was there was not taken for a whole result"


# --- the disk --------------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(at: Path, size: str) -> Iterator[None]:
    at.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(at)], capture_output=True).returncode:
        pytest.skip("a disk of our own takes a mount, and we may not mount here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


def test_a_full_disk_stops_training_with_a_sentence_and_it_goes_on_when_there_is_room(bench: Bench) -> None:
    place = bench.directory / "full"
    with small_disk(place, "200k"):
        with pytest.raises(RuntimeError) as caught:
            bench.train("full", on(1, max_failures=1))
        assert sentence_of(caught.value).startswith("The disk is full")
        assert not bench.out("full").exists("checkpoints.json")
        subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
        assert_same(bench.straight(1), bench.train("full", on(1)), exactly=True)


def test_a_full_disk_tears_no_file(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k"):
        place = Artifact(str(tmp_path / "disk"))
        place.write_text("record.json", "old")
        with pytest.raises(OSError, match="No space left"):
            place.write_bytes("record.json", b"x" * 100_000)
        assert place.read_text("record.json") == "old"
        assert [file.name for file in (tmp_path / "disk").iterdir()] == ["record.json"]
