"""A workspace on an object store, against a real S3 protocol server on loopback."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from step_job import StepConfig, stage
from survival_cluster import wait_for
from test_runner import make, step

from jobs.errors import UserError
from jobs.storage import leases, object_store
from jobs.storage.artifacts import Artifact
from pipelines.execution.workspace import Workspace
from pipelines.steps.plan import plan
from pipelines.steps.step import Step

pytestmark = pytest.mark.slow


def test_an_artifact_on_s3_has_the_same_verbs(bucket: str, tmp_path: Path) -> None:
    artifact = Artifact(bucket).child("stage/abc")
    assert not artifact.exists("a.txt")
    artifact.write_text("a.txt", "one")
    artifact.write_json("deep/b.json", {"x": 1})
    assert artifact.read_text("a.txt") == "one"
    assert artifact.read_json("deep/b.json") == {"x": 1}
    assert artifact.names() == ["a.txt", "deep/b.json"]
    with artifact.writing("c.bin") as draft:
        draft.write_bytes(b"\x00" * 10_000_000)
    with artifact.local("c.bin") as copy:
        assert copy.stat().st_size == 10_000_000
    artifact.delete("deep")
    assert artifact.names() == ["a.txt", "c.bin"]
    with pytest.raises(FileNotFoundError):
        artifact.read_bytes("absent")


def test_a_writer_that_fails_leaves_nothing(bucket: str) -> None:
    artifact = Artifact(bucket).child("stage/torn")

    def fail() -> None:
        with artifact.writing("c.bin") as draft:
            draft.write_bytes(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert artifact.names() == []


def test_a_plan_and_a_record_on_s3(bucket: str) -> None:
    workspace = Workspace(bucket)
    workspace.check_writable()
    step = Step(stage=stage("a"), config=StepConfig())
    assert plan([step], workspace).steps[0].state == "to do"
    workspace.artifact(step).write_text("stale", "x")
    workspace.clear_leftovers(step)
    assert workspace.artifact(step).names() == []
    workspace.finish(step, {"value": 1}, {"when": "now", "seconds": 0.0})
    assert plan([step], workspace).steps[0].state == "done"
    other = Step(stage=stage("a"), config=StepConfig(value=2))
    assert plan([other], workspace).steps[0].why == "value default -> 2"


def test_one_holder_at_a_time_on_s3(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(bucket)
    step = Step(stage=stage("a"), config=StepConfig(value=3))
    with workspace.claim(step) as first:
        assert first
        with workspace.claim(step) as second:
            assert not second
    with workspace.claim(step) as third:
        assert third, "released"
        monkeypatch.setattr(leases, "STALE_S", -1.0)
        with workspace.claim(step) as heir:
            assert heir, "a lock that nobody renews is no claim"
            assert heir.held()
            assert third is not None
            assert not third.held(), "and whose it was is told so"
        assert third.lost


def test_of_many_that_ask_at_once_one_holds_the_lock(bucket: str) -> None:
    at = Artifact(bucket).at("many/.lock")
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            found = list(pool.map(lambda _: Artifact(bucket).store.try_lock(at), range(8)))
            (holder,) = [lock for lock in found if lock is not None]
            holder.release()


PAUSED = """
import sys
sys.path[:0] = [{tests!r}, {tests!r} + "/fixtures"]
from jobs.storage import leases
leases.HEARTBEAT_S, leases.STALE_S = 0.3, 3.0
from test_runner import *
outcome, _ = make(Workspace({workspace!r}), step("slow", StepConfig(seconds=6, tally={tally!r})))
print("ended", outcome.made, outcome.failures, flush=True)
"""


def test_a_holder_that_stood_still_is_never_one_of_two(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGSTOP in the middle of a step, for longer than the lock lives; then it goes on, while its heir is at work."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "child").mkdir()  # with MLflow's database of its own: who stands still may hold SQLite's lock
    tally = tmp_path / "tally"
    code = PAUSED.format(tests=str(Path(__file__).parent), workspace=bucket, tally=str(tally))
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, cwd=tmp_path / "child", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        try:
            wait_for(tally.exists, "the step to begin")
            child.send_signal(signal.SIGSTOP)
            monkeypatch.setattr(leases, "HEARTBEAT_S", 0.3)
            monkeypatch.setattr(leases, "STALE_S", 3.0)
            workspace, same = Workspace(bucket), step("slow", StepConfig(seconds=6, tally=str(tally)))

            def go_on() -> None:
                wait_for(lambda: tally.read_text().count("start") == 2, "the heir to begin")
                child.send_signal(signal.SIGCONT)

            waker = threading.Thread(target=go_on, daemon=True)
            waker.start()
            outcome, _ = make(workspace, same)
            waker.join()
            said = child.communicate(timeout=60)[0]
        finally:
            child.kill()
    assert outcome.made == [same.key]
    assert "ended [] {}" in said, "it found the step made by its heir, and failed at nothing"
    assert tally.read_text().count("start") == 2
    record = workspace.record(same)
    assert record == outcome.records[same.key], "the record is the heir's alone"


def test_a_store_that_is_not_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "TRIES", 1)
    with pytest.raises(UserError, match="cannot be written"):
        Workspace("s3://nowhere/x?endpoint_override=127.0.0.1:9&scheme=http&region=us-east-1").check_writable()
