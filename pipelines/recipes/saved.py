"""A recipe in a file: what it starts from, and what it changes. Written by `attn plan ... --save my.toml`.

    recipe = "table3-demo"
    rows = ["base", "A/h=1", "F/wide"]
    seeds = 2

    [training]
    steps = 2000

    [own_rows]
    "F/wide" = { model = { d_ff = 512 } }

Its name is the file's. A run keeps a copy in the workspace (`recipes/my.toml`), so that every command takes the name.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jobs.errors import UserError, reason_of, refuse_unknown
from jobs.settings_file import read_settings_file
from pipelines.execution.workspace import Workspace
from pipelines.recipes import settings
from pipelines.recipes.experiment import Experiment
from pipelines.recipes.recipes import RECIPES, Choice, Recipe, recipe_named
from pipelines.recipes.table3 import differences
from pipelines.steps.step import Step

SUFFIX = ".toml"
KEPT = "recipes"  # in the workspace
NAME = re.compile(r"[A-Za-z][\w-]{0,39}")
OWN = ("recipe", "title", "rows", "seeds", "own_rows")
HEADER = "# `attn run {name}.toml` makes it; then `attn translate {name} ...`, `attn report {name}` know it by name.\n"


def find_recipe(name: str, workspace: Workspace) -> Recipe:
    """One of ours, one in a file, or one that was run in this workspace."""
    if name in RECIPES:
        return recipe_named(name)
    if name.endswith(SUFFIX):
        return read(Path(name))
    if is_kept(name, workspace):
        place = workspace.root.at(f"{KEPT}/{name}{SUFFIX}")
        return parse(name, workspace.root.read_text(f"{KEPT}/{name}{SUFFIX}"), place, None)
    refuse_unknown("recipe", name, names(workspace))


def is_recipe(name: str, workspace: Workspace) -> bool:
    return name in RECIPES or name.endswith(SUFFIX) or is_kept(name, workspace)


def is_kept(name: str, workspace: Workspace) -> bool:
    return NAME.fullmatch(name) is not None and workspace.root.exists(f"{KEPT}/{name}{SUFFIX}")


def kept(workspace: Workspace) -> list[str]:
    """The names of the recipes of one's own that were run in this workspace."""
    if not workspace.root.exists(KEPT):
        return []
    return [name.removesuffix(SUFFIX) for name in workspace.root.names(KEPT) if name.endswith(SUFFIX)]


def names(workspace: Workspace) -> list[str]:
    return [*RECIPES, *kept(workspace)]


def keep(recipe: Recipe, workspace: Workspace) -> None:
    if recipe.source:
        workspace.root.write_text(f"{KEPT}/{recipe.name}{SUFFIX}", recipe.source)


# --- reading -----------------------------------------------------------------------------------------------------


def read(file: Path) -> Recipe:
    try:
        text = read_settings_file(file)
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not TOML: {error}.") from error
    except OSError as error:
        raise UserError(f"The recipe {file} cannot be read: {reason_of(error)}.") from error
    return parse(file.stem, text, str(file), file.absolute().parent)


def parse(name: str, text: str, place: str, directory: Path | None) -> Recipe:
    """The recipe that `text` is; files that it names are looked for beside it, in `directory`."""
    require_name(name, place)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{place} is not TOML: {error}.") from error
    if not isinstance(data.get("recipe"), str):
        raise UserError(f'{place} does not say what it starts from: recipe = "demo" would be a first line.')
    base = recipe_named(data["recipe"])
    named = flat({key: value for key, value in data.items() if key not in OWN}, place)
    values = {key: absolute(base.experiment, key, value, directory) for key, value in named.items()}
    choice = choice_of(data, values, place)
    try:
        experiment = settings.apply(base.experiment, choice.changes)
    except UserError as error:
        raise UserError(f"{place}: {str(error).replace('--set ', '')}") from error

    def build(recipe: Recipe, experiment: Experiment, typed: Choice) -> Step:
        return base.build(recipe, experiment, merged(choice, typed))

    title = str(data.get("title") or f"{base.title} ({name})")
    source = written(name, data["recipe"], values, choice, data.get("own_rows", {}), data.get("title"))
    return replace(
        base, name=name, title=title, summary=title, cost=f"as {base.name} with its changes", paper=base.paper,
        experiment=experiment, build=build, source=source,
    )  # fmt: skip


def require_name(name: str, place: str) -> None:
    if NAME.fullmatch(name) is None:
        raise UserError(f"{place}: a recipe's name is the file's, letters, digits, - and _ only: {name!r} is none.")
    if name in RECIPES:
        raise UserError(f"{place}: {name} is a recipe of attn already. Give the file another name.")


def flat(data: Mapping[str, Any], place: str, prefix: str = "") -> dict[str, Any]:
    """`{"training": {"steps": 1}}` as `{"training.steps": 1}`."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, Mapping):
            found |= flat(value, place, f"{prefix}{key}.")
        elif not prefix and "." not in key:
            refuse_unknown("key", key, OWN, where=f"{place}: ")
        else:
            found[prefix + key] = value
    return found


def choice_of(data: Mapping[str, Any], values: Mapping[str, Any], place: str) -> Choice:
    rows, seeds, own = data.get("rows"), data.get("seeds", 1), data.get("own_rows", {})
    if rows is not None and not (isinstance(rows, list) and rows and all(isinstance(row, str) for row in rows)):
        raise UserError(f'{place}: rows is a list of names, e.g. rows = ["base", "A/h=1"].')
    if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 1:
        raise UserError(f"{place}: seeds is a whole number from 1 on, not {seeds!r}.")
    if not isinstance(own, Mapping):
        raise UserError(f'{place}: own_rows is a table: "F/wide" = {{ model = {{ d_ff = 512 }} }}.')
    changes = tuple(f"{name}={settings.spelled(value)}" for name, value in values.items())
    return Choice(rows=rows, seeds=seeds, extra=differences(own, Path(place)), changes=changes)


def merged(own: Choice, typed: Choice) -> Choice:
    """What the command line says goes before what the file says."""
    return Choice(
        rows=typed.rows if typed.rows is not None else own.rows,
        seeds=typed.seeds if typed.seeds != 1 else own.seeds,
        extra={**own.extra, **typed.extra},
        changes=(*own.changes, *typed.changes),
    )


def absolute(experiment: Experiment, name: str, value: Any, directory: Path | None) -> Any:
    """A file beside the recipe by its absolute path, so that it is found from everywhere."""
    if directory is None or not isinstance(value, str) or not settings.names_a_file(experiment, name):
        return value
    beside = directory / Path(value).expanduser()
    return str(beside) if beside.exists() else value


# --- writing -----------------------------------------------------------------------------------------------------


def save(file: Path, recipe: Recipe, changes: Iterable[str], choice: Choice, own_rows: Mapping[str, Any]) -> None:
    """What was typed, as a file; `recipe` is one of ours."""
    if file.suffix != SUFFIX:
        raise UserError(f"--save writes a recipe: name a file that ends in {SUFFIX}, not {file}.")
    require_name(file.stem, str(file))
    if recipe.source:
        raise UserError(f"{recipe.name} is a recipe in a file already: copy that, and change it with an editor.")
    typed = settings.named(recipe.experiment, changes)
    values = {name: absolute(recipe.experiment, name, value, Path.cwd()) for name, value in typed}
    text = written(file.stem, recipe.name, values, choice, own_rows, None)
    try:
        with open(file, "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise UserError(f"{file} is there already: choose another name, or remove it.") from None
    except OSError as error:
        raise UserError(f"{file} cannot be written: {reason_of(error)}.") from error


def written(
    name: str, base: str, values: Mapping[str, Any], choice: Choice, own_rows: Mapping[str, Any], title: str | None
) -> str:
    lines = [HEADER.format(name=name), f"recipe = {toml(base)}"]
    lines += [f"title = {toml(title)}"] if title else []
    lines += [f"rows = {toml(list(choice.rows))}"] if choice.rows is not None else []
    lines += [f"seeds = {choice.seeds}"] if choice.seeds != 1 else []
    sections: dict[str, list[str]] = {}
    for path, value in values.items():
        section, _, field = path.rpartition(".")
        sections.setdefault(section, []).append(f"{field} = {toml(value)}")
    for section, fields in sections.items():
        lines += ["", f"[{section}]", *fields]
    if own_rows:
        lines += ["", "[own_rows]", *(f"{toml(row)} = {toml(given)}" for row, given in own_rows.items())]
    return "\n".join(lines) + "\n"


def toml(value: Any) -> str:
    """A value as TOML spells it, on one line; what is None is spelled as `--set` takes it."""
    if isinstance(value, Mapping):
        inner: Sequence[str] = [f"{key if key.isidentifier() else toml(key)} = {toml(v)}" for key, v in value.items()]
        return f"{{ {', '.join(inner)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml(item) for item in value)}]"
    if value is None:
        return '"none"'
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)
