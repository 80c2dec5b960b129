"""The shape of the project: who may import whom, and what planning may load."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from jobs.stage import Stage

PACKAGES = ("pipelines", "jobs", "transformer")
MAY_NOT_IMPORT = {
    "transformer": {"ray", "mlflow", "pyarrow", "jobs", "pipelines"},
    "jobs": {"mlflow", "pipelines"},
    "pipelines": set(),
}
HEAVY = {"ray", "torch", "mlflow", "pyarrow", "pandas", "numpy", "sentencepiece", "sacrebleu"}
FILES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))


STANDARD_LIBRARY = {"_exit", "_replace", "_SubParsersAction"}  # documented, but for the last: a type with no other name
PRIVATE_OF_RAY = re.compile(r"ray\.[\w.]*\b_(?:internal|private)\b|internal_kv|\bray\.[\w.]*\._\w+")
RAY_VARIABLE = re.compile(r"\bRAY_[A-Za-z0-9_]+")
DOCUMENTED = {  # by Ray, for its users
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO",  # in the warning that it silences
    "RAY_ADDRESS",
    "RAY_API_SERVER_ADDRESS",
    "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN",
    "RAY_AUTH_TOKEN_PATH",
    "RAY_DATA_DISABLE_PROGRESS_BARS",
    "RAY_DEDUP_LOGS",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER",  # in "Starting Ray": 0 keeps a Ray of one machine to the loopback device
    "RAY_HEAD_IP",  # set by `ray up` for the commands of a cluster definition
    "RAY_SERVE_ENABLE_HA_PROXY",  # by "Enable High Throughput on Ray Serve with KubeRay"
    "RAY_SERVE_THROUGHPUT_OPTIMIZED",
    "RAY_TRAIN_ENABLE_STATE_TRACKING",  # by the dashboard's Train page
    "RAY_USAGE_STATS_ENABLED",
}
ALLOWED = {  # private names in use: what, where, why. Ray: none.
    (
        "transformer/cpu/linear.py",
        "_linear_pointwise",
    ): "oneDNN's product, a tenth faster; PyTorch has no public name for it",
    (
        "transformer/cpu/linear.py",
        "_reorder_linear_weight",
    ): "lays a weight out for it once an update: 3 % of base's update",
}


def private_names(file: Path) -> set[str]:
    """Attributes and imports that begin with one underscore, but for our own (`self._x`, functions of the file)."""
    tree = ast.parse(file.read_text())
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            whose = node.value.id if isinstance(node.value, ast.Name) else ""
            if whose not in ("self", "cls") and node.attr not in own:
                found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {part for part in node.module.split(".") if part.startswith("_") and part != "__future__"}
            found |= {alias.name for alias in node.names if alias.name.startswith("_")}
        elif isinstance(node, ast.Import):
            found |= {part for alias in node.names for part in alias.name.split(".") if part.startswith("_")}
    return found


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
def test_no_private_name_of_a_library_is_used(file: Path) -> None:
    allowed = {name for where, name in ALLOWED if where == str(file.relative_to(ROOT))}
    assert private_names(file) - STANDARD_LIBRARY == allowed
    assert not PRIVATE_OF_RAY.search(file.read_text())


def test_nor_do_tests_and_benchmarks_reach_into_ray() -> None:
    others = [
        file for folder in ("tests", "benchmarks") for file in (ROOT / folder).rglob("*.py") if file != Path(__file__)
    ]
    assert others
    assert [file for file in others if PRIVATE_OF_RAY.search(file.read_text())] == []


@pytest.mark.parametrize(
    "code",
    [
        "from ray.train.v2._internal.execution import controller",
        "import ray._private.worker",
        "ray._private.state.state.get_cluster_config()",
        "from torch import _dynamo",
        "result._checkpoint_manager",
    ],
)
def test_a_private_name_would_be_seen(code: str, tmp_path: Path) -> None:
    file = tmp_path / "planted.py"
    file.write_text(code)
    assert private_names(file)


def test_ray_is_set_by_documented_variables_only() -> None:
    shipped = [file for file in (ROOT / "infra").rglob("*") if file.is_file() and file.suffix not in (".pyc", ".json")]
    used = {name for file in [*FILES, *shipped] for name in RAY_VARIABLE.findall(file.read_text())}
    assert used - DOCUMENTED == set()


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_says_what_lives_in_it(file: Path) -> None:
    assert ast.get_docstring(ast.parse(file.read_text())), "a module opens with what lives in it"


def test_every_folder_with_code_is_a_package() -> None:
    assert {file.parent for file in FILES} == {file.parent for file in FILES if file.name == "__init__.py"}


@pytest.mark.parametrize("file", [file for file in FILES if file.name == "__init__.py"], ids=str)
def test_init_holds_a_docstring_and_nothing_else(file: Path) -> None:
    assert len(ast.parse(file.read_text()).body) == 1


STAGES = sorted(file.parent.name for file in (ROOT / "jobs").glob("*/stage.py"))


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_is_one_folder_that_says_it_once(name: str) -> None:
    module = importlib.import_module(f"jobs.{name}.stage")
    (stage,) = [value for value in vars(module).values() if isinstance(value, Stage)]
    assert stage.name == name, "its directory in the workspace and its folder here have one name"
    assert (ROOT / f"{stage.job.replace('.', '/')}.py").is_file()


STAGE_NAME = re.compile(r"stage(?:\.name)? (?:==|!=) ['\"]|\.stage(?:\.name)? (?:not )?in [({\[]|stages\[['\"]")
RESULT_OF = re.compile(rf"(?:{'|'.join(STAGES)})/")  # the beginning of a result's key


def stages_named(code: str) -> list[str]:
    """Comparisons and look-ups by a stage's name, and keys of results that are put together by hand."""
    tree = ast.parse(code)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    text = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings]
    return STAGE_NAME.findall(code) + [each for each in text if isinstance(each, str) and RESULT_OF.match(each)]


def test_the_diagram_of_the_readme_is_the_folders_of_jobs() -> None:
    diagram = next(line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("corpora ──>"))
    drawn = [name.strip() for name in diagram.split("──>")]
    assert set(drawn) <= set(STAGES)
    assert drawn == [name for name in drawn if (ROOT / "jobs" / name / "job.py").is_file()]


@pytest.mark.parametrize(
    "code",
    [
        'if step.stage.name == "train": pass',
        'parent.stage in ("corpora", "shards")',
        'lineage.stages["train"]',
        '[key for key in records if key.startswith("score/")]',
        'f"translate/{fingerprint}"',
    ],
)
def test_the_name_of_a_stage_would_be_seen(code: str) -> None:
    assert stages_named(code)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_nobody_compares_the_names_of_stages(file: Path) -> None:
    assert stages_named(file.read_text()) == [], "let the stage say it (jobs/stage.py), or the row (rows_of)"


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


MANNERED = {"asked", "said", "told", "heard", "understood", "settle", "settled"}  # words that no engineer looks for


def names_given(code: str) -> set[str]:
    """What the code itself names: variables, arguments, attributes, functions and classes."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_names_are_plain_words(file: Path) -> None:
    assert {name.lower() for name in names_given(file.read_text())} & MANNERED == set()


@pytest.mark.parametrize("code", ["said = 1", "def f(asked): pass", "class Asked: pass", "self.told = 2"])
def test_a_mannered_name_would_be_seen(code: str) -> None:
    assert {name.lower() for name in names_given(code)} & MANNERED
