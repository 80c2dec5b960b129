"""`attn report`: a recipe's report, summed up for a terminal; `--open` shows its page."""

from __future__ import annotations

import argparse
import csv
import webbrowser
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from jobs.durations import duration
from pipelines.execution.workspace import Workspace
from pipelines.recipes import from_arguments
from pipelines.terminal.json_output import print_json

COLUMNS = (  # heading, column of results.csv, its spread over seeds, decimals
    ("PPL", "perplexity", "perplexity_spread", 2),
    ("F1", "f1", "f1_spread", 1),
    ("BLEU", "bleu", "bleu_spread", 1),
    ("paper's way", "bleu_paper", "bleu_paper_spread", 1),
    ("paper", "paper_bleu", "", 1),
    ("parameters", "parameters", "", 0),
    ("updates", "updates", "", 0),
)


def report(args: argparse.Namespace) -> int:
    recipe, targets = from_arguments.targets(args)
    workspace = Workspace(args.workspace)
    record = workspace.finished(targets[-1], recipe.name)
    artifact = workspace.artifact(targets[-1])
    page = artifact.at("report.html")
    if args.json:
        print_json({"html": page, "markdown": artifact.at("report.md"), "csv": artifact.at("results.csv"), **record})
        return 0
    console = Console()
    rows = list(csv.DictReader(artifact.read_text("results.csv").splitlines()))
    console.print(results(record["config"]["title"], rows))
    signature = next((row["bleu_signature"] for row in rows if row.get("bleu_signature")), "")
    if signature:
        console.print(f"BLEU: {signature}", soft_wrap=True, markup=False)
    console.print(f"Made {record['made']['when']} in {duration(record['made']['seconds'])}.")
    console.print(f"The page: {page}", soft_wrap=True, markup=False)
    if args.open and artifact.is_local:
        webbrowser.open(f"file://{page}")
    elif args.open:
        console.print("It is in an object store: copy it to open it.")
    else:
        console.print("--open shows it in a browser; attn results compares runs.")
    return 0


def results(title: str, rows: Sequence[Mapping[str, str]]) -> Table:
    """A line for each row, with the columns that any of them has."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("row")
    shown = [column for column in COLUMNS if any(row.get(column[1]) for row in rows)]
    for heading, *_ in shown:
        table.add_column(heading, justify="right")
    for row in rows:
        seeds = f" ({row['seeds']} seeds)" if int(row["seeds"]) > 1 else ""
        cells = [figure(row.get(name, ""), row.get(spread, ""), decimals) for _, name, spread, decimals in shown]
        table.add_row(row["row"] + seeds, *cells)
    return table


def figure(value: str, spread: str, decimals: int) -> str:
    if not value:
        return "–"
    return f"{float(value):,.{decimals}f}" + (f" ± {float(spread):.{decimals}f}" if spread else "")
