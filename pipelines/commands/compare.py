"""`attn results --compare A B`: what differs in config, data and scores, and whether the difference could be chance."""

from __future__ import annotations

import json
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console

from jobs.score.stage import SCORE
from jobs.storage.object_store import filesystem
from jobs.translate.stage import TRANSLATE
from pipelines.execution.workspace import Workspace
from pipelines.tracking.query import Result
from transformer import significance as paired_bootstrap


def compare(a: Result, b: Result, workspace: Workspace, form: str) -> int:
    settings = {
        name: (a.params.get(name), b.params.get(name))
        for name in sorted(a.params.keys() | b.params.keys())
        if a.params.get(name) != b.params.get(name)
    }
    names = ("bleu", "bleu_paper", "chrf", "f1", "f1_well_formed", "f1_evalb", "perplexity", "parameters")
    shared = [name for name in names if name in a.metrics]
    scores = {name: (a.metrics[name], b.metrics[name]) for name in shared if name in b.metrics}
    test = significance(a, b, workspace)
    if form == "json":
        runs = {"a": a.run_id, "b": b.run_id}
        print(json.dumps({**runs, "settings": settings, "scores": scores, "significance": test}, indent=1))
        return 0
    console = Console(highlight=False)
    console.print(f"A  {a.recipe} {a.row} {a.fingerprint}\nB  {b.recipe} {b.row} {b.fingerprint}\n")
    for name, (left, right) in settings.items():
        console.print(f"  {name:<22} {left} -> {right}")
    if not settings:
        console.print("  no setting differs")
    console.print()
    for name, (ours, theirs) in scores.items():
        console.print(f"  {name:<22} {ours:,.2f} -> {theirs:,.2f}  ({theirs - ours:+,.2f})")
    console.print(f"\n{test['sentence']}", soft_wrap=True)
    return 0


def significance(a: Result, b: Result, workspace: Workspace) -> dict[str, Any]:
    """Paired bootstrap resampling over the same sentences (transformer/significance.py)."""
    if "f1" in a.metrics or "f1" in b.metrics:
        return {"sentence": "No significance: it is computed for BLEU, and trees are scored by F1."}
    first, second = _translations(a, workspace), _translations(b, workspace)
    if first is None or second is None:
        return {"sentence": f"No significance: the translations are not in {workspace.uri}."}
    if first["reference"] != second["reference"]:
        return {"sentence": "No significance: the two were scored on different test sets."}
    if first["hypothesis"] == second["hypothesis"]:
        return {"p_value": 1.0, "sentence": "The translations are the same, word for word: there is no difference."}
    found = paired_bootstrap.compare(first["hypothesis"], second["hypothesis"], first["reference"])
    verdict = "could be chance" if found.p_value >= 0.05 else "is unlikely to be chance"
    least = found.p_value <= found.floor
    shown = f"p < {found.floor:.4f}, the least that can be told" if least else f"p = {found.p_value:.3f}"
    return {
        "p_value": found.p_value,
        "signature": found.signature,
        "sentence": f"The difference in BLEU {verdict}: {shown} ({found.signature})",
    }


def _translations(result: Result, workspace: Workspace) -> dict[str, list[str]] | None:
    score = workspace.root.child(f"{SCORE.name}/{result.fingerprint}")
    if not score.exists("record.json"):
        return None
    translated = score.read_json("record.json")["inputs"]["translations"]
    store, path = filesystem(workspace.root.child(f"{TRANSLATE.name}/{translated}"), "translations.parquet")
    table = pq.read_table(path, filesystem=store, columns=["line", "reference", "hypothesis"]).sort_by("line")
    return {name: table[name].to_pylist() for name in ("reference", "hypothesis")}
