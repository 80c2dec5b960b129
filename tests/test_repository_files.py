"""What people look for at the top of a repository: workflow, hooks, editor settings, citation, issue templates.

Each is valid by the schema of its format, and names only make targets, commands and files that exist.
"""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from conftest import ROOT
from packaging.specifiers import SpecifierSet
from test_docs import missing_paths, missing_targets
from test_readme import words_of

from pipelines.cli import parser

WORKFLOW = ".github/workflows/check.yml"
HOOKS = ".pre-commit-config.yaml"
FORMS = sorted(
    str(file.relative_to(ROOT)) for file in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if file.stem != "config"
)
SCHEMAS = {
    WORKFLOW: "github-workflows",
    "CITATION.cff": "citation-file-format",
    ".github/ISSUE_TEMPLATE/config.yml": "github-issue-config",
    **dict.fromkeys(FORMS, "github-issue-forms"),
}
FILES = [*SCHEMAS, HOOKS, ".editorconfig", ".ci/run"]
CHECKS = {"make check", "make test"}


def load(name: str) -> Any:
    return yaml.load((ROOT / name).read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # `on:` stays a word


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_file_is_valid_by_its_schema(name: str) -> None:
    vendored = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / f"{SCHEMAS[name]}.json"
    schema = json.loads(vendored.read_text(encoding="utf-8"))
    content = yaml.safe_load((ROOT / name).read_text(encoding="utf-8").replace("\non:\n", '\n"on":\n'))
    jsonschema.validate(content, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**content, "misspelt": {}}, schema)


@pytest.mark.parametrize("name", FILES)
def test_targets_and_files_that_are_named_exist(name: str) -> None:
    text = re.sub(r"(run|entry): (make \w+)", r"`\2`", (ROOT / name).read_text(encoding="utf-8"))
    assert missing_targets(text) == []
    assert missing_paths(text) == []


def test_the_workflow_runs_the_two_make_targets_and_nothing_else() -> None:
    steps = [step for job in load(WORKFLOW)["jobs"].values() for step in job["steps"]]
    assert {step["run"] for step in steps if "run" in step} == CHECKS
    used = {step["uses"].partition("@")[0] for step in steps if "uses" in step}
    assert used == {"actions/checkout", "actions/setup-python"}


def test_the_workflow_checks_every_python_that_the_project_takes() -> None:
    admitted = SpecifierSet(project()["project"]["requires-python"])
    checked = load(WORKFLOW)["jobs"]["check"]["strategy"]["matrix"]["python"]
    assert checked == [version for version in (f"3.{minor}" for minor in range(8, 20)) if admitted.contains(version)]


def test_a_job_of_the_workflow_ends_by_itself_and_may_only_read() -> None:
    assert load(WORKFLOW)["permissions"] == {"contents": "read"}
    assert all(int(job["timeout-minutes"]) <= 90 for job in load(WORKFLOW)["jobs"].values())


def test_the_hook_is_make_check_over_the_whole_project() -> None:
    ((repository,),) = [load(HOOKS)["repos"]]
    (hook,) = repository["hooks"]
    assert repository["repo"] == "local"
    assert (hook["entry"], hook["language"]) == ("make check", "system")
    assert (hook["pass_filenames"], hook["always_run"]) == ("false", "true")


def test_continuous_integration_runs_the_same_elsewhere() -> None:
    commands = [line for line in (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines() if line.startswith("make")]
    assert set(commands) <= CHECKS


def fitting(pattern: str) -> list[Path]:
    """The project's files that a section of .editorconfig is about."""
    kinds = re.fullmatch(r"\*\.\{(.*)\}", pattern)
    patterns = [f"*.{kind}" for kind in kinds[1].split(",")] if kinds else [pattern]
    top = [ROOT / name for name in ("transformer", "jobs", "pipelines", "infra", "tests", "docs", ".github")]
    return [file for each in patterns for folder in top for file in folder.rglob(each)] + list(ROOT.glob(patterns[0]))


def test_the_editor_agrees_with_the_formatter() -> None:
    settings = configparser.ConfigParser()
    settings.read_string("[top]\n" + (ROOT / ".editorconfig").read_text(encoding="utf-8"))
    assert settings["top"]["root"] == "true"
    assert int(settings["*"]["max_line_length"]) == project()["tool"]["ruff"]["line-length"]
    assert (settings["*"]["indent_style"], settings["*"]["indent_size"]) == ("space", "4")
    assert settings["Makefile"]["indent_style"] == "tab"
    assert [pattern for pattern in settings.sections()[1:] if not fitting(pattern)] == []


def test_the_citation_is_of_this_version_and_of_the_paper() -> None:
    citation, ours = load("CITATION.cff"), project()["project"]
    assert (citation["version"], citation["license"]) == (ours["version"], ours["license"])
    (paper,) = citation["references"]
    assert (paper["title"], paper["year"], len(paper["authors"])) == ("Attention Is All You Need", "2017", 8)


@pytest.mark.parametrize("name", FORMS)
def test_an_issue_says_what_the_doctor_said(name: str) -> None:
    fields = {part["id"]: part for part in load(name)["body"]}
    assert fields["doctor"]["validations"]["required"] == "true"
    assert "attn doctor --json" in fields["doctor"]["attributes"]["description"]
    text = (ROOT / name).read_text(encoding="utf-8")
    for command in re.findall(r"`(attn [^`]+)`", text):
        parser().parse_args(words_of(command))
