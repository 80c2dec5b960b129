"""Profiles: where a recipe runs and how much of it at once, read from TOML into `Resources`. Standard library only.

A profile is a name (`gpu8`: a file in infra/profiles) or the path of a file of the user's with the same fields. It is
checked field by field: a wrong name, type or value is a sentence with the file and what would be right, before
anything starts.
"""

from __future__ import annotations

import tomllib
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import infra
from jobs.configs import Resources
from jobs.errors import UserError, reason_of, refuse_unknown
from jobs.settings_file import read_settings_file

T = TypeVar("T")
DIRECTORY = Path(infra.__file__).parent / "profiles"
IN_WORDS = {int: "a whole number", float: "a number", str: "a text in quotes", bool: "true or false"}


def profile_names() -> list[str]:
    """The profiles that come with attn, sorted."""
    return sorted(file.stem for file in DIRECTORY.glob("*.toml"))


def load_profile(name_or_path: str) -> Resources:
    """The profile of that name, or the one in the file at that path."""
    file = _find(name_or_path)
    try:
        table = tomllib.loads(read_settings_file(file))
    except OSError as error:
        raise UserError(f"The profile {file} cannot be read: {reason_of(error)}.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"The profile {file} is not UTF-8 text: byte {error.start} is wrong.") from error
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"The profile {file} is not valid TOML: {error}.") from error
    return build(Resources, {"name": file.stem} | table, where=str(file))


def load_profile_to_run(name_or_path: str) -> Resources:
    """The same, for work to be done there."""
    on = load_profile(name_or_path)
    if on.estimates_only:
        raise UserError(
            f"The profile {on.name} is for estimates only (attn plan, attn recipes): PyTorch has no kernels for such "
            f"hardware any more. Choose another with --on; there are {', '.join(profile_names())}."
        )
    return on


def build(kind: type[T], table: Mapping[str, Any], *, where: str, prefix: str = "") -> T:
    """A dataclass from a table of the same shape; `prefix` is the path to it, for the sentences."""
    hints = get_type_hints(kind)
    names = [entry.name for entry in fields(kind)]  # type: ignore[arg-type]  # T is a dataclass
    for key in table:
        if key not in names:
            refuse_unknown("field", key, names, where=f"{where}: ", prefix=prefix)
    values = {key: _checked(value, hints[key], where=where, path=prefix + key) for key, value in table.items()}
    try:
        return kind(**values)
    except ValueError as error:
        raise UserError(f"{where}: {error}.") from error


def _find(name_or_path: str) -> Path:
    looks_like_path = "/" in name_or_path or name_or_path.endswith(".toml")
    file = Path(name_or_path) if looks_like_path else DIRECTORY / f"{name_or_path}.toml"
    if file.is_file():
        return file
    if looks_like_path:
        raise UserError(f"There is no profile file {name_or_path}.")
    refuse_unknown("profile", name_or_path, profile_names())


def _checked(value: Any, hint: Any, *, where: str, path: str) -> Any:
    """The value, if it is of the field's type; a whole number will do where any number is asked for."""
    if isinstance(hint, type) and is_dataclass(hint):
        if not isinstance(value, dict):
            raise UserError(f"{where}: {path} is a table, [{path}], not {value!r}.")
        return build(hint, value, where=where, prefix=f"{path}.")
    if get_origin(hint) is Literal:
        if value in get_args(hint) and type(value) in {type(choice) for choice in get_args(hint)}:
            return value
        raise UserError(f"{where}: {path} is one of {', '.join(map(repr, get_args(hint)))}, not {value!r}.")
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (choice for choice in get_args(hint) if choice is not types.NoneType)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:  # not isinstance: true is no whole number here
        raise UserError(f"{where}: {path} is {IN_WORDS[hint]}, not {value!r}.")
    return value
