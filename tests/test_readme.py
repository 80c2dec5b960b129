"""The README is true: every command in it exists, and so does every recipe, row, file and setting it names."""

from __future__ import annotations

import re
import shlex

import pytest
from conftest import ROOT

from jobs.errors import UserError
from pipelines.cli import parser
from pipelines.recipes.recipes import RECIPES
from pipelines.recipes.settings import apply
from pipelines.steps.plan import in_order

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(?:\w*)\n(.*?)```", README, flags=re.DOTALL)
JOINED = "\n".join(BLOCKS).replace("\\\n", " ")
ATTN = [line for line in JOINED.splitlines() if re.match(r"\s*(\.venv/bin/)?attn ", line)]
SAVED = re.findall(r"--save (\w+)\.toml", README)  # recipes of one's own


def words_of(line: str) -> list[str]:
    """A command's words: up to a remark, which stands behind two blanks or a #."""
    command = re.split(r"\s{2,}(?=[a-z\"])|\s+#", re.sub(r"\s+--", " --", line.strip()))[0]
    return shlex.split(command)[1:]


@pytest.mark.parametrize("line", ATTN)
def test_every_command_is_understood(line: str) -> None:
    words = words_of(line)
    asked = parser().parse_args(words)
    recipe = getattr(asked, "recipe", None) or getattr(asked, "model", None)
    if recipe is not None:
        assert recipe.removesuffix(".toml") in {*RECIPES, *SAVED}
    recipe = recipe if recipe in RECIPES else None
    for change in getattr(asked, "changes", []):
        try:
            apply(RECIPES[recipe or "demo"].experiment, [change])
        except UserError as error:
            pytest.fail(str(error))


def test_there_are_commands_to_test() -> None:
    assert len(ATTN) >= 10


@pytest.mark.parametrize("name", sorted(set(re.findall(r"(?:^|`)make (\w+)", README, re.MULTILINE))))
def test_every_make_target_exists(name: str) -> None:
    assert re.search(rf"^{name}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


def test_both_ways_to_start_are_said_on_the_first_screen() -> None:
    first = "\n".join(README.splitlines()[:25])
    assert "make demo" in first
    assert "make test" in first


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_every_link_leads_somewhere(target: str) -> None:
    assert (ROOT / target).exists()


def test_every_recipe_is_in_the_readme() -> None:
    assert [name for name in RECIPES if f"`{name}`" not in README] == []


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"`((?:transformer|jobs|pipelines|infra|benchmarks|tests)/[\w./]*)`", README)))
)
def test_every_path_exists(name: str) -> None:
    assert (ROOT / name).exists()


def test_the_diagram_is_the_recipe_in_order() -> None:
    (drawn,) = [line.split(" ──> ") for line in README.splitlines() if " ──> " in line]
    stages = dict.fromkeys(step.key.partition("/")[0] for step in in_order([RECIPES["demo"].step()]))
    assert [stage.strip() for stage in drawn] == list(stages)


def test_the_pictures_are_small_and_the_page_short() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert pictures
    assert sum((ROOT / picture).stat().st_size for picture in pictures) < 300_000
    assert len(README.splitlines()) <= 200
