"""`--set section.field=value`: every field of an experiment by name, typed, refused with the nearest right name."""

from __future__ import annotations

import dataclasses
import math
import re
import types
import typing
from collections.abc import Iterable
from typing import Any, Literal, TypeVar, Union

from jobs.errors import UserError, nearest_name, refuse_unknown

T = TypeVar("T")
FILE = {"names": "file"}  # the metadata of a setting that names a file or a directory
GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?|[+-]?\d{1,3}(_\d{3})+(\.\d*)?")  # 12,000 or 12_000
THOUSANDS = re.compile("[,_]")
TRUE, FALSE, NONE = ("true", "yes", "on", "1"), ("false", "no", "off", "0"), ("none", "null")


def a_file() -> Any:
    """A setting that names a file or a directory of the user's, and none unless it is set."""
    return dataclasses.field(default="", metadata=FILE)


class Unfit(UserError):
    """A value that does not go with the others as they stand."""


def apply(experiment: T, settings: Iterable[str]) -> T:
    """The experiment with every `section.field=value` put in; those that go together only may come in any order."""
    waiting = list(settings)
    while waiting:
        refused: list[tuple[str, Unfit]] = []
        for setting in waiting:
            try:
                experiment = _with(experiment, setting)
            except Unfit as error:
                refused.append((setting, error))
        if len(refused) == len(waiting):
            raise refused[0][1]
        waiting = [setting for setting, _ in refused]
    return experiment


def _with(experiment: T, setting: str) -> T:
    path, equals, text = setting.partition("=")
    if not equals or not path.strip():
        raise UserError(f"--set takes section.field=value, not {setting!r}.")
    return _replaced(experiment, path.strip().split("."), text.strip(), path.strip())


def named(experiment: Any, changes: Iterable[str]) -> list[tuple[str, Any]]:
    """What each `section.field=value` sets, by the name that the field has, and typed."""
    changes, found = list(changes), []
    whole = apply(experiment, changes)
    for change in changes:
        config, parts = whole, []
        for word in change.partition("=")[0].strip().split("."):
            own = _field_named(config, word, word)
            field = next(each for each in dataclasses.fields(config) if each.name == own)
            parts.append(str(field.metadata.get("spelled", own)))
            config = getattr(config, own)
        found.append((".".join(parts), config))
    return found


def spelled(value: Any) -> str:
    """A value as `--set` takes it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _replaced(config: T, path: list[str], text: str, whole: str) -> T:
    hints = typing.get_type_hints(type(config))
    named = _field_named(config, path[0], whole)
    value = getattr(config, named)
    if len(path) > 1:
        if not dataclasses.is_dataclass(value):
            raise UserError(f"--set {whole}: {'.'.join(whole.split('.')[: -len(path) + 1])} has no fields of its own.")
        changed: Any = _replaced(value, path[1:], text, whole)
    elif dataclasses.is_dataclass(value):
        names = ", ".join(f"{whole}.{name}" for name in _names(value))
        raise UserError(f"--set {whole}: that is a section; set one of {names}.")
    else:
        changed = parsed(text, hints[named], whole)
    try:
        return typing.cast(T, dataclasses.replace(typing.cast(Any, config), **{named: changed}))
    except ValueError as error:
        raise Unfit(f"--set {whole}={text}: {error}.") from error


def _names(config: Any) -> list[str]:
    return [str(field.metadata.get("spelled", field.name)) for field in dataclasses.fields(config)]


def names_a_file(experiment: Any, name: str) -> bool:
    """Whether `section.field` says of itself that its value is a file or a directory; False where there is none."""
    field, config = None, experiment
    for word in name.split("."):
        field = _find(config, word) if dataclasses.is_dataclass(config) else None
        if field is None:
            return False
        config = getattr(config, field.name)
    return field is not None and field.metadata.get("names") == FILE["names"]


def _find(config: Any, name: str) -> dataclasses.Field[Any] | None:
    """The field that is spelled so in a setting."""
    for field in dataclasses.fields(config):
        if name == field.metadata.get("spelled", field.name) or name in field.metadata.get("aliases", ()):
            return field
    return None


def _field_named(config: Any, name: str, whole: str) -> str:
    if (field := _find(config, name)) is not None:
        return field.name
    prefix = whole.rsplit(name, 1)[0] if "." in whole and not whole.startswith(name) else ""
    refuse_unknown("field" if prefix else "section", name, _names(config), where=f"--set {whole}: ", prefix=prefix)


def parsed(text: str, hint: Any, name: str) -> Any:
    """`text` as a value of the type that a field is annotated with."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        if type(None) in arguments and text.lower() in NONE:
            return None
        return parsed(text, next(kind for kind in arguments if kind is not type(None)), name)
    if origin is Literal:
        if text not in arguments:
            hint = f" Did you mean {near}?" if (near := nearest_name(text, arguments)) else ""
            raise UserError(f"--set {name}={text}: it is one of {', '.join(arguments)}.{hint}")
        return text
    if origin is tuple:
        return tuple(parsed(item.strip(), arguments[0], name) for item in text.split(",") if item.strip())
    return _plain(text, hint, name)


def _plain(text: str, hint: Any, name: str) -> Any:
    if hint is bool:
        if text.lower() in TRUE + FALSE:
            return text.lower() in TRUE
        raise UserError(f"--set {name}={text}: it is true or false.")
    if hint is str:
        return text
    kinds = {int: "a whole number, such as 2000 or 2e3", float: "a number, such as 0.5"}
    digits = THOUSANDS.sub("", text) if GROUPED.fullmatch(text) else text
    try:
        if hint is int and "e" not in digits.lower():
            return int(digits)
        number = float(digits)
        if not math.isfinite(number) or (hint is int and not number.is_integer()):
            raise ValueError("not such a number")
        return hint(number)
    except ValueError as error:
        raise UserError(f"--set {name}={text}: it takes {kinds[hint]}.") from error
