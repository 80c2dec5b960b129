"""`attn results`: the scores in MLflow, for a table of the paper in its layout."""

from __future__ import annotations

import argparse
import csv
import io
import json
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from jobs.errors import UserError, refuse_unknown
from jobs.passwords import hidden
from jobs.report.agreement import Bleu, Mean, bleu_difference, rule
from pipelines.commands import compare, lab
from pipelines.execution.workspace import Workspace
from pipelines.recipes.saved import is_recipe, names
from pipelines.tracking.lab_query import lab_rows
from pipelines.tracking.query import Result, best, pick, read
from pipelines.tracking.server import is_absent, reader, tracking_uri
from transformer.paper_figures import TABLE_3, TABLE_4, Figures, figures_of

PAPER_ROWS = {2: ("base-en-de", "big-en-de", "base-en-fr", "big-en-fr"), 3: tuple(TABLE_3)}  # as ours are called
TO_RUN = {
    2: "`attn run table2` makes all four, `attn plan table2 --on gpu8` says what that takes",
    3: "`attn run table3-demo` makes every row on the demo language, `attn run table3` the paper's",
    4: "`attn run parsing-demo` makes a parser of a small language, `attn run parsing-wsj` the paper's",
}
ALWAYS = ("BLEU", "F1")  # columns that are shown even where they are empty
SIGNS = {True: "yes", False: "no", None: None}


def results(args: argparse.Namespace) -> int:
    workspace = Workspace(args.workspace)
    if args.table and is_absent(workspace):
        show_table([], args.table, args.format)
        return 0
    client = reader(workspace)
    if args.lab:
        print_lab(lab_rows(client, hidden(tracking_uri(workspace))), args.format)
        return 0
    if args.compare:
        found = read(client, None, None)
        return compare.compare(pick(found, args.compare[0]), pick(found, args.compare[1]), workspace, args.format)
    if args.recipe and "'" in args.recipe:  # it would end the filter that MLflow is asked by
        refuse_unknown("recipe", args.recipe, names(workspace))
    found = read(client, args.recipe, args.where)
    if args.table:
        found = [result for result in found if result.tags.get("attn.table") == str(args.table)]
    if not found and args.recipe and not is_recipe(args.recipe, workspace):
        refuse_unknown("recipe", args.recipe, names(workspace))
    if not found and not (args.table and not args.where):
        raise UserError(
            f"MLflow at {hidden(tracking_uri(workspace))} has no such scores. `attn run demo` makes some; "
            f"`attn results` without options shows all there are."
        )
    if args.best:
        found = [best(found, args.best)]
    if args.table:
        show_table(found, args.table, args.format)
    else:
        print_rows([listed(result) for result in found], args.format)
    return 0


def show_table(found: Sequence[Result], table: int, form: str, console: Console | None = None) -> None:
    """The paper's table with ours beside it, empty where nothing was run, and then what to run."""
    rows = table_4_rows(found) if table == 4 else table_rows(found, table)
    print_rows(rows, form, console)
    console = console or Console(highlight=False)
    if form in ("table", "markdown"):
        lines = rules(found) if table == 3 else []
        for line in lines if found else [f"Nothing of ours yet: {TO_RUN[table]}."]:
            console.print(f"\n{line}", soft_wrap=True, markup=False)


def print_lab(rows: Sequence[Mapping[str, Any]], form: str) -> None:
    """Claims are sentences: on a terminal they wrap, where other results leave columns out."""
    if form == "table" and (console := Console(highlight=False)).is_terminal:
        lab.verdicts(console, rows)
    else:
        print_rows(rows, form)


def listed(result: Result) -> dict[str, Any]:
    """A result as a line of a list."""
    low, high = result.metrics.get("bleu_low"), result.metrics.get("bleu_high")
    return {  # the most important first: a narrow terminal shows as many as fit
        "recipe": result.recipe,
        "row": result.row,
        "set": result.set,
        "BLEU": number(result.metrics.get("bleu"), 2),
        "95 %": f"{low:.1f}-{high:.1f}" if low is not None and high is not None else None,
        "F1": number(result.metrics.get("f1"), 2),
        "PPL": number(result.metrics.get("perplexity"), 3),
        "parameters": number(result.metrics.get("parameters"), 0),
        "run": result.run_id[:8],
        "BLEU the paper's way": number(result.metrics.get("bleu_paper"), 2),
        "chrF": number(result.metrics.get("chrf"), 2),
        "updates": result.params.get("training.steps", result.params.get("steps")),
        "when": result.when,
        "fingerprint": result.fingerprint,
    }


def table_rows(found: Sequence[Result], table: int) -> list[dict[str, Any]]:
    """The paper's layout: ours beside the paper's, differences to base on both sides, and whether their signs agree."""
    rows: list[dict[str, Any]] = []
    by_recipe = by_row(found)
    for recipe, groups in by_recipe.items():
        known = groups.keys() | (TABLE_3 if table == 3 else ())
        base = groups.get("base")
        for row in sorted(known, key=lambda row: paper_order(table, row)):
            rows.append(table_row(table, recipe, row, groups.get(row, []), base))
    if table == 3 and rows:
        return rows
    there = {row for groups in by_recipe.values() for row in groups}
    return rows + [table_row(table, "", row, [], None) for row in PAPER_ROWS[table] if row not in there]


def by_row(found: Sequence[Result]) -> dict[str, dict[str, list[Result]]]:
    """By recipe and row: the newest (`found` begins with it), and those that differ from it in the seed alone."""
    recipes: dict[str, dict[str, list[Result]]] = {}
    for result in found:
        group = recipes.setdefault(result.recipe, {}).setdefault(result.row, [])
        fits = not group or settings_of(result) == settings_of(group[0])
        if fits and all(result.seed != other.seed for other in group):
            group.append(result)
    return recipes


def settings_of(result: Result) -> dict[str, str]:
    return {name: value for name, value in result.params.items() if name.rpartition(".")[2] != "seed"}


def rules(found: Sequence[Result]) -> list[str]:
    """Below Table 3: when a row has a sign."""
    lines = []
    for recipe, groups in by_row(found).items():
        if "base" in groups and len(groups) > 1:
            base = bleu_of(groups["base"], None)
            lines.append(f"{recipe}: {rule(base.paper_protocol or base.sacrebleu, 'BLEU')}")
    return lines


def paper_order(table: int, row: str) -> tuple[int, str]:
    """Rows of the paper as they stand there, then those it does not have by name."""
    order = list(TABLE_3) if table == 3 else []
    return (order.index(row) if row in order else len(order), row)


def table_row(
    table: int, recipe: str, row: str, group: Sequence[Result], base: Sequence[Result] | None
) -> dict[str, Any]:
    paper, paper_base = figures_of(table, row), figures_of(table, "base")
    bleu, ppl = mean(group, "bleu"), mean(group, "perplexity")
    to_base = None
    if base and group and row != "base":
        to_base = bleu_difference(bleu_of(group, paper), bleu_of(base, paper_base))
    return {
        "recipe": recipe,
        "row": row,
        "PPL": number(ppl, 2),
        "PPL paper": paper.perplexity if paper else None,
        "BLEU": number(bleu, 2),
        "±": number(spread(group, "bleu"), 2),
        "BLEU paper": paper.bleu if paper else None,
        "to base": number(to_base.ours if to_base else None, 2),
        "paper's": number(to_base.paper if to_base else None, 1),
        "sign agrees": SIGNS[to_base.agrees if to_base else None],
        "parameters": number(mean(group, "parameters"), 0),
        "paper's parameters": paper.parameters if paper else None,
        "BLEU as the paper": number(mean(group, "bleu_paper"), 2),
        "seeds": len({result.seed for result in group}) or None,
    }


def table_4_rows(found: Sequence[Result]) -> list[dict[str, Any]]:
    """The paper's parsers, then ours: F1 of all sentences, of a free search and of one among well-formed trees."""
    theirs = [
        dict.fromkeys(table_4_row("", "", "", []))
        | {"parser": parser.name, "training": parser.training, "set": "WSJ 23", "F1": parser.f1}
        for parser in TABLE_4
    ]
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in found:
        groups.setdefault((result.recipe, result.row, result.set), []).append(result)
    return theirs + [table_4_row(*named, group) for named, group in sorted(groups.items())]


def table_4_row(recipe: str, row: str, scored: str, group: Sequence[Result]) -> dict[str, Any]:
    paper = figures_of(4, recipe)
    return {
        "parser": f"ours: {recipe}" + (f" {row}" if row not in ("model", recipe) else ""),
        "training": None,
        "set": scored,
        "F1": number(mean(group, "f1"), 2),
        "±": number(spread(group, "f1"), 2),
        "F1 well-formed": number(mean(group, "f1_well_formed"), 2),
        "F1 by EVALB": number(mean(group, "f1_evalb"), 2),
        "its errors": number(mean(group, "evalb_errors"), 0),
        "malformed %": number(mean(group, "malformed_percent"), 2),
        "paper F1": paper.f1 if paper else None,
        "F1 to 40 words": number(mean(group, "f1_to_40_words"), 2),
        "parameters": number(mean(group, "parameters"), 0),
        "seeds": len({result.seed for result in group}) if group else None,
    }


def bleu_of(group: Sequence[Result], paper: Figures | None) -> Bleu:
    return Bleu(
        sacrebleu=over_seeds(group, "bleu"),
        paper_protocol=over_seeds(group, "bleu_paper"),
        paper=paper.bleu if paper else None,
    )


def over_seeds(group: Sequence[Result], metric: str) -> Mean | None:
    value = mean(group, metric)
    seeds = sum(metric in result.metrics for result in group)
    return None if value is None else Mean(value=value, spread=spread(group, metric), seeds=seeds)


def mean(group: Iterable[Result], metric: str) -> float | None:
    values = [result.metrics[metric] for result in group if metric in result.metrics]
    return statistics.fmean(values) if values else None


def spread(group: Sequence[Result], metric: str) -> float | None:
    values = [result.metrics[metric] for result in group if metric in result.metrics]
    return statistics.stdev(values) if len(values) > 1 else None


def number(value: float | None, digits: int) -> float | int | None:
    if value is None:
        return None
    return round(value, digits) if digits else int(value)


def print_rows(rows: Sequence[Mapping[str, Any]], form: str, console: Console | None = None) -> None:
    """Print rows that all have the same columns; a column that is empty everywhere is left out of a table."""
    if form == "json":
        print(json.dumps(list(rows), indent=1, ensure_ascii=False))
        return
    columns = [
        name for name in rows[0] if form == "csv" or name in ALWAYS or any(row[name] is not None for row in rows)
    ]
    if form == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([columns, *([row[name] for name in columns] for row in rows)])
        sys.stdout.write(text.getvalue())
    elif form == "markdown":
        print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
        for row in rows:
            print("| " + " | ".join(cell(row[name]) for name in columns) + " |")
    else:
        _table(rows, columns, console or Console(highlight=False))


def _table(rows: Sequence[Mapping[str, Any]], columns: list[str], console: Console) -> None:
    """As many columns as fit on a terminal, the most important first; all of them in a pipe or a file."""
    widths = {name: max(len(name), *(len(cell(row[name])) for row in rows)) + 2 for name in columns}
    while console.is_terminal and len(columns) > 3 and sum(widths[name] for name in columns) > console.width + 2:
        columns = columns[:-1]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        numeric = all(isinstance(row[name], int | float) or row[name] is None for row in rows)
        table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(cell(row[name]) for name in columns))
    if not console.is_terminal:
        console = Console(file=console.file, highlight=False, width=sum(widths[name] for name in columns))
    console.print(table, crop=False)


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and value >= 10_000 and not isinstance(value, bool):
        return f"{value / 1e6:.1f}M" if value >= 1_000_000 else f"{value:,}"
    return f"{value / 1e6:.0f}M" if isinstance(value, float) and value >= 1e6 else str(value)
