"""How a run ends on the terminal: the first row's translations, its score if it is alone, and its model."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from jobs.storage.artifacts import Artifact
from pipelines.cli import main
from pipelines.execution.runner import Outcome
from pipelines.execution.workspace import Workspace
from pipelines.recipes.recipes import RECIPES, Choice
from pipelines.steps.stages import rows_of
from pipelines.terminal import run_summary


def ended(recipe: str, choice: Choice, changed: bool, directory: Path) -> tuple[str, list[str]]:
    """What is printed, and the places of the models by row. Every row translates a sentence of its own."""
    workspace, last = Workspace(str(directory)), RECIPES[recipe].step(choice=choice)
    rows, outcome = rows_of(last), Outcome()
    for row in rows:
        line = {"source": f"source of {row.name}", "reference": "r", "hypothesis": f"translation by {row.name}"}
        with workspace.artifact(row.translations).writing("translations.parquet") as path:
            pq.write_table(pa.Table.from_pylist([line]), path)
        outcome.records[row.scores.key] = {"facts": {"bleu": 31.25, "bleu_signature": f"signature of {row.name}"}}
    console = Console(file=io.StringIO(), width=120)
    report: Artifact = workspace.artifact(last)
    run_summary.show(console, RECIPES[recipe], changed, outcome, workspace, report, rows)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue(), [workspace.artifact(row.model).uri for row in rows]


def test_one_model_ends_with_its_score(tmp_path: Path) -> None:
    text, models = ended("demo", Choice(), False, tmp_path)
    assert "translation by model" in text
    assert "BLEU 31.2   signature of model" in text
    assert models[0] not in text, "the recipe's name means this model"


def test_of_a_table_the_first_row_is_shown_and_its_model_used(tmp_path: Path) -> None:
    text, models = ended("table3-demo", Choice(rows=["A/h=1", "C/N=2"]), True, tmp_path)
    assert "Translations of the row A/h=1" in text
    assert "translation by A/h=1" in text
    assert "C/N=2" not in text
    assert "BLEU" not in text, "the table above it has the scores"
    assert f"translate {models[0]}" in text
    assert models[1] not in text


def test_a_parser_s_two_searches_are_one_row(tmp_path: Path) -> None:
    text, _ = ended("parsing-demo", Choice(), False, tmp_path)
    assert "Translations of the row" not in text


def test_data_that_was_not_made_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "show", "demo", "--workspace", str(tmp_path)]) == 2
    assert "corpora of demo is not made yet" in capsys.readouterr().err
