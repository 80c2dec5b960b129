"""The documentation is true: every file, test, link, make target and command that it names exists.

Read are README.md, CONTRIBUTING.md, CHANGELOG.md, docs/ and every docstring. Whether the README's recipes and settings
exist is in test_readme.py, and infra/README.md is in test_infra.py.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from conftest import ROOT
from test_readme import words_of

from pipelines.cli import parser

TOP = ("transformer", "jobs", "pipelines", "infra", "benchmarks", "tests", "docs")
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").glob("*.md")
)
CODE = sorted(file for name in TOP for file in (ROOT / name).rglob("*.py"))
LAWS = ROOT / "docs" / "laws.md"

PATH = re.compile(rf"(?<![\w/.$-])(?:{'|'.join(TOP)})/[\w./*<>-]*")
BARE = re.compile(r"(?<![\w/.*<>-])\w[\w-]*\.(?:py|sh|sbatch)\b")  # `job.py` without its folder
TEST = re.compile(r"(?:tests/)?(test_\w+\.py)::(test_\w+)")
MAKE = re.compile(r"(?:^|`)make ([a-z]+)", re.MULTILINE)
CALL = re.compile(r"`(\w+)\(")  # `name(...)` of a page
LINK = re.compile(r"\]\(([^)#:]+)\)")


def texts() -> Iterator[tuple[str, str]]:
    """Everything that is read: where it stands, and what it says."""
    for page in PAGES:
        yield str(page.relative_to(ROOT)), page.read_text(encoding="utf-8")
    for file in CODE:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if documented and (said := ast.get_docstring(node)):
                yield f"{file.relative_to(ROOT)}: {getattr(node, 'name', 'module')}", said


@cache
def names_of_files() -> frozenset[str]:
    return frozenset(file.name for name in TOP for file in (ROOT / name).rglob("*") if file.is_file())


@cache
def names_of_tests() -> Mapping[str, frozenset[str]]:
    return {
        file.name: frozenset(
            node.name for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)
        )
        for file in (ROOT / "tests").glob("test_*.py")
    }


def missing_paths(text: str) -> list[str]:
    """Paths that lead nowhere. `<stage>` and `*` stand for any name, and must fit one."""
    found = [path.rstrip(".-") for path in PATH.findall(text)]
    return [path for path in found if not any(ROOT.glob(re.sub(r"<\w+>", "*", path).rstrip("/")))]


def missing_names(text: str) -> list[str]:
    """File names without a folder that no file of the project has."""
    return [name for name in BARE.findall(text) if name not in names_of_files()]


def missing_tests(text: str) -> list[str]:
    """`file::test` that does not exist, with the nearest that does."""
    return [
        f"{file}::{test} (nearest: {difflib.get_close_matches(test, names_of_tests().get(file, ()), n=1)})"
        for file, test in TEST.findall(text)
        if test not in names_of_tests().get(file, ())
    ]


@cache
def names_of_functions() -> frozenset[str]:
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in CODE]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return frozenset(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, kinds))


def missing_functions(text: str) -> list[str]:
    return [name for name in CALL.findall(text) if name not in names_of_functions()]


def targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))


def missing_targets(text: str) -> list[str]:
    return [name for name in MAKE.findall(text) if name not in targets()]


@pytest.mark.parametrize("missing", [missing_paths, missing_names, missing_tests])
def test_everything_that_is_named_exists(missing: Callable[[str], list[str]]) -> None:
    assert {where: wrong for where, text in texts() if (wrong := missing(text))} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_make_target_and_function_of_a_page_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert missing_functions(text) == []
    assert missing_targets(text) == []
    assert [link for link in LINK.findall(text) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize(
    ("missing", "planted"),
    [
        (missing_paths, "see jobs/corpora/nowhere.py, which"),
        (missing_paths, "every `jobs/<stage>/nowhere.py`"),
        (missing_names, "what nowhere.py does"),
        (missing_tests, "`test_docs.py::test_nothing`"),
        (missing_tests, "`test_nowhere.py::test_nothing`"),
        (missing_targets, "run `make nothing`"),
        (missing_functions, "one `make_nothing(...)` in"),
    ],
)
def test_what_does_not_exist_would_be_seen(missing: Callable[[str], list[str]], planted: str) -> None:
    assert len(missing(planted)) == 1
    assert (
        missing("jobs/configs.py, `cli.py`, jobs/<stage>/job.py, test_docs.py::test_every_law_has_a_test, `make demo`.")
        == []
    )


def commands_in(page: Path) -> list[str]:
    blocks = "\n".join(re.findall(r"```\w*\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)).replace("\\\n", " ")
    return [line for line in blocks.splitlines() if line.startswith("attn ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_is_one_that_attn_takes(page: Path) -> None:
    for line in commands_in(page):
        parser().parse_args(words_of(line))


def test_every_law_has_a_test() -> None:
    laws = re.split(r"^- ", LAWS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert laws
    assert [law.splitlines()[0] for law in laws if not TEST.search(law)] == []


def answers() -> dict[str, tuple[str, str]]:
    """The module and function that answer each command of `attn`."""
    (commands,) = [action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)]
    found = {name: str(command.get_default("function")).split(":") for name, command in commands.choices.items()}
    return {name: (f"pipelines.commands.{module}", function) for name, (module, function) in found.items()}


@pytest.mark.parametrize("command", answers())
def test_every_command_has_an_answer_that_takes_the_arguments(command: str) -> None:
    module, function = answers()[command]
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    (found,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    assert len(found.args.args) == 1
    assert isinstance(found.returns, ast.Name)
    assert found.returns.id == "int"


@pytest.mark.slow
def test_every_answer_loads() -> None:
    for module, function in answers().values():
        assert callable(getattr(importlib.import_module(module), function))
