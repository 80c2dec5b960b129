"""Every setting of an experiment: its name for `--set`, its value, what it means, and the paper's section.

What a field means is the comment behind it in its dataclass, and nowhere else; a section in brackets, as in
`(5.3)`, is the paper's. Standard library only.
"""

from __future__ import annotations

import dataclasses
import inspect
import io
import re
import tokenize
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

SECTION = re.compile(r"\((?P<section>(?:\d+(?:\.\d+)*|Table \d)[^()]*)\)\s*$")


@dataclass(frozen=True)
class Setting:
    """`value` is the recipe's, `paper` the default of the field, which is the paper's where the paper has it."""

    name: str
    value: Any
    paper: Any
    meaning: str
    section: str


def settings_of(config: Any, prefix: str = "") -> Iterator[Setting]:
    """Every setting below this config, in the order of its fields."""
    kind = type(config)
    comments, hints = comments_of(kind), typing.get_type_hints(kind)
    for field in dataclasses.fields(config):
        name = f"{prefix}{field.metadata.get('spelled', field.name)}"
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            yield from settings_of(value, f"{name}.")
            continue
        comment = comments.get(field.name, "")
        found = SECTION.search(comment)
        meaning = comment[: found.start()].rstrip(" :,") if found else comment
        choices = typing.get_args(hints[field.name]) if typing.get_origin(hints[field.name]) is Literal else ()
        if choices:
            meaning = f"{' or '.join(map(str, choices))}{f': {meaning}' if meaning else ''}"
        yield Setting(name, value, field.default, meaning, found["section"] if found else "")


def comments_of(kind: type[Any]) -> Mapping[str, str]:
    """The comment on the line of each field, read from the class's source."""
    found: dict[str, str] = {}
    for base in reversed([each for each in kind.__mro__ if dataclasses.is_dataclass(each)]):
        field, depth = "", 0
        for token in tokenize.generate_tokens(io.StringIO(inspect.getsource(base)).readline):
            if token.type == tokenize.OP and token.string in "([{":
                depth += 1
            elif token.type == tokenize.OP and token.string in ")]}":
                depth -= 1
            elif token.type == tokenize.NAME and depth == 0 and token.line.lstrip().startswith(f"{token.string}:"):
                field = token.string
            elif token.type == tokenize.COMMENT and field and not token.line.lstrip().startswith("#"):
                found[field] = token.string.lstrip("# ")
            elif token.type == tokenize.NEWLINE:
                field = ""
    return found
