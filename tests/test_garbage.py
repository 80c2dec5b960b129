"""`attn gc`: only what nothing needs is named, nothing under way is touched, and nothing goes without a yes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from small_demo import ROOT
from step_job import StepConfig, stage

from jobs.stage import Stage
from pipelines.cli import main
from pipelines.execution.garbage import LEFT_OVER, OUT_OF_DATE, UNFINISHED, UNNEEDED, remove, survey
from pipelines.execution.workspace import Workspace
from pipelines.steps.plan import plan
from pipelines.steps.step import Step

LONG_AGO = "2026-01-01T00:00:00+00:00"
PAGE = replace(stage("page"), publishes_files=True)


def step(of: str | Stage, value: int = 1, **inputs: Step) -> Step:
    return Step(stage=stage(of) if isinstance(of, str) else of, config=StepConfig(value=value), inputs=inputs)


def finish(workspace: Workspace, *steps: Step, when: str = LONG_AGO) -> None:
    for each in steps:
        workspace.artifact(each).write_text("data.txt", "x" * 1000)
        workspace.finish(each, {"value": 1}, {"when": when, "seconds": 1.0})


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(str(tmp_path))


KNOWN = step(PAGE, 1, x=step("b", 1, x=step("a", 1)))  # what a recipe without changes makes


def reasons(workspace: Workspace) -> dict[str, str]:
    return {each.key: each.why for each in survey(workspace, [KNOWN]).unneeded}


def test_what_a_page_or_a_known_recipe_stands_on_is_needed(workspace: Workspace) -> None:
    below = step("a", 2)
    middle = step("b", 2, x=below)
    page, orphan = step(PAGE, 2, x=middle), step("b", 3, x=below)
    finish(workspace, below, middle, page, orphan, KNOWN.inputs["x"].inputs["x"])  # type: ignore[union-attr]
    assert reasons(workspace) == {orphan.key: UNNEEDED}


def test_what_an_earlier_version_made_goes_with_all_that_stands_on_it(workspace: Workspace) -> None:
    old = Step(stage=replace(stage("a"), version=0), config=StepConfig())
    page = Step(stage=replace(PAGE, version=0), config=StepConfig(), inputs={"x": old})
    finish(workspace, old, page)
    assert reasons(workspace) == {old.key: OUT_OF_DATE, page.key: OUT_OF_DATE}


def test_what_is_unfinished_is_named_and_what_is_fresh_is_left_alone(workspace: Workspace) -> None:
    half, fresh = step("a", 5), step("a", 6)
    workspace.artifact(half).write_text("work/half.txt", "half")
    finish(workspace, fresh, when=datetime.now(UTC).isoformat(timespec="seconds"))
    assert reasons(workspace) == {half.key: UNFINISHED}


def test_a_stage_that_is_not_known_and_what_is_no_result_are_left_alone(workspace: Workspace) -> None:
    finish(workspace, step("of_a_later_version"))
    workspace.root.write_text("downloads/big.tgz", "x" * 50)
    found = survey(workspace, [KNOWN])
    assert found.unneeded == []
    assert found.other["downloads"] == 50


def test_what_training_left_over_goes_and_the_result_stays_whole(workspace: Workspace) -> None:
    page = KNOWN
    finish(workspace, page)
    workspace.artifact(page).write_text("work/optimizer", "y" * 500)
    (found,) = survey(workspace, [KNOWN]).unneeded
    assert (found.why, found.bytes, found.files) == (LEFT_OVER, 500, ("work/optimizer",))
    assert remove(workspace, found)
    (planned,) = [each for each in plan([page], workspace).steps if each.step is page]
    assert planned.state == "done"
    assert not workspace.artifact(page).exists("work/optimizer")


def test_what_is_removed_is_made_again(workspace: Workspace) -> None:
    orphan = step("b", 9)
    finish(workspace, orphan)
    workspace.artifact(orphan).write_text("pools/one", "1")
    (found,) = survey(workspace, [KNOWN]).unneeded
    assert remove(workspace, found)
    assert [name for name in workspace.artifact(orphan).names() if name != ".lock"] == []
    assert plan([orphan], workspace).steps[0].state == "to do"
    assert survey(workspace, [KNOWN]).results == [], "an empty directory is nothing"


@pytest.fixture
def maker(workspace: Workspace) -> Iterator[Step]:
    """Another process, which is making a step."""
    one = step("a", 7)
    workspace.artifact(one).write_text("work/half.txt", "half")
    code = (
        "import sys, time; from jobs.storage.artifacts import Artifact\n"
        f"a = Artifact({workspace.artifact(one).uri!r}); l = a.store.try_lock(a.at('.lock'))\n"
        "print('locked', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    yield one
    process.kill()
    process.wait()
    process.stdout.close()


def test_nothing_under_way_is_touched(workspace: Workspace, maker: Step) -> None:
    found = survey(workspace, [KNOWN])
    assert found.under_way == [maker.key]
    assert found.unneeded == []
    assert not remove(workspace, replace(found.results[0], why=UNFINISHED)), "not even if it began meanwhile"
    assert workspace.artifact(maker).read_text("work/half.txt") == "half"


def test_the_command_deletes_only_after_a_yes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unfinished = tmp_path / "train" / ("0" * 16)
    (unfinished / "work").mkdir(parents=True)
    (unfinished / "work" / "half").write_bytes(b"x" * 2_500_000)
    assert main(["gc", "--workspace", str(tmp_path)]) == 0
    assert "2.5 MB  unfinished" in capsys.readouterr().out
    assert (unfinished / "work").exists(), "nobody said yes"
    assert main(["gc", "--json", "--workspace", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["deleted"] == []
    assert main(["gc", "--yes", "--workspace", str(tmp_path)]) == 0
    assert "2.5 MB freed" in capsys.readouterr().out
    assert not (unfinished / "work").exists()
