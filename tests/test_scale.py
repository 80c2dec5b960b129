"""A table of a thousand rows is planned in memory that grows by the step and not by the table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from small_demo import ROOT

from pipelines.execution.workspace import Workspace
from pipelines.steps.plan import in_order, plan

sys.path.append(str(ROOT / "benchmarks"))
from scale_plan import finish, in_own_process, table

pytestmark = pytest.mark.slow


def test_ten_thousand_steps_are_planned_in_flat_memory() -> None:
    few, many = in_own_process(100), in_own_process(1000)
    assert (few["steps"], many["steps"]) == (1001, 10_001)
    assert many["memory_mb"] < 150, "15 kB for a step"


def test_a_large_plan_has_each_step_once_inputs_first_and_knows_what_is_done(tmp_path: Path) -> None:
    target, workspace = table(50), Workspace(str(tmp_path))
    steps = in_order([target])
    places = {step.key: place for place, step in enumerate(steps)}
    assert len(places) == len(steps) == 501
    assert all(places[parent.key] < places[step.key] for step in steps for parent in step.parents())
    done = in_order([table(49)])[:-1]  # all but its report
    for step in done:
        finish(step, workspace)
    planned = plan([target], workspace)
    assert {each.step.key for each in planned.steps if each.state == "done"} == {step.key for step in done}
    assert len(planned.to_do) == 11, "the new row's ten steps, and the report"
