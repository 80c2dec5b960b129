"""What it would cost: the paper's own figures come out of the formula, and every recipe has an estimate."""

from __future__ import annotations

import pytest
from recipe_settings import NEEDS_FILES

from jobs.cluster.profiles import load_profile
from jobs.configs import Resources, TrainResources
from jobs.stage import compute_time
from pipelines.recipes.recipes import RECIPES
from pipelines.steps.estimate import estimate, total
from pipelines.steps.plan import in_order
from transformer.paper_figures import training_flops

P100 = Resources(device_tflops=9.5, watts=250, gpus=8, train=TrainResources(workers=8, gpus_per_worker=1))


@pytest.mark.parametrize(("hours", "flops"), [(12, 3.3e18), (3.5 * 24, 2.3e19)])
def test_the_paper_s_flops_come_out_of_its_formula(hours: float, flops: float) -> None:
    assert training_flops(hours * 3600, devices=8) == pytest.approx(flops, rel=0.02)
    said = compute_time(flops, 8, P100, start_s=0)
    assert said is not None
    assert said.seconds == pytest.approx(hours * 3600, rel=0.02)
    assert said.device_hours == pytest.approx(8 * hours, rel=0.02)
    assert said.kilowatt_hours == pytest.approx(8 * hours * 0.25, rel=0.02)


def test_counted_arithmetic_is_a_plausible_share_of_the_paper_s() -> None:
    """Counting gives what was computed, the paper's formula what its GPUs could have: between a fifth and all of it."""
    for recipe, paper in (("base-en-de", 3.3e18), ("big-en-de", 2.3e19)):
        train = next(step for step in in_order([RECIPES[recipe].step()]) if step.stage.name == "train")
        said = estimate(train, P100)
        assert said is not None
        assert 0.2 * paper < said.flops < paper


@pytest.mark.parametrize(("recipe", "hours"), [("base-en-de", 12), ("big-en-de", 84)])
def test_the_paper_s_machine_takes_about_the_paper_s_time(recipe: str, hours: float) -> None:
    costs = [estimate(step, load_profile("gpu8-p100")) for step in in_order([RECIPES[recipe].step()])]
    assert total(costs).seconds / 3600 == pytest.approx(hours, rel=0.25)


@pytest.mark.parametrize("name", [name for name in RECIPES if name not in NEEDS_FILES])
def test_every_step_of_every_recipe_has_an_estimate(name: str) -> None:
    steps = in_order([RECIPES[name].step()])
    costs = [estimate(step, P100) for step in steps]
    assert all(cost is not None and cost.seconds > 0 for cost in costs)
    assert total(costs).flops > 0


def test_more_devices_take_less_time_and_the_same_work() -> None:
    few, many = compute_time(1e18, 8, P100, start_s=0), compute_time(1e18, 32, P100, start_s=0)
    assert few is not None
    assert many is not None
    assert few.seconds == pytest.approx(4 * many.seconds)
    assert few.device_hours == pytest.approx(many.device_hours)
