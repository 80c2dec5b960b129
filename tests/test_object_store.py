"""A workspace on an object store, against a real S3 protocol server on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest
from step_job import StepConfig, stage

from jobs.errors import UserError
from jobs.storage import object_store
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
        monkeypatch.setattr(object_store, "STALE_S", -1.0)
        with workspace.claim(step) as heir:
            assert heir, "a flag that nobody renews is no claim"


def test_a_store_that_is_not_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "TRIES", 1)
    with pytest.raises(UserError, match="cannot be written"):
        Workspace("s3://nowhere/x?endpoint_override=127.0.0.1:9&scheme=http&region=us-east-1").check_writable()
