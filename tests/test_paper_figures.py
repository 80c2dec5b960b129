"""The paper's figures, checked against each other: a slip of the keyboard in one of them breaks a law they obey."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from transformer import paper_figures


def test_table_3_has_the_papers_rows() -> None:
    groups = [name.partition("/")[0] for name in paper_figures.TABLE_3]
    assert groups == ["base"] + ["A"] * 4 + ["B"] * 2 + ["C"] * 7 + ["D"] * 4 + ["E", "big"]


def test_the_sums_of_table_3_are_right() -> None:
    """Sums over the columns, taken from a transcript of the paper: one wrong digit in any row shows."""
    rows = paper_figures.TABLE_3.values()
    assert sum(row.perplexity for row in rows) == pytest.approx(101.87)
    assert sum(row.bleu for row in rows) == pytest.approx(507.7)
    assert sum(row.parameters or 0 for row in rows) == pytest.approx(901)


def test_only_big_is_trained_for_longer() -> None:
    assert {name for name, row in paper_figures.TABLE_3.items() if row.steps != 100_000} == {"big"}
    assert paper_figures.TABLE_3["big"].steps == 300_000


def test_the_flops_of_table_2_come_out_of_the_papers_formula() -> None:
    base, big = (next(row for row in paper_figures.TABLE_2 if row.ours == name) for name in ("base", "big"))
    assert paper_figures.training_flops(12 * 3600, 8) == pytest.approx(base.en_de_flops, rel=0.01)
    assert paper_figures.training_flops(3.5 * 86_400, 8) == pytest.approx(big.en_de_flops, rel=0.01)


def test_the_transformers_beat_what_the_paper_says_they_beat() -> None:
    others = [row for row in paper_figures.TABLE_2 if row.ours is None]
    base, big = (next(row for row in paper_figures.TABLE_2 if row.ours == name) for name in ("base", "big"))
    assert base.en_de is not None
    assert big.en_fr is not None
    assert all(row.en_de is None or row.en_de < base.en_de for row in others)
    assert all(row.en_fr is None or row.en_fr < big.en_fr for row in others)
    assert len(others) == 8


def test_table_4_has_twelve_parsers_two_of_them_transformers() -> None:
    assert len(paper_figures.TABLE_4) == 12
    assert [row.f1 for row in paper_figures.TABLE_4 if row.ours] == [91.3, 92.7]
    assert sum(row.f1 for row in paper_figures.TABLE_4) == pytest.approx(1097.9)


@pytest.mark.parametrize(
    ("row", "pair", "bleu"),
    [
        ("base", "en-de", 27.3),
        ("big", "en-fr", 41.8),
        ("base-en-fr", "en-de", 38.1),  # the row's own pair goes first
        ("big/en-de", "en-fr", 28.4),
        ("base@seed2", "en-de", 27.3),
    ],
)
def test_a_row_of_table_2_is_found_by_model_and_pair(row: str, pair: str, bleu: float) -> None:
    found = paper_figures.figures_of(2, row, pair)
    assert found is not None
    assert found.bleu == bleu


def test_a_row_of_table_3_carries_parameters_in_full() -> None:
    found = paper_figures.figures_of(3, "A/h=1")
    assert found is not None
    assert found.perplexity == 5.29
    assert found.parameters == 65e6  # blank in the paper: the base model's
    seed = paper_figures.figures_of(3, "C/N=2@seed3")
    assert seed is not None
    assert seed.parameters == 36e6


@pytest.mark.parametrize(
    ("table", "row", "pair"), [(3, "mine", "en-de"), (2, "base", "cs-en"), (None, "base", "en-de")]
)
def test_what_the_paper_does_not_have_is_none(table: int | None, row: str, pair: str) -> None:
    assert paper_figures.figures_of(table, row, pair) is None


def test_only_the_standard_library_is_loaded() -> None:
    tree = ast.parse(Path(paper_figures.__file__).read_text(encoding="utf-8"))
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert all(name.partition(".")[0] in sys.stdlib_module_names for name in names)
