"""`attn lab`: the paper's mechanisms, each measured. Without a name it lists the experiments; with one it runs them."""

from __future__ import annotations

import argparse
import csv
import importlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from jobs.errors import UserError
from jobs.lab.questions import QUESTIONS
from pipelines.execution.workspace import Workspace
from pipelines.recipes import lab as recipe
from pipelines.steps.step import Step
from pipelines.terminal.json_output import print_json

COLOURS = {"holds": "green", "does not hold": "red", "not shown here": "yellow"}


def lab(args: argparse.Namespace) -> int:
    if not args.name:
        return listing(args.json)
    if args.json:
        raise UserError("--json is for the list. What an experiment found: attn results --lab --json.")
    page = recipe.page(args.name, args.changes, quick=args.quick, seeds=args.seeds)

    def ending(console: Console, workspace: Workspace) -> None:
        show(console, workspace, page)

    summary = "The lab: " + ", ".join(recipe.names_of(args.name)) + (" (a quick look)" if args.quick else "")
    run = importlib.import_module("pipelines.commands.run")
    return int(run.follow(args, name="lab", summary=summary, targets=[page], ending=ending))


def listing(as_json: bool) -> int:
    if as_json:
        print_json([{"name": name, **asdict(question)} for name, question in QUESTIONS.items()])
        return 0
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0))
    for name in ("experiment", "question", "the paper", "minutes"):
        table.add_column(name, no_wrap=name in ("experiment", "minutes"), style="bold" if name == "experiment" else "")
    for name, question in QUESTIONS.items():
        table.add_row(name, question.question, question.paper, f"{question.minutes:g}")
    console = Console(highlight=False)
    console.print(table)
    console.print("attn lab NAME runs one, attn lab all runs all and makes one page; --quick for a first look.")
    return 0


def show(console: Console, workspace: Workspace, page: Step) -> None:
    """The verdicts, and where the page is."""
    artifact = workspace.artifact(page)
    verdicts(console, list(csv.DictReader(io.StringIO(artifact.read_text("verdicts.csv")))))
    console.print(f"\nPage: {artifact.at('lab.html')}", soft_wrap=True)


def verdicts(console: Console, lines: Sequence[Mapping[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("experiment", "claim", "measured", "verdict"):
        table.add_column(name, no_wrap=name in ("experiment", "verdict"), style="bold" if name == "experiment" else "")
    before = ""
    for line in lines:
        name = line["experiment"] if line["experiment"] != before else ""
        before = line["experiment"]
        colour = COLOURS[line["verdict"]]
        table.add_row(name, line["claim"], line["measured"], f"[{colour}]{line['verdict']}[/]")
    console.print()
    console.print(table)
