"""A damaged result is found out before anything is spent on it, is named, and can be made again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_demo import SMALL, asked, attn, result_files
from step_job import StepConfig, stage

from jobs.errors import UserError
from pipelines.cli import main
from pipelines.commands.run import make_again
from pipelines.execution.files import damage
from pipelines.execution.workspace import Workspace
from pipelines.steps.plan import plan
from pipelines.steps.step import Step

MADE = {"when": "2026-01-01T00:00:00+00:00", "seconds": 1.0}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(str(tmp_path / "workspace"))


def finished(workspace: Workspace, value: int = 1, **inputs: Step) -> Step:
    step = Step(stage=stage("test"), config=StepConfig(value=value), inputs=inputs, label=f"number {value}")
    artifact = workspace.artifact(step)
    artifact.write_text("value.txt", "12345")
    artifact.write_text("parts/a.txt", "some text")
    artifact.write_text("work/left.txt", "what a job may find again")
    artifact.write_text(".lock", "")
    workspace.finish(step, {}, MADE)
    return step


def test_a_record_lists_the_files_of_the_result(workspace: Workspace) -> None:
    step = finished(workspace)
    record = workspace.record(step)
    assert record is not None
    assert {name: listed["bytes"] for name, listed in record["files"].items()} == {"parts/a.txt": 9, "value.txt": 5}
    assert damage(record, workspace.artifact(step), deep=True) == []


@pytest.mark.parametrize(
    ("name", "text", "says", "deep"),
    [
        ("value.txt", None, "value.txt is missing", False),
        ("parts/a.txt", "some", "parts/a.txt has 4 bytes and had 9", False),
        ("value.txt", "54321", "value.txt is not what was written", True),
    ],
)
def test_damage_is_named(workspace: Workspace, name: str, text: str | None, says: str, deep: bool) -> None:
    step = finished(workspace)
    record, artifact = workspace.record(step), workspace.artifact(step)
    assert record is not None
    artifact.delete(name) if text is None else artifact.write_text(name, text)
    assert damage(record, artifact, deep=True) == [says]
    assert damage(record, artifact) == ([] if deep else [says])
    if not deep:
        planned = plan([step], workspace)
        assert [(each.state, each.why) for each in planned.steps] == [("damaged", says)]
        with pytest.raises(UserError, match=rf"{says}.*attn run demo --again {step.key}"):
            workspace.finished(step, "demo")


@pytest.mark.parametrize(
    "change",
    [{"files": [1]}, {"files": {"value.txt": 5}}, {"files": {"value.txt": {}}}, {"facts": []}, {"made": "yes"}],
)
def test_an_edited_record_is_damaged(
    change: dict[str, object], workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    step = finished(workspace)
    artifact = workspace.artifact(step)
    artifact.write_json("record.json", {**artifact.read_json("record.json"), **change})
    with pytest.raises(UserError, match="is damaged"):
        plan([step], workspace)
    assert main(["verify", "--workspace", workspace.uri]) == 1
    assert "record.json is damaged" in capsys.readouterr().out


def test_work_and_locks_are_no_part_of_a_result(workspace: Workspace) -> None:
    step = finished(workspace)
    workspace.artifact(step).delete("work/left.txt")
    workspace.artifact(step).delete(".lock")
    assert plan([step], workspace).damaged == []


def test_a_record_without_a_list_is_taken_at_its_word(workspace: Workspace) -> None:
    step = finished(workspace)
    artifact = workspace.artifact(step)
    artifact.write_json("record.json", {**artifact.read_json("record.json"), "files": None})
    artifact.delete("value.txt")
    assert plan([step], workspace).steps[0].state == "done"


def test_again_forgets_one_result_and_leaves_what_stands_on_it(workspace: Workspace) -> None:
    one = finished(workspace, 1)
    other = finished(workspace, 2, a=one)
    make_again([one.fingerprint], [other], workspace)
    assert [each.state for each in plan([other], workspace).steps] == ["to do", "done"]
    assert workspace.artifact(one).names() == [".lock"], "nor is anything of it taken up again"
    make_again(["test"], [other], workspace)
    assert [each.state for each in plan([other], workspace).steps] == ["to do", "to do"]
    with pytest.raises(UserError, match="There is no stage 'tests'"):
        make_again(["tests"], [other], workspace)


def test_again_waits_for_nobody(workspace: Workspace) -> None:
    step = finished(workspace)
    with workspace.claim(step), pytest.raises(UserError, match="another run"):
        make_again(["test"], [step], workspace)
    assert workspace.record(step) is not None


@pytest.mark.ray
@pytest.mark.slow
def test_every_kind_of_damage_is_told_before_a_run_and_mended_by_again(undisturbed: Path, tmp_path: Path) -> None:
    place = tmp_path / "workspace"
    shutil.copytree(undisturbed, place)
    for pattern, stage_name, command in [
        ("average/*/model.safetensors", "average", "translate"),
        ("vocabulary/*/subwords.model", "vocabulary", "run"),
        ("train/*/work/*/update-0000200/model.safetensors", "train", "run"),
        ("translate/*/translations.parquet", "translate", "run"),
        ("shards/*/index.parquet", "shards", "run"),
    ]:
        file = next(place.glob(pattern))
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        said = attn(command, *asked(place, SMALL), *(["A cat."] if command == "translate" else []))
        assert said.returncode == 2, said.stderr
        assert said.stderr.startswith(f"attn: {stage_name}")
        assert f"--again {stage_name}/{file.relative_to(place).parts[1]}" in said.stderr
        assert "Traceback" not in said.stderr + said.stdout
        listed = attn("verify", *asked(place, SMALL))
        assert (listed.returncode, listed.stdout.count("--again")) == (1, 1)
        file.write_bytes(whole)
    next(place.glob("average/*/model.safetensors")).unlink()
    next(place.glob("translate/*/work/*.parquet")).write_bytes(b"cut")
    mended = attn("run", *asked(place, SMALL), "--again", "average", "--again", "translate")
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert "2 steps made, 9 found done" in mended.stdout
    assert result_files(place) == result_files(undisturbed)
    assert attn("verify", "--deep", "--workspace", str(place)).returncode == 0
