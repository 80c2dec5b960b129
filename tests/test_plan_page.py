"""A plan that a person can read: a large recipe summed up, one line for each step, and no dump of data."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from pipelines.cli import main
from pipelines.execution.workspace import Workspace
from pipelines.notebook import plan
from pipelines.recipes.recipes import RECIPES
from pipelines.steps.plan import in_order, in_short
from pipelines.terminal.plan_page import by_stage, by_step


def made_a_demo(workspace: Workspace) -> None:
    for step in in_order([RECIPES["demo"].step()]):
        workspace.finish(step, {"pairs": 1}, {"when": "2026-01-01T10:20:30+00:00", "seconds": 1.0})


def drawn(table: object, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("width", [80, 130])
def test_why_is_one_line_and_never_a_dump(width: int, tmp_path: Path) -> None:
    made_a_demo(Workspace(str(tmp_path)))
    planned = plan("base-en-de", workspace=str(tmp_path))
    lines = drawn(by_step(planned, {}, 8), width)
    assert len(lines) == 1 + len(planned.steps)
    assert max(map(len, lines)) <= width
    assert all(len(each.why) < 150 and "{" not in each.why for each in planned.steps)
    assert [line.split()[0] for line in lines[1:]] == [each.step.stage.name for each in planned.steps]
    assert all(each.step.fingerprint[:8] in line for each, line in zip(planned.steps, lines[1:], strict=True))
    assert "DemoCorpus -> ArchivesCorpus" in lines[1]


def test_a_large_recipe_is_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "table3", "--workspace", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) < 20
    trained = next(line for line in said.splitlines() if line.startswith("train"))
    assert trained.split()[1] == "20"
    assert "C/N=2" in said
    assert " days" in said
    assert main(["plan", "table3", "--workspace", str(tmp_path), "--steps"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > len(in_order([RECIPES["table3"].step()]))


def test_the_sums_are_those_of_the_steps(tmp_path: Path) -> None:
    planned = plan("table3", workspace=str(tmp_path))
    counts = {line.split()[0]: int(line.split()[1]) for line in drawn(by_stage(planned, {}), 120)[1:]}
    assert sum(counts.values()) == len(planned.steps)


def test_values_are_said_in_a_few_words() -> None:
    assert in_short([{"name": "a", "sha256": "0" * 64}, {"name": "b"}, 3, 4]) == "a,b and 2 more"
    assert in_short({"class": "X", "sha256": "0" * 64}) == "X"
    assert len(in_short("0" * 64)) < 40
    assert in_short(0.1) == "0.1"
