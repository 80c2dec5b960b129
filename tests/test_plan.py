"""Law 4: a plan before a GPU-second, with the reason for every step."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from recipe_settings import NEEDS_FILES
from step_job import Inner, StepConfig, stage

from jobs.errors import UserError
from pipelines.execution.workspace import Workspace
from pipelines.recipes.recipes import RECIPES, Choice
from pipelines.recipes.table3 import TABLE_3
from pipelines.steps.plan import in_order, plan, until
from pipelines.steps.step import Step
from transformer import paper_figures


def step(name: str, config: StepConfig | None = None, **inputs: Step) -> Step:
    return Step(stage=stage(name), config=config or StepConfig(), inputs=inputs)


def finish(workspace: Workspace, *steps: Step) -> None:
    for each in steps:
        workspace.finish(each, {"value": 1}, {"when": "2026-01-01T00:00:00", "seconds": 1.0})


def test_inputs_come_first_and_shared_steps_once() -> None:
    shared = step("a")
    left, right = step("b", StepConfig(value=2), x=shared), step("b", StepConfig(value=3), x=shared)
    last = step("c", None, left=left, right=right)
    order = [each.key for each in in_order([last])]
    assert order.index(shared.key) < min(order.index(left.key), order.index(right.key))
    assert order[-1] == last.key
    assert len(order) == 4


def test_the_plan_says_what_differs(tmp_path: Path) -> None:
    workspace = Workspace(str(tmp_path))
    first = step("a")
    second = step("b", None, x=first)
    finish(workspace, first, second)
    assert [each.state for each in plan([second], workspace).steps] == ["done", "done"]

    changed = step("a", StepConfig(value=5, inner=Inner(width=9)))
    after = step("b", None, x=changed)
    planned = plan([after], workspace).steps
    assert [each.state for each in planned] == ["to do", "to do"]
    assert "value default -> 5" in planned[0].why
    assert "inner.width default -> 9" in planned[0].why
    assert planned[1].why == "follows a"
    raised = plan([replace(first, stage=replace(first.stage, version=2))], workspace).steps[0]
    assert raised.why == "version 1 -> 2"
    assert plan([step("z")], workspace).steps[0].why == "never made"


def test_an_unfinished_result_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    workspace = Workspace(str(tmp_path))
    half = step("a")
    workspace.artifact(half).write_text("data.txt", "half")
    assert plan([half], workspace).steps[0].state == "to do"


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"stage": "a"}', b"\xff\xfe"])
def test_a_damaged_record_is_refused_with_a_sentence(tmp_path: Path, damage: bytes) -> None:
    workspace = Workspace(str(tmp_path))
    one = step("a")
    finish(workspace, one)
    workspace.artifact(one).write_bytes("record.json", damage)
    with pytest.raises(UserError, match="is damaged"):
        plan([one], workspace)


def test_a_record_in_the_wrong_place_is_damaged(tmp_path: Path) -> None:
    workspace = Workspace(str(tmp_path))
    one, two = step("a"), step("a", StepConfig(value=2))
    finish(workspace, one)
    workspace.artifact(two).write_bytes("record.json", workspace.artifact(one).read_bytes("record.json"))
    with pytest.raises(UserError, match="is damaged"):
        workspace.record(two)


@pytest.mark.parametrize("name", [name for name in RECIPES if name not in NEEDS_FILES])
def test_every_recipe_plans(name: str, tmp_path: Path) -> None:
    planned = plan([RECIPES[name].step()], Workspace(str(tmp_path)))
    assert planned.steps[-1].step.stage.name == "report"
    assert len(planned.to_do) == len(planned.steps)


def test_files_says_what_it_needs() -> None:
    with pytest.raises(UserError, match=r"--set corpus\.train_source=FILE"):
        RECIPES["files"].step()


@pytest.mark.parametrize("name", ["table3", "table3-demo"])
def test_the_rows_of_table_3_share_their_data(name: str) -> None:
    steps = in_order([RECIPES[name].step()])
    by_stage = {
        name: [each for each in steps if each.stage.name == name] for name in ("train", "score", "shards", "corpora")
    }
    rows = list(dict.fromkeys(paper_figures.plain_name(each.label) for each in by_stage["train"]))
    assert rows == list(TABLE_3) == list(paper_figures.TABLE_3)
    assert len(by_stage["score"]) == len(by_stage["train"]) == len(TABLE_3) + RECIPES[name].base_seeds - 1
    assert [each.label for each in by_stage["shards"]] == ["train", "dev"] or len(by_stage["shards"]) == 2
    assert len(by_stage["corpora"]) == 2, "the training text and the development set, once"


def test_the_small_table_3_trains_its_base_three_times_and_every_other_row_once() -> None:
    def trained(rows: list[str], seeds: int) -> list[str]:
        last = RECIPES["table3-demo"].step(choice=Choice(rows=rows, seeds=seeds))
        return [each.label for each in in_order([last]) if each.stage.name == "train"]

    assert trained(["base", "A/h=1"], 1) == ["base@seed1", "base@seed2", "base@seed3", "A/h=1"]
    assert len(trained(["base", "A/h=1"], 4)) == 8


def test_the_base_and_big_rows_are_the_training_runs_of_table_2() -> None:
    def trainings(recipe: str) -> dict[str, str]:
        return {each.label: each.key for each in in_order([RECIPES[recipe].step()]) if each.stage.name == "train"}

    assert trainings("table3")["base"] == trainings("base-en-de")["base-en-de"]
    assert trainings("table3")["big"] == trainings("big-en-de")["big-en-de"]
    assert set(trainings("table2").values()) >= set(trainings("base-en-fr").values())


def test_seeds_train_again_and_share_the_data() -> None:
    once = in_order([RECIPES["demo"].step()])
    thrice = in_order([RECIPES["demo"].step(choice=Choice(seeds=3))])
    assert {each.key for each in once if each.stage.name == "train"} < {
        each.key for each in thrice if each.stage.name == "train"
    }
    assert sum(each.stage.name == "train" for each in thrice) == 3
    assert sum(each.stage.name == "shards" for each in thrice) == 2


def test_rows_can_be_chosen_and_a_wrong_one_is_a_sentence() -> None:
    chosen = in_order([RECIPES["table3"].step(choice=Choice(rows=["A/h=1", "C/N=2"]))])
    assert sorted(each.label for each in chosen if each.stage.name == "train") == ["A/h=1", "C/N=2"]
    with pytest.raises(UserError, match=r"There is no row .A/h=2.\. Did you mean A/h="):
        RECIPES["table3"].step(choice=Choice(rows=["A/h=2"]))


def test_until_stops_at_a_stage() -> None:
    assert {each.stage.name for each in in_order(until(RECIPES["demo"].step(), "shards"))} == {
        "corpora",
        "vocabulary",
        "shards",
    }


def test_ten_thousand_steps_are_planned_in_seconds(tmp_path: Path) -> None:
    shared = step("a")
    rows = [step("b", StepConfig(value=row), x=shared) for row in range(3_000)]
    ends = [step("c", StepConfig(value=row), x=each) for row, each in enumerate(rows)]
    last = Step(stage=stage("d"), config=StepConfig(), inputs={"rows": tuple(ends)})
    began = time.process_time()
    planned = plan([last], Workspace(str(tmp_path)))
    assert len(planned.to_do) == 6_002
    assert time.process_time() - began < 5
