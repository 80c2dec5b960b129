"""`attn results`: the paper's layout, the best of many, and a filter as a person would write it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from jobs.errors import UserError
from pipelines.commands.results import print_rows, rules, show_table, table_rows
from pipelines.tracking.query import Result, best, pick, quoted
from transformer.paper_figures import TABLE_3


def result(row: str, bleu: float, *, seed: str = "1", perplexity: float = 5.0) -> Result:
    metrics = {"bleu": bleu, "bleu_paper": bleu + 0.5, "perplexity": perplexity, "parameters": 65e6}
    tags = {"attn.table": "3"}
    name = f"{row}-{seed}".encode().hex()
    return Result(name, "table3", row, seed, "dev", name[::-1], "2026-01-01", metrics, {"num_heads": "8"}, tags)


BASE = [result("base", bleu, seed=seed) for seed, bleu in (("1", 25.0), ("2", 25.1), ("3", 24.9))]
FOUND = [result("big", 26.9), result("A/h=1", 24.0), *BASE, result("A/h=16", 24.9)]


def test_table_3_stands_in_the_paper_s_order_beside_the_paper() -> None:
    rows = [row for row in table_rows(FOUND, 3) if row["seeds"]]
    assert [row["row"] for row in rows] == ["base", "A/h=1", "A/h=16", "big"]
    names = list(TABLE_3)
    assert [row["row"] for row in table_rows([result(name, 1.0) for name in sorted(names)], 3)] == names
    one = rows[1]
    assert (one["BLEU"], one["BLEU paper"], one["PPL paper"]) == (24.0, 24.9, 5.29)
    assert (one["to base"], one["paper's"], one["sign agrees"]) == (-1.0, -0.9, "yes")
    assert rows[2]["sign agrees"] is None, "the paper's h=16 is level with base: there is no sign to agree with"
    assert rows[0]["to base"] is None


def test_the_sign_is_judged_by_the_paper_s_protocol_as_the_report_does() -> None:
    one = result("A/h=1", 25.4)  # better than base by sacreBLEU, worse by the paper's protocol, as in the paper
    one = replace(one, metrics={**one.metrics, "bleu_paper": 25.0})
    base = [replace(seed, metrics={**seed.metrics, "bleu_paper": 25.5}) for seed in BASE]
    row = table_rows([*base, one], 3)[1]
    assert (row["to base"], row["paper's"], row["sign agrees"]) == (-0.5, -0.9, "yes")


def test_a_sign_takes_a_difference_beyond_chance_and_the_rule_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    close = [*BASE, result("A/h=1", 24.6)]  # ± 0.10 over three seeds: 0.50 for a row of one
    assert table_rows(close, 3)[1]["sign agrees"] is None
    assert table_rows([*BASE, result("A/h=1", 24.4)], 3)[1]["sign agrees"] == "yes"
    assert "by more than 0.50 BLEU for a row of one seed" in rules(close)[0]
    alone = [result("base", 25.0), result("A/h=1", 20.0)]
    assert table_rows(alone, 3)[1]["sign agrees"] is None
    assert "--seeds 3" in rules(alone)[0]


def test_results_of_other_settings_are_no_seeds_of_a_row() -> None:
    older = [replace(one, params={"num_heads": "8", "steps": "7"}, metrics={"bleu": 0.0}) for one in BASE]
    rows = table_rows([*FOUND, *older], 3)
    assert (rows[0]["BLEU"], rows[0]["seeds"]) == (25.0, 3)


def test_several_seeds_are_a_mean_and_a_spread() -> None:
    rows = table_rows([*FOUND, result("A/h=1", 26.0, seed="2")], 3)
    assert (rows[1]["BLEU"], rows[1]["±"], rows[1]["seeds"]) == (25.0, 1.41, 2)


def test_the_best_is_the_highest_bleu_and_the_lowest_perplexity() -> None:
    found = [result("a", 20.0, perplexity=4.0), result("b", 30.0, perplexity=6.0)]
    assert best(found, "bleu").row == "b"
    assert best(found, "perplexity").row == "a"
    with pytest.raises(UserError, match=r"There is no metric 'blue'\. Did you mean bleu\?"):
        best(found, "blue")


def test_a_run_is_picked_by_row_recipe_id_or_the_start_of_one() -> None:
    assert pick(FOUND, "A/h=1").row == "A/h=1"
    assert pick(FOUND, "table3:big").row == "big"
    assert pick(FOUND, FOUND[1].run_id[:10]).row == "A/h=1"
    with pytest.raises(UserError, match="No scored run is named"):
        pick(FOUND, "nothing")


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("params.num_heads = 8", "params.num_heads = '8'"),
        ("params.num_heads = 8 and metrics.dev_bleu > 20", "params.num_heads = '8' and metrics.dev_bleu > 20"),
        ("params.positions != learned", "params.positions != 'learned'"),
        ("params.num_heads = '8'", "params.num_heads = '8'"),
    ],
)
def test_a_filter_may_leave_out_mlflow_s_quotes(written: str, asked: str) -> None:
    assert quoted(written) == asked


def test_every_format_holds_the_same_figures(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row for row in table_rows(FOUND, 3) if row["seeds"]]
    said = {}
    for form in ("json", "csv", "markdown", "table"):
        print_rows(rows, form)
        said[form] = capsys.readouterr().out
    assert [row["BLEU"] for row in json.loads(said["json"])] == [25.0, 24.0, 24.9, 26.9]
    assert said["csv"].splitlines()[0].startswith("recipe,row,PPL")
    assert all("24.9" in text for text in said.values())
    assert "…" not in said["table"], "a pipe takes lines of any length"
    assert said["table"].splitlines()[0].split()[:3] == ["recipe", "row", "PPL"]
    assert said["markdown"].splitlines()[1].startswith("|---|")


@pytest.mark.parametrize(("table", "there"), [(2, "41.8"), (3, "26.4"), (4, "92.7")])
def test_a_table_of_which_nothing_was_run_is_the_paper_s_with_what_to_run(
    table: int, there: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_table([], table, "table")
    said = capsys.readouterr().out
    assert there in said
    assert "BLEU" in said or "F1" in said
    assert "Nothing of ours yet: `attn run " in said


def test_rows_that_were_not_run_stand_there_empty() -> None:
    rows = table_rows([*BASE, result("A/h=1", 24.4)], 3)
    assert [row["row"] for row in rows] == list(TABLE_3)
    empty = next(row for row in rows if row["row"] == "C/N=2")
    assert (empty["BLEU"], empty["BLEU paper"], empty["sign agrees"]) == (None, 23.7, None)
