"""What takes long: every kind of loss in every stage, and dozens of kills over one training. `make soak`."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_demo import SMALL, asked, attn, result_files
from survival_cluster import (
    FETCHING,
    RAY,
    SHARDING,
    TRAINING,
    TRANSLATING,
    Cluster,
    cluster_of,
    end,
    kept,
    send,
    wait_for,
)

pytestmark = [pytest.mark.soak, pytest.mark.timeout(5400)]
STAGES = (FETCHING, SHARDING, TRAINING, TRANSLATING)
LONGER = [*SMALL, "corpus.train_pairs=60000", "corpus.test_pairs=400", "training.steps=300"]  # each stage takes a while
KILLS = int(os.environ.get("ATTN_SOAK_KILLS", "50"))
UPDATES_PER_KILL = 30
MANY_LOSSES = "[train]\nmax_failures = 1000\n"


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workspace = tmp_path_factory.mktemp("reference")
    done = attn("run", *asked(workspace, LONGER))
    assert done.returncode == 0, done.stdout + done.stderr
    return workspace


def in_the_middle_of(stage: str, cluster: Cluster, workspace: Path, run: subprocess.Popen[str]) -> int:
    """A process that is at it, stopped."""
    if stage == TRAINING:
        wait_for(lambda: run.poll() is not None or kept(workspace)["update"] >= 10, "a checkpoint")
    return cluster.catch(stage, run)


# --- every loss in every stage ---------------------------------------------------------------------------------------


def test_a_worker_is_lost_in_every_stage(reference: Path, tmp_path: Path) -> None:
    with cluster_of(2) as cluster:
        run = cluster.attn("submit", *asked(tmp_path, LONGER), "--address", cluster.url, "--follow")
        for stage in STAGES:
            send(in_the_middle_of(stage, cluster, tmp_path, run), signal.SIGKILL)
        assert "11 steps made, 0 found done" in end(run)
    assert result_files(tmp_path) == result_files(reference)


def test_a_node_is_lost_in_every_stage(reference: Path, tmp_path: Path) -> None:
    """And another one comes each time, in its own time."""
    with cluster_of(3) as cluster:
        run = cluster.attn("submit", *asked(tmp_path, LONGER), "--address", cluster.url, "--follow")
        for stage in STAGES:
            cluster.lose(cluster.node_of(in_the_middle_of(stage, cluster, tmp_path, run)))
            threading.Thread(target=cluster.join, daemon=True).start()
        assert "11 steps made, 0 found done" in end(run)
    assert result_files(tmp_path) == result_files(reference)


def test_the_node_of_the_driver_is_lost_in_every_stage(reference: Path, tmp_path: Path) -> None:
    """The job is lost with it; the same command carries on."""
    with cluster_of(2) as cluster:
        job = [RAY, "job", "submit", f"--address={cluster.url}", "--entrypoint-resources", '{"driver": 1}', "--"]
        command = [*job, sys.executable, "-m", "pipelines.cli", "run", *asked(tmp_path, LONGER)]
        for stage in STAGES:
            node = cluster.join(cpus=0, driver=1)
            run = cluster.run(command)
            send(in_the_middle_of(stage, cluster, tmp_path, run), signal.SIGCONT)
            cluster.lose(node)
            said, _ = run.communicate(timeout=300)
            assert "succeeded" not in said
        cluster.join(cpus=0, driver=1)
        assert "succeeded" in end(cluster.run(command))
    assert result_files(tmp_path) == result_files(reference)


def test_the_head_is_lost_in_every_stage(reference: Path, tmp_path: Path) -> None:
    """Its nodes end in their own time, and meanwhile still write where another cluster already carries on."""
    clusters: list[Cluster] = []

    def submitted() -> subprocess.Popen[str]:
        clusters.append(Cluster())
        clusters[-1].start(2)
        words = [*asked(tmp_path, LONGER), "--address", clusters[-1].url, "--follow"]
        return clusters[-1].attn("submit", *words)

    try:
        for stage in STAGES:
            watching = submitted()
            send(in_the_middle_of(stage, clusters[-1], tmp_path, watching), signal.SIGCONT)
            head = clusters[-1].head
            assert head is not None
            head.kill()
            watching.kill()
            watching.communicate()
        assert "steps made" in end(submitted())
    finally:
        for cluster in clusters:
            cluster.stop()
    assert result_files(tmp_path) == result_files(reference)


# --- dozens of kills -------------------------------------------------------------------------------------------------


def trained(workspace: Path) -> tuple[list[bytes], list[dict[str, float]]]:
    """The weights that a training kept, and its curve without what the clock has to do with."""
    (run,) = workspace.glob("train/*")
    names = [entry["path"] for entry in json.loads((run / "checkpoints.json").read_text())]
    points = [json.loads(line) for line in (run / "curve.jsonl").read_text().splitlines()]
    timed = ("tokens_per_second", "flops_share")
    return [(run / name / "model.safetensors").read_bytes() for name in names], [
        {name: value for name, value in point.items() if name not in timed} for point in points
    ]


class Driver:
    """The same command, again and again until it is through."""

    def __init__(self, start: Callable[[], subprocess.Popen[str]]) -> None:
        self.start, self.process = start, start()

    def still_at_it(self) -> bool:
        if self.process.poll() not in (None, 0):
            self.process = self.start()
        return self.process.poll() is None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def nodes() -> Iterator[Cluster]:
    with cluster_of(3) as cluster:
        yield cluster


def test_dozens_of_kills_over_one_training(nodes: Cluster, tmp_path: Path) -> None:
    """Workers, nodes and drivers, at random moments, in whatever they do just then: the same weights, bit for bit."""
    steps = UPDATES_PER_KILL * KILLS + 300
    settings = [*SMALL, f"training.steps={steps}", "training.dev_every=500"]
    (tmp_path / "profile.toml").write_text(MANY_LOSSES)
    on = ["--address", nodes.address, "--until", "train", "--on", str(tmp_path / "profile.toml")]
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    end(nodes.attn("run", *asked(straight, settings), *on), seconds=3000)

    rng, count = random.Random(1), dict.fromkeys(("worker", "node", "driver"), 0)
    driver = Driver(lambda: nodes.attn("run", *asked(killed, settings), *on))
    for update in sorted(rng.sample(range(5, UPDATES_PER_KILL * KILLS), KILLS)):
        wait_for(lambda: driver.still_at_it() and kept(killed)["update"] >= update, f"update {update}")  # noqa: B023
        time.sleep(rng.uniform(0, 3))  # not to wait for anything: a random moment is what is wanted
        victim = rng.choices(list(count), weights=(6, 2, 2))[0]
        if victim == "driver":
            driver.kill()
        elif victim == "node":
            nodes.lose(rng.choice(nodes.nodes))
            nodes.join()
        else:
            nodes.kill_worker(TRAINING)
        count[victim] += 1
        print(f"{sum(count.values())}: {victim}, at update {kept(killed)['update']} of {steps}", flush=True)
    wait_for(lambda: not driver.still_at_it(), "the end", seconds=600)
    print(f"survived {count}")
    assert sum(count.values()) == KILLS
    assert driver.process.returncode == 0
    assert trained(killed) == trained(straight)
