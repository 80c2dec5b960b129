"""Training through Ray: the same on any number of workers, interrupted or not; what it says when it cannot go on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray.train
import torch
import torch.distributed as dist
from ray.train import Result
from small_shards import small_shards
from small_training import CONFIG, Bench, assert_same, curve, on

from jobs.configs import Resources, TrainConfig, TrainResources
from jobs.errors import UserError
from jobs.events import Metrics, Progress
from jobs.storage.artifacts import Artifact
from jobs.train import job, worker
from jobs.train.checkpoints import update_of
from jobs.train.precision import multiplies_bf16
from transformer.config import ModelConfig

ray_test = pytest.mark.ray
FIXTURES = Path(__file__).parent / "fixtures"
WORKER = "RayTrainWorker"  # as Ray titles the processes of its training workers


@pytest.fixture(scope="module")
def bench(ray_session: None, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("train"))


@ray_test
def test_one_two_and_four_workers_train_the_same_model(bench: Bench) -> None:
    """With dropout on."""
    for workers in (2, 4):
        assert_same(bench.straight(1), bench.straight(workers), exactly=False)
        assert bench.straight(workers).facts["workers"] == workers


@ray_test
def test_packed_micro_batches_train_the_same_model_on_any_number_of_workers(bench: Bench) -> None:
    """With dropout on: one by one on two workers, three at a time on one. Its dropout is not that of padded ones."""
    one_by_one = bench.train("packed-2", on(2, micro_batches_per_pass=1))
    together = bench.train("packed-1", on(1, micro_batches_per_pass=3))
    for a, b in zip(curve(one_by_one), curve(together), strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-6 if a["update"] <= 20 else 2e-4)
        assert a["gradient_norm"] == pytest.approx(b["gradient_norm"], rel=1e-5 if a["update"] <= 20 else 1e-2)
    assert curve(together)[5]["loss"] != pytest.approx(curve(bench.straight(1))[5]["loss"], rel=1e-6)
    assert curve(together)[-1]["dev_loss"] == pytest.approx(curve(bench.straight(1))[-1]["dev_loss"], rel=0.1)


@ray_test
def test_what_a_finished_run_leaves(bench: Bench) -> None:
    out = bench.straight(1)
    names = [entry["path"] for entry in out.read_json("checkpoints.json")]
    assert [entry["update"] for entry in out.read_json("checkpoints.json")] == [80, 100, 120]
    assert names == [f"work/straight-1/update-{update:07d}" for update in (80, 100, 120)]
    assert sorted(os.listdir(out.at("work/straight-1")))[-3:] == [Path(name).name for name in names]
    assert not [name for name in out.names() if name.endswith((".pkl", ".pickle", ".pt", ".pth"))]
    points = curve(out)
    assert points[-1]["loss"] < 0.8 * points[0]["loss"]
    assert [p["update"] for p in points if "dev_loss" in p] == [60, 120]
    facts = out.facts
    assert facts["precision"] == "fp32"
    assert facts["updates"] == 120
    assert facts["target_tokens"] == pytest.approx(120 * 700, rel=0.1)
    assert facts["dev_perplexity"] == points[-1]["dev_perplexity"]
    assert facts["loss"] == points[-1]["loss"]
    assert 0 < facts["flops_share"] < 1, "of what this machine can do, not of an estimate"
    assert all(isinstance(value, int | float | str) for value in facts.values())


@ray_test
def test_rank_0_alone_speaks_and_says_each_point(bench: Bench) -> None:
    """And it says what `auto` came to, which is recorded."""
    short = replace(CONFIG, training=replace(CONFIG.training, steps=12, checkpoint_every=12))
    out = bench.train("speaking", on(2, precision="auto"), short)
    precision = "bf16" if multiplies_bf16(torch.device("cpu")) else "fp32"
    assert [text.partition(":")[0] for text in bench.notes()] == [f"Training in {precision}"]
    assert out.facts["precision"] == precision
    assert [event.step for event in bench.events if isinstance(event, Metrics)] == list(range(1, 13))
    last = [event for event in bench.events if isinstance(event, Progress)][-1]
    assert (last.done, last.total, last.unit) == (12, 12, "updates")


@ray_test
def test_from_two_workers_to_one_half_way(bench: Bench) -> None:
    half = replace(CONFIG, training=replace(CONFIG.training, steps=60))
    bench.train("half", on(2), half)
    shutil.copytree(bench.out("half").at("work/half"), bench.out("changed").at("work/changed"))
    changed = bench.train("changed", on(1))
    assert bench.notes() == ["Going on from the checkpoint of update 60."]
    assert_same(bench.straight(1), changed, exactly=False)


def own_actors() -> dict[int, str]:
    """Process ids and names of the actors of this test's Ray, of no other."""
    found = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            title = Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0].decode()
            if title.startswith("ray::") and title != "ray::IDLE" and os.getpid() in ancestors(pid):
                found[pid] = title.removeprefix("ray::").partition(".")[0]
        except OSError:
            continue
    return found


def own_workers() -> list[int]:
    return [pid for pid, name in own_actors().items() if name == WORKER]


def ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found


def listed_checkpoints(run: Artifact) -> list[str]:
    """Those that Ray Train would go on from."""
    try:
        return [checkpoint.path for checkpoint, _ in Result.from_path(run.uri).best_checkpoints or ()]
    except Exception:  # there is no list yet, or it is just being written
        return []


def once_kept(run: Artifact, update: int, act: Callable[[], None], patience: float = 200) -> threading.Thread:
    """Act as soon as a checkpoint of this update, or a later one, could be gone on from."""

    def watch() -> None:
        until = time.monotonic() + patience
        while time.monotonic() < until:
            if any(update_of(name) >= update for name in listed_checkpoints(run)):
                break
            time.sleep(0.02)
        act()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


@ray_test
def test_killed_workers_cost_nothing_but_time(bench: Bench) -> None:
    """Two kills, of either rank, at two moments: the same curve and weights, bit for bit."""
    killed: list[int] = []

    def kill(which: int) -> Callable[[], None]:
        def act() -> None:
            pids = own_workers()
            killed.append(pids[which % len(pids)])
            os.kill(killed[-1], signal.SIGKILL)

        return act

    run = bench.out("killed").child("work/killed")
    once_kept(run, 20, kill(0))
    once_kept(run, 60, kill(1))
    out = bench.train("killed", on(2))
    assert len(killed) == 2
    assert len(bench.notes()) == 2
    assert_same(bench.straight(2), out, exactly=True)


@ray_test
def test_too_many_lost_workers_are_said_with_where_to_go_on(bench: Bench) -> None:
    once_kept(bench.out("lost").child("work/lost"), 20, lambda: os.kill(own_workers()[0], signal.SIGKILL))
    with pytest.raises(
        UserError, match=r"Training lost a worker 1 time.*Run the same again to go on from update \d+, or"
    ):
        bench.train("lost", on(1, max_failures=0))


DRIVER = """
import sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1])))
from jobs.cluster.connect import connect
from jobs.train import job, worker
from small_training import CONFIG, on
from jobs.storage.artifacts import Artifact
connect(cpus=2, object_store_gb=0.2)
place = Path(sys.argv[2])
job.run(CONFIG, shards=Artifact(str(place / "shards")), dev=Artifact(str(place / "dev")),
        out=Artifact(str(place / "orphan")), on=on(1), log=print)
"""


@ray_test
def test_a_killed_driver_costs_nothing_but_time(bench: Bench) -> None:
    """The whole Ray goes with it; another one goes on, bit for bit."""
    out = bench.out("orphan")
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(FIXTURES), str(bench.directory)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        once_kept(out.child("work/orphan"), 40, driver.kill).join()
        assert driver.wait(timeout=30) == -signal.SIGKILL
    finally:
        driver.kill()
    assert not out.exists("checkpoints.json")
    bench.train("orphan", on(1))
    assert len(bench.notes()) == 1
    assert_same(bench.straight(1), out, exactly=True)


@ray_test
def test_a_loss_that_is_not_finite_stops_with_a_sentence(bench: Bench) -> None:
    wild = replace(CONFIG, training=replace(CONFIG.training, learning_rate=1e30, checkpoint_every=1))
    with pytest.raises(
        UserError,
        match=r"loss of update \d+ is not a finite number in micro-batch \d+ \(pool \d, row group \d\)\. "
        r"The last good checkpoint is that of update \d+\. Lower training\.learning_rate",
    ):
        bench.train("wild", on(2), wild)


@ray_test
@pytest.mark.slow
def test_a_worker_that_fails_is_heard_though_the_others_wait_for_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0 sits in an exchange that nobody will join, in a group whose destruction never ends, as NCCL's may."""

    def stuck(settings: dict[str, Any]) -> None:
        dist.destroy_process_group = lambda *_, **__: time.sleep(3600)
        if ray.train.get_context().get_world_rank() == 1:
            worker.Worker._update = refuse  # type: ignore[method-assign]
        worker.train(settings)

    def refuse(self: worker.Worker, number: int, ahead: object) -> None:
        raise UserError("This worker cannot go on.")

    monkeypatch.setattr(job, "train", stuck)
    with pytest.raises(UserError, match=r"^This worker cannot go on\.$"):
        bench.train("stuck", on(2))
    assert bench.notes() == ["A worker cannot go on, and the others are being stopped: This worker cannot go on."]


@ray_test
def test_bad_updates_are_skipped_if_asked(bench: Bench) -> None:
    skipping = replace(CONFIG.training, learning_rate=1e30, non_finite="skip", steps=6, checkpoint_every=6)
    out = bench.train("skipping", on(1), replace(CONFIG, training=skipping))
    assert out.facts["skipped_updates"] >= 3


@ray_test
def test_too_little_memory_is_said_with_what_to_lower(bench: Bench, tmp_path: Path) -> None:
    """Weights of 40 MB, and a layer whose output for a micro-batch takes some 300 GB, which no machine hands out."""
    if Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "1":
        pytest.skip("this machine hands out memory that it does not have")
    shards = small_shards(tmp_path / "shards", micro_batches=2, pairs=20_000)
    wide = ModelConfig(layers=1, d_model=2, d_ff=1_000_000, num_heads=1)
    config = TrainConfig(model=wide, training=replace(CONFIG.training, tokens_per_update=80_000))
    with pytest.raises(
        UserError,
        match=r"Out of memory at update 1 in micro-batch 0 \(pool \d, row group \d\)\. No checkpoint yet\. "
        r"Lower shards\.micro_batch_tokens",
    ):
        job.run(config, shards=shards, dev=bench.dev, out=bench.out("wide"), on=on(1), log=bench.events.append)


@ray_test
def test_too_few_resources_are_said_before_anything_starts(bench: Bench) -> None:
    with pytest.raises(UserError, match=r"Training needs 6 CPUs and the cluster has 2"):
        bench.train("large", Resources(train=TrainResources(workers=2, cpus_per_worker=3)))
    assert not bench.out("large").exists()


@ray_test
def test_no_more_workers_than_micro_batches(bench: Bench) -> None:
    small = replace(CONFIG.training, tokens_per_update=150, steps=2)
    bench.train("small", on(2), replace(CONFIG, training=small))
    assert bench.notes() == ["An update has 1 micro-batches, so 1 of 2 workers are used."]


def test_vocabularies_must_agree(tmp_path: Path) -> None:
    shards, dev = small_shards(tmp_path / "s"), small_shards(tmp_path / "d")
    dev.write_json("about.json", {**dev.read_json("about.json"), "vocabulary_size": 99})
    with pytest.raises(UserError, match="24 subwords and the development set with 99"):
        job.run(CONFIG, shards=shards, dev=dev, out=Artifact(str(tmp_path / "o")), on=on(1), log=print)


@ray_test
def test_a_list_of_checkpoints_that_was_torn_costs_nothing(bench: Bench) -> None:
    """Ray Train's own file, as a driver that was killed while writing it leaves it. Half a checkpoint is none."""
    half = replace(CONFIG, training=replace(CONFIG.training, steps=60))
    bench.train("torn", on(2), half)
    run = bench.out("torn").child("work/torn")
    (listed,) = [name for name in run.names() if "/" not in name and name.endswith(".json")]
    run.write_text(listed, run.read_text(listed)[:40])
    run.write_text("update-0000100/model.safetensors", "half a checkpoint")
    torn = bench.train("torn", on(2))
    assert bench.notes() == ["Going on from the checkpoint of update 60."]
    assert_same(bench.straight(2), torn, exactly=True)
    assert [entry["update"] for entry in torn.read_json("checkpoints.json")] == [80, 100, 120]
    assert [update_of(name) for name in listed_checkpoints(run)] == [80, 100, 120], "Ray Train has a list again"


@ray_test
def test_a_whole_checkpoint_that_ray_train_never_heard_of_is_gone_on_from(bench: Bench) -> None:
    """As when a worker is lost between writing a checkpoint and its report's arrival."""
    bench.train("unheard", on(2), replace(CONFIG, training=replace(CONFIG.training, steps=60)))
    straight = bench.straight(2)
    (run_of_straight,) = Path(straight.uri, "work").iterdir()
    later = Path(bench.out("unheard").uri, "work", "unheard", "update-0000080")
    shutil.copytree(run_of_straight / "update-0000080", later)
    went_on = bench.train("unheard", on(2))
    assert bench.notes() == ["Going on from the checkpoint of update 80."]
    assert_same(straight, went_on, exactly=True)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (["Training failed due to worker errors:\n", "ValueError: no such pool"], "ValueError: no such pool"),
        (["[Rank 0]:\nTraceback:\n  file\nRuntimeError: broken pipe\n"], "RuntimeError: broken pipe"),
        (
            ["Training failed due to worker errors:\n"],
            "RuntimeError, without a word of why; it may have run out of memory",
        ),
        ([""], "RuntimeError, without a word of why; it may have run out of memory"),
    ],
)
def test_a_worker_s_last_words_are_never_a_colon(said: list[str], words: str) -> None:
    assert job.last_words([RuntimeError(text) for text in said]) == words
