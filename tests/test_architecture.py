"""The shape of the project: who may import whom, and what planning may load."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

PACKAGES = ("pipelines", "jobs", "transformer")
MAY_NOT_IMPORT = {
    "transformer": {"ray", "mlflow", "pyarrow", "jobs", "pipelines"},
    "jobs": {"mlflow", "pipelines"},
    "pipelines": set(),
}
HEAVY = {"ray", "torch", "mlflow", "pyarrow", "pandas", "numpy", "sentencepiece", "sacrebleu"}
FILES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))


def imported(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names.add((node.module or "").partition(".")[0])
    return names


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_imports_go_one_way(file: Path) -> None:
    package = file.relative_to(ROOT).parts[0]
    assert not imported(file) & MAY_NOT_IMPORT[package]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_says_what_lives_in_it(file: Path) -> None:
    assert ast.get_docstring(ast.parse(file.read_text())), "a module opens with what lives in it"


@pytest.mark.parametrize("package", PACKAGES)
def test_init_holds_a_docstring_and_nothing_else(package: str) -> None:
    assert len(ast.parse((ROOT / package / "__init__.py").read_text()).body) == 1


@pytest.mark.parametrize("command", [["--help"], ["recipes"], ["plan", "table3"], ["run", "--help"]])
def test_planning_loads_nothing_heavy(command: list[str], tmp_path: Path) -> None:
    code = (
        "import sys, json, contextlib, io\n"
        "from pipelines.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        f"    main({command!r})\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True, timeout=60
    )
    assert not set(json.loads(done.stdout)) & HEAVY
