"""How a finished run ends: five translations, the score with its signature, what to try next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.corpora.demo.shown import FIRST, SMALL_MODEL
from jobs.storage.artifacts import Artifact
from jobs.storage.object_store import filesystem
from pipelines.execution.runner import Outcome
from pipelines.execution.workspace import Workspace
from pipelines.recipes.recipes import Recipe
from pipelines.steps.stages import Row

SHOWN = 5
EXAMPLES = {
    "demo": FIRST,
    "parsing-demo": "The cat sleeps.",
}


def show(
    console: Console,
    recipe: Recipe,
    changed: bool,
    outcome: Outcome,
    workspace: Workspace,
    report: Artifact,
    rows: Sequence[Row],
) -> None:
    """`report` is the page that was made of the `rows`."""
    first = rows[0]
    if len(rows) > 1:
        console.print(f"\nTranslations of the row {first.name}:", markup=False)
    _translations(console, workspace.artifact(first.translations))
    if len(rows) == 1:
        _scores(console, outcome.records[first.scores.key]["facts"])
    console.print(
        f"\nReport: {Path(report.at('report.html')) if report.is_local else report.at('report.html')}", soft_wrap=True
    )
    console.print(f"\nTry next: {SMALL_MODEL if recipe.name == 'demo' else ''}".rstrip(), soft_wrap=True)
    model = workspace.artifact(first.model).uri if changed and workspace.is_local else None
    for command in next_commands(recipe, workspace, model):
        console.print(f"  {command}", soft_wrap=True, markup=False)


def _translations(console: Console, artifact: Artifact) -> None:
    store, path = filesystem(artifact, "translations.parquet")
    rows = pq.read_table(path, filesystem=store, columns=["source", "reference", "hypothesis"]).to_pylist()
    stride = max(1, len(rows) // SHOWN)
    console.print()
    for row in rows[::stride][:SHOWN]:
        table = Table.grid(padding=(0, 1))
        for label, column in (("source", "source"), ("reference", "reference"), ("ours", "hypothesis")):
            style = "bold" if label == "ours" else ""
            table.add_row(Text(f"  {label:<9}", style="dim"), Text(str(row[column]), style=style))
        console.print(table)
        console.print()


def _tree_scores(console: Console, facts: dict[str, Any]) -> None:
    low, high = facts.get("f1_low"), facts.get("f1_high")
    interval = f" (95 % interval {low:.1f} to {high:.1f})" if low is not None and high is not None else ""
    console.print(f"[bold]F1 {facts['f1']:.1f}[/]{interval} of all sentences, after a free search", soft_wrap=True)
    console.print(
        f"  well-formed search: F1 {facts['f1_well_formed']:.1f}\n"
        f"  by EVALB's rule: F1 {facts['f1_evalb']:.1f}, {facts['evalb_errors']:,} sentences left out as errors\n"
        f"  no tree over the words, and repaired: {facts['malformed_percent']:.1f} %"
    )


def _scores(console: Console, facts: dict[str, Any]) -> None:
    if "f1" in facts:
        _tree_scores(console, facts)
        return
    low, high = facts.get("bleu_low"), facts.get("bleu_high")
    interval = f" (95 % interval {low:.1f} to {high:.1f})" if isinstance(low, float) and isinstance(high, float) else ""
    console.print(f"[bold]BLEU {facts['bleu']:.1f}[/]{interval}   {facts.get('bleu_signature', '')}", soft_wrap=True)
    for name, value in facts.items():
        if name.startswith("bleu_part_"):
            console.print(f"  {name.removeprefix('bleu_part_').replace('_', ' ')}: BLEU {value:.1f}")


def next_commands(recipe: Recipe, workspace: Workspace, model: str | None) -> list[str]:
    """Each works when pasted, from the directory that the run was started in.

    `model` is the model's directory where the recipe's name alone would mean another one.
    """
    example = EXAMPLES.get(recipe.name, "...")
    use = "parse" if recipe.experiment.corpus.is_trees else "translate"
    elsewhere = "" if workspace.uri == str(Path.cwd() / "workspace") else f" --workspace {shlex.quote(workspace.uri)}"
    attn = ".venv/bin/attn" if Path(".venv/bin/attn").exists() else "attn"
    serving = [f"{attn} serve {model or recipe.name + elsewhere}"] if use == "translate" else []
    return [
        f'{attn} {use} {model or recipe.name + elsewhere} "{example}"',
        *serving,
        f"{attn} results{elsewhere}",
        f"{attn} ui {recipe.name}{elsewhere}",
    ]
