"""A recipe in a file: written by `attn plan --save`, run by its path, and known by its name from then on."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipe_settings import settings_of as settings_of_recipe

from jobs.errors import UserError
from pipelines.cli import main
from pipelines.execution.model_directory import model_step
from pipelines.execution.workspace import Workspace
from pipelines.recipes import saved
from pipelines.recipes.meanings import settings_of
from pipelines.recipes.recipes import RECIPES, Choice, Recipe
from pipelines.recipes.settings import names_a_file
from pipelines.steps.plan import in_order

CHANGES = [
    "corpora.train_pairs=300", "search.beam=2", "shards.cleaning.max_ratio=1.5", "model.d_k=none", "model.norm=pre",
    "model.tied_embeddings=no",
]  # fmt: skip
ROWS = '"F/wide" = { model = { d_ff = 512 } }\n"F/half" = { times = { d_model = "1/2" }, longer = 2 }\n'


def typed(*words: str) -> list[str]:
    return [*words, *(word for change in CHANGES for word in ("--set", change))]


def keys(recipe_or_file: str, workspace: Workspace) -> set[str]:
    """Everything below the report, which has the recipe's name in it."""
    last = saved.find_recipe(recipe_or_file, workspace).step()
    return {step.key for step in in_order([last])} - {last.key}


def test_what_was_typed_is_what_the_file_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.toml").write_text(ROWS)
    words = typed("plan", "table3-demo", "--rows", "base,F/wide,F/half", "--seeds", "2", "--rows-from", "rows.toml")
    assert main([*words, "--save", "mine.toml"]) == 0
    workspace = Workspace(str(tmp_path / "w"))
    rows = {"F/wide": {"model": {"d_ff": 512}}, "F/half": {"times": {"d_model": "1/2"}, "longer": 2}}
    extra = saved.differences(rows, Path("rows.toml"))
    choice = Choice(rows=["base", "F/wide", "F/half"], seeds=2, extra=extra)
    last = RECIPES["table3-demo"].step(CHANGES, choice)
    assert keys("mine.toml", workspace) == {step.key for step in in_order([last])} - {last.key}
    assert not (tmp_path / "w").exists(), "a plan writes nothing into the workspace"


def test_a_file_that_windows_wrote_is_the_same_recipe(tmp_path: Path) -> None:
    """Its editors put a byte order mark in front, and end lines with CR LF."""
    workspace, text = Workspace(str(tmp_path / "w")), 'recipe = "demo"\n[training]\nsteps = 9\n'
    for name, data in (("mine", text.encode()), ("theirs", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())):
        (tmp_path / f"{name}.toml").write_bytes(data)
    assert keys(str(tmp_path / "mine.toml"), workspace) == keys(str(tmp_path / "theirs.toml"), workspace)


def test_a_copy_in_the_workspace_is_the_same_recipe_and_its_name_is_its_own(tmp_path: Path) -> None:
    file, workspace = tmp_path / "mine.toml", Workspace(str(tmp_path / "w"))
    file.write_text('recipe = "table2"\ntitle = "All \\"four\\""\nrows = ["big-en-fr"]\n[training]\nsteps = 100_000\n')
    recipe = saved.find_recipe(str(file), workspace)
    assert [step.config.training.steps for step in in_order([recipe.step()]) if hasattr(step.config, "training")] == [
        100_000
    ], "what is the base's default is set nonetheless"
    saved.keep(recipe, workspace)
    again = saved.find_recipe("mine", workspace)
    assert again.step().key == recipe.step().key
    assert (again.name, again.title) == ("mine", 'All "four"')
    assert saved.names(workspace) == [*RECIPES, "mine"]
    assert again.step(["training.steps=7"]).key != recipe.step().key, "and can be changed like any other"


def test_files_are_found_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ['recipe = "files"', "[corpus]"]
    for name in (f"{split}_{side}" for split in ("train", "dev", "test") for side in ("source", "target")):
        (tmp_path / name).write_text(name)
        lines.append(f'{name} = "{name}"')
    (tmp_path / "mine.toml").write_text("\n".join(lines))
    workspace = Workspace(str(tmp_path / "w"))
    monkeypatch.chdir("/")
    recipe = saved.find_recipe(str(tmp_path / "mine.toml"), workspace)
    saved.keep(recipe, workspace)
    assert saved.find_recipe("mine", workspace).step().key == recipe.step().key


NO_FILES = {"corpus.pair", "corpus.source_language", "corpus.target_language"}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_setting_says_itself_that_it_names_a_file(recipe: Recipe) -> None:
    texts = [each.name for each in settings_of(recipe.experiment.corpus, "corpus.") if each.value in ("", None)]
    files = [name for name in texts if names_a_file(recipe.experiment, name)]
    assert files == texts, "give a setting that names a file `a_file()`; what else is empty is in NO_FILES"
    assert not any(names_a_file(recipe.experiment, name) for name in (*NO_FILES, "corpus", "training.steps", "a.b.c"))


def test_a_file_is_found_by_every_spelling_of_its_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings_of_recipe("parsing-files", tmp_path)
    (tmp_path / "mine.toml").write_text('recipe = "parsing-files"\n[corpora]\ntreebank = "own"\n')
    monkeypatch.chdir("/")
    recipe = saved.find_recipe(str(tmp_path / "mine.toml"), Workspace(str(tmp_path / "w")))
    assert recipe.step().key


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("demo", 'recipe = "demo"', "is a recipe of attn already"),
        ("my recipe", 'recipe = "demo"', "letters, digits, - and _ only"),
        ("mine", "recipe = demo", "is not TOML"),
        ("mine", "[training]\nsteps = 3", 'recipe = "demo" would be a first line'),
        ("mine", 'recipe = "dmeo"', "Did you mean demo?"),
        ("mine", 'recipe = "demo"\nseed = 3', "there is no key 'seed'. Did you mean seeds?"),
        ("mine", 'recipe = "demo"\n[training]\nstepz = 3', "mine.toml: training.stepz: there is no field"),
        ("mine", 'recipe = "demo"\n[training]\nsteps = "many"', "it takes a whole number"),
        ("mine", 'recipe = "table3"\nrows = "base"', "rows is a list of names"),
        ("mine", 'recipe = "table3"\nseeds = 0', "seeds is a whole number from 1 on"),
    ],
)
def test_a_wrong_file_is_a_sentence(
    name: str, text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"{name}.toml"
    file.write_text(text)
    assert main(["plan", str(file), "--workspace", str(tmp_path / "w")]) == 2
    assert says in capsys.readouterr().err


def test_a_kept_recipe_that_is_broken_hides_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("mine", 'recipe = "demo"'), ("broken", "recipe = [")):
        Workspace(str(tmp_path)).root.write_text(f"recipes/{name}.toml", text)
    assert main(["recipes", "--json", "--workspace", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert "Demo language, English to German (mine)" in shown.out
    assert "broken.toml is not TOML" in shown.err


def test_a_file_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "demo", "--save", "mine.toml"]) == 0
    assert main(["plan", "demo", "--set", "training.steps=3", "--save", "mine.toml"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["plan", "demo", "--save", "mine"]) == 2
    assert "ends in .toml" in capsys.readouterr().err
    assert main(["plan", "mnie", "--workspace", str(tmp_path)]) == 2
    assert main(["recipes", "--json", "--workspace", str(tmp_path)]) == 0
    assert "mine" not in capsys.readouterr().out


def test_a_model_is_that_of_its_row() -> None:
    recipe = RECIPES["table3-demo"]
    steps = {step.label: step for step in in_order([recipe.step(choice=Choice(seeds=2))]) if step.stage.is_model}
    assert model_step(recipe, [], "C/N=2").key == steps["C/N=2@seed1"].key
    assert model_step(recipe, [], "base@seed2").key == steps["base@seed2"].key
    assert model_step(recipe, [], None).key == steps["base@seed1"].key
    with pytest.raises(UserError, match=r"There is no row .C/N=3.\. Did you mean C/N="):
        model_step(recipe, [], "C/N=3")
    with pytest.raises(UserError, match="--row takes a row"):
        model_step(recipe, [], "base@seedtwo")
