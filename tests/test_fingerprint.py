"""Law 1: a result is named by what made it. Law 2: where it is made is no part of the name."""

from __future__ import annotations

import os
from dataclasses import make_dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipe_settings import settings_of
from step_job import FileConfig, Inner, StepConfig, stage

from jobs.errors import UserError
from pipelines.recipes.recipes import RECIPES
from pipelines.steps.fingerprint import canonical
from pipelines.steps.step import Step


def step(config: object = StepConfig(), **inputs: Step) -> Step:
    return Step(stage=stage("test"), config=config, inputs=inputs)


def test_equal_configs_have_equal_names_and_other_ones_other_names() -> None:
    assert step().fingerprint == step(StepConfig()).fingerprint
    names = {
        step(config).fingerprint
        for config in (
            StepConfig(), StepConfig(value=2), StepConfig(name="y"), StepConfig(inner=Inner(width=9)),
            StepConfig(inner=Inner(ratio=0.5)),
        )
    }  # fmt: skip
    assert len(names) == 5


def test_stage_version_and_inputs_are_part_of_the_name() -> None:
    base = step()
    assert replace(base, stage=stage("other")).fingerprint != base.fingerprint
    assert replace(base, stage=replace(base.stage, version=2)).fingerprint != base.fingerprint
    fed = step(StepConfig(), a=base)
    assert fed.fingerprint != base.fingerprint
    assert step(StepConfig(), b=base).fingerprint != fed.fingerprint, "the input's name counts"
    assert step(StepConfig(), a=step(StepConfig(value=2))).fingerprint != fed.fingerprint


def test_rows_are_named_by_their_columns() -> None:
    """A report's rows are hashed column by column, as the inputs of one name always were."""
    one, two = step(StepConfig(value=1)), step(StepConfig(value=2))
    rows = Step(stage=stage("test"), config=StepConfig(), rows=({"a": one, "b": two}, {"a": two, "b": two}))
    columns = Step(stage=stage("test"), config=StepConfig(), inputs={"a": (one, two), "b": (two, two)})
    assert rows.fingerprint == columns.fingerprint
    assert list(rows.parents()) == list(columns.parents())


def test_labels_tags_and_the_job_s_module_are_no_part_of_the_name() -> None:
    base = step()
    moved = replace(base.stage, job="elsewhere", is_dataset=True)
    assert replace(base, label="pet name", tags={"a": "b"}, stage=moved).fingerprint == base.fingerprint


def test_a_place_is_no_part_of_the_name() -> None:
    assert step(StepConfig(look_in="/somewhere")).fingerprint == step().fingerprint


def test_a_new_field_at_its_default_renames_nothing() -> None:
    today = make_dataclass("C", [("a", int, 1)], frozen=True)
    tomorrow = make_dataclass("C", [("b", int, 7), ("a", int, 1)], frozen=True)
    assert canonical(today(a=3)) == canonical(tomorrow(a=3))
    assert canonical(today(a=3)) != canonical(tomorrow(a=3, b=8))


@given(st.integers(-(10**9), 10**9))
def test_a_whole_number_is_the_same_setting_as_int_or_float(value: int) -> None:
    assert canonical(float(value)) == canonical(value)


def test_a_file_counts_by_its_content(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("text")
    two.write_text("text")
    assert step(FileConfig(file=str(one))).fingerprint == step(FileConfig(file=str(two))).fingerprint
    before = step(FileConfig(file=str(two))).fingerprint
    two.write_text("TEXT")
    os.utime(two, ns=(1, 1))
    assert step(FileConfig(file=str(two))).fingerprint != before


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: no such file"):
        _ = step(FileConfig(file=str(tmp_path / "absent"))).fingerprint


def test_what_is_not_plain_data_is_refused() -> None:
    with pytest.raises(TypeError, match="plain data"):
        canonical({"a": object()})


@pytest.mark.parametrize("name", RECIPES)
def test_golden_fingerprints_guard_the_defaults(name: str, tmp_path: Path) -> None:
    golden = dict(line.split() for line in (Path(__file__).parent / "golden" / "recipes.txt").read_text().splitlines())
    made = RECIPES[name].step(settings_of(name, tmp_path)).fingerprint
    assert made == golden[name], "if a default changed on purpose, put the new name there"
