"""Nodes that come and go as Ray knows them: brought by its autoscaler when work waits, taken away with notice."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from small_shards import small_shards
from survival_cluster import RAY, Cluster, Node, cluster_of, wait_for

pytestmark = [pytest.mark.ray, pytest.mark.slow]
DRIVER = Path(__file__).parent / "fixtures" / "elastic_driver.py"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    small_shards(tmp_path / "shards", pairs=40)
    small_shards(tmp_path / "dev", micro_batches=3, seed=9)
    return tmp_path


def driver(cluster: Cluster, place: Path, workers: int, updates: int) -> subprocess.Popen[str]:
    cluster_environment = cluster.environment | {"RAY_ADDRESS": cluster.address, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-u", str(DRIVER), str(place), str(workers), str(updates)]
    root = Path(__file__).parents[1]
    said = (place / "said").open("w")
    return subprocess.Popen(
        command, env=cluster_environment | {"PYTHONPATH": str(root)}, cwd=root, stdout=said, stderr=said, text=True
    )


def said(place: Path) -> str:
    return (place / "said").read_text()


def finish(run: subprocess.Popen[str], place: Path) -> str:
    try:
        assert run.wait(timeout=400) == 0, said(place)
    finally:
        run.kill()
    return said(place)


def ray_nodes(cluster: Cluster) -> list[dict[str, Any]]:
    command = [RAY, "list", "nodes", "--format=json", f"--address={cluster.url}"]
    done = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, timeout=60)
    found: list[dict[str, Any]] = json.loads(done.stdout) if done.returncode == 0 else []
    return found


def test_a_node_that_is_taken_away_with_notice_leaves_a_checkpoint(place: Path) -> None:
    """By Ray's own command, as a cloud's notice reaches it. No checkpoint is due before the end of this training."""
    with cluster_of(2) as cluster:
        run = driver(cluster, place, workers=2, updates=3_500)
        wait_for(lambda: "at update" in said(place) and not said(place).rstrip().endswith("update 0"), "updates", 200)
        working = [node for node in cluster.nodes if node.workers("ray::RayTrainWorker")]
        leaving = next(each for each in ray_nodes(cluster) if not each["is_head_node"] and each["state"] == "ALIVE")
        command = [
            RAY, "drain-node", f"--address={cluster.address}", f"--node-id={leaving['node_id']}",
            "--reason=DRAIN_NODE_REASON_PREEMPTION", "--reason-message=spot", "--deadline-remaining-seconds=20",
        ]  # fmt: skip
        assert len(working) == 2
        subprocess.run(command, env=cluster.environment, check=True, capture_output=True, timeout=60)
        wait_for(lambda: "A node is about to be taken away: a checkpoint of update" in said(place), "a checkpoint", 120)
        found = re.search(r"a checkpoint of update ([\d,]+) is saved", said(place))
        assert found
        cluster.join()
        everything = finish(run, place)
    assert f"Going on from the checkpoint of update {found[1]}." in everything
    assert "trained 3500 updates on 2 workers" in everything
    kept = json.loads((place / "out" / "checkpoints.json").read_text())
    assert [entry["update"] for entry in kept] == [3_500], "one out of turn is not averaged"


class Autoscaling(Cluster):
    """A head without CPUs whose autoscaler starts nodes of one CPU on this machine: Ray's fake provider of nodes.

    Ray's own `AutoscalingCluster` would be less to write; it ends every Ray on the machine first (`ray stop --force`).
    """

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}

    def _launch(self, *arguments: str) -> Node:
        worker = {"resources": {"CPU": 1}, "node_config": {}, "min_workers": 0, "max_workers": 2}
        head = {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0}
        address = f"{ray.util.get_node_ip_address()}:{self.port}"
        switches = dict.fromkeys(("use_node_id_as_ip", "disable_node_updaters", "disable_launch_config_check"), True)
        commands = ("initialization", "setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray")
        config = {
            "cluster_name": "attn-test", "max_workers": 2, "idle_timeout_minutes": 0.2, "upscaling_speed": 10,
            "provider": {"type": "fake_multinode", "gcs_address": address, **switches}, "docker": {}, "auth": {},
            "available_node_types": {"worker": worker, "ray.head.default": head}, "head_node_type": "ray.head.default",
            "file_mounts": {}, "cluster_synced_files": [], "file_mounts_sync_continuously": False,
        } | {f"{name}_commands": [] for name in commands}  # fmt: skip
        file = self.directory / "autoscaling.json"
        file.write_text(json.dumps(config))
        return super()._launch(*arguments, f"--autoscaling-config={file}")


@pytest.fixture
def autoscaling() -> Iterator[Autoscaling]:
    cluster = Autoscaling()
    try:
        cluster.start(0)
        yield cluster
    finally:
        cluster.stop()


def test_training_brings_nodes_and_idleness_removes_them(autoscaling: Autoscaling, place: Path) -> None:
    def states() -> list[str]:
        return [each["state"] for each in ray_nodes(autoscaling) if not each["is_head_node"]]

    assert states() == []
    everything = finish(driver(autoscaling, place, workers=2, updates=100), place)
    assert re.search(r"Training needs 2 CPUs and the cluster has 0: waiting for nodes, which .* autoscaler", everything)
    assert "trained 100 updates on 2 workers" in everything
    assert len(states()) == 2
    wait_for(lambda: states() == ["DEAD", "DEAD"], "the nodes to go", 180)
