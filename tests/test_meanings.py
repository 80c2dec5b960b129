"""`attn settings`: every setting with what it means, from the comment behind its field."""

from __future__ import annotations

import json

import pytest

from pipelines.cli import main
from pipelines.recipes.experiment import DemoText, Experiment, FilesText, WmtText
from pipelines.recipes.meanings import settings_of
from pipelines.recipes.recipes import RECIPES
from pipelines.recipes.settings import apply, spelled

EXPERIMENTS = {
    "wmt": Experiment(),
    "demo": Experiment(corpus=DemoText()),
    "files": Experiment(corpus=FilesText()),
    **{name: recipe.experiment for name, recipe in RECIPES.items()},
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_setting_says_what_it_means(name: str) -> None:
    without = [each.name for each in settings_of(EXPERIMENTS[name]) if len(each.meaning) < 4]
    assert without == [], "write it as a comment behind the field"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_name_and_value_is_one_that_set_takes(name: str) -> None:
    experiment = EXPERIMENTS[name]
    for each in settings_of(experiment):
        assert apply(experiment, [f"{each.name}={spelled(each.value)}"]) == experiment


def test_a_section_of_the_paper_stands_by_itself() -> None:
    found = {each.name: each for each in settings_of(Experiment())}
    assert (found["model.num_heads"].meaning, found["model.num_heads"].section) == (
        "h parallel attention layers",
        "3.2.2",
    )
    assert found["model.d_k"].section == "3.2.2, Table 3 B"
    assert found["model.norm"].meaning == "post or pre: LayerNorm(x + Sublayer(x))"
    assert found["translation.alpha"].section == "6.1"
    assert "(" in found["translation.alpha"].meaning, "brackets within a meaning are no section"
    assert found["corpus.from"].meaning == "look for archives here"
    assert isinstance(EXPERIMENTS["wmt"].corpus, WmtText)


def test_the_command_shows_what_a_recipe_sets_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "demo", "model", "--set", "model.d_k=16"]) == 0
    shown = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
    assert shown["d_model"][1:3] == ["128", "512"]
    assert shown["d_k"][1:3] == ["16", "none"]
    assert shown["norm"][1] == "post"
    assert main(["settings", "--json"]) == 0
    listed = {each["setting"]: each for each in json.loads(capsys.readouterr().out)}
    assert listed["training.warmup"]["default"] == RECIPES["base-en-de"].experiment.training.warmup
    assert main(["settings", "demo", "modle"]) == 2
    assert "Did you mean model?" in capsys.readouterr().err
