"""Small results in the form in which the steps write them, and a report made of them: for the tests of the report."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs import paper
from jobs.artifacts import Artifact
from jobs.configs import ReportConfig
from jobs.reporting.attention import Picture
from jobs.reporting.files import gather, read_lines, write
from jobs.reporting.rows import (
    Inputs,
    read_samples,
)

HOSTILE = "The <script>alert('x')</script> dog & the \"cat\" </title> | `saw` *it*."
PAIRS = [
    ("The old dog sleeps in the garden.", "Der alte Hund schläft im Garten.", "Der alte Hund schläft im Garten."),
    ("She knows that he has sold the house.", "Sie weiß, dass er das Haus verkauft hat.", "Sie weiß, er hat das Haus."),
    (HOSTILE, "Der <b>Hund</b> & die Katze.", "<img src=http://evil.example/x onerror=alert(1)>"),
    ("Do you call the teacher?", "Rufst du die Lehrerin an?", ""),
]


def record(stage: str, facts: dict[str, Any], config: dict[str, Any] | None = None) -> dict[str, Any]:
    made = {"seconds": 12.5, "when": "2026-03-01T10:20:30+00:00", "profile": "laptop", "commit": "abc123"}
    made |= {"versions": {"python": "3.11.2", "torch": "2.13.0"}, "host": "here"}
    return {"stage": stage, "fingerprint": f"{stage[:4]}0123456789", "config": config or {}, "inputs": {},
            "facts": facts, "made": made}  # fmt: skip


def curve(points: int, end: float) -> str:
    lines = []
    for at in range(1, points + 1):
        loss = end + 6 * math.exp(-at / points * 5)
        point = {"update": at * 50, "loss": loss, "perplexity": math.exp(loss), "learning_rate": 1e-3 * min(at / 9, 1)}
        if at % 5 == 0:
            point |= {"dev_loss": loss - 0.3, "dev_perplexity": math.exp(loss - 0.3)}
        lines.append(json.dumps(point))
    return "\n".join(lines) + "\n"


def make_row(root: Path, name: str, *, bleu: float, perplexity: float, parameters: int) -> Inputs:
    """The results of one row as the other steps write them."""
    found = {step: Artifact(str(root / name / step)) for step in Inputs.__dataclass_fields__}
    about = {"source_language": "en", "target_language": "de", "pairs": 990, "read": 1000,
             "dropped": {"empty_line": 10}, "corpora": [{"name": "demo", "read": 1000, "kept": 990}]}  # fmt: skip
    found["corpora"].write_json("about.json", about)
    lengths = {"bin": 8, "source": [120, 520, 260, 70, 10], "target": [100, 480, 290, 90, 20]}
    shards = {"vocabulary_size": 2000, "pairs": 980, "micro_batches": 12, "padding_share": 0.031, "lengths": lengths,
              "target_tokens": 12_345, "source_tokens": 11_222, "dropped": {"too_long": 7}}  # fmt: skip
    found["shards"].write_json("about.json", shards)
    found["training"].write_text("curve.jsonl", curve(40, math.log(perplexity)))
    model = {"layers": 3, "d_model": 256, "d_ff": 1024, "num_heads": 4, "dropout": 0.1}
    found["model"].write_json("config.json", {"model": model, "vocabulary_size": 2000})
    rows = [dict(zip(("source", "reference", "hypothesis"), pair, strict=True)) for pair in PAIRS]
    table = pa.Table.from_pylist([{"line": at, "part": None, **row} for at, row in enumerate(rows)])
    with found["translations"].writing("translations.parquet") as path:
        pq.write_table(table, path)
    scored = {"bleu": bleu, "bleu_low": bleu - 1, "bleu_high": bleu + 1, "bleu_paper": bleu + 0.5, "chrf": 70.0,
              "bleu_signature": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0", "lines": 4,
              "perplexity": perplexity, "parameters": parameters, "bleu_part_new_words": bleu - 5}  # fmt: skip
    trained = {"updates": 2000, "seconds": 300.0, "flops": 1.5e14, "tokens_per_second": 4000.0, "dev_perplexity": 5.0}
    facts: dict[str, dict[str, Any]]
    facts = {
        "scores": scored,
        "training": trained,
        "translations": {"seconds": 9.0},
        "model": {"checkpoints": 5},
    }
    settings = {"training": {"class": "TrainConfig", "training": {"class": "TrainingConfig", "steps": 2000}}}
    for step, artifact in found.items():
        artifact.write_json("record.json", record(step, facts.get(step, {}), settings.get(step)))
    return Inputs(**found)


def make_picture(layers: int = 2, heads: int = 3) -> Picture:
    """Attention that is a proper distribution over the keys of every query."""
    source, target = ["The", "old", "<i>dog", "sleep", "·s", ".", "⟨end⟩"], ["⟨start⟩", "Der", "Hund", "schläft", "."]

    def matrix(rows: int, columns: int, layer: int, head: int, causal: bool = False) -> list[list[float]]:
        weights = [
            [math.exp(-abs(c - r * columns / rows - head) * (1 + layer)) for c in range(columns)] for r in range(rows)
        ]
        kept = [[w if not causal or c <= r else 0.0 for c, w in enumerate(row)] for r, row in enumerate(weights)]
        return [[weight / sum(row) for weight in row] for row in kept]

    def kind(rows: int, columns: int, causal: bool = False) -> list[list[list[list[float]]]]:
        return [[matrix(rows, columns, layer, head, causal) for head in range(heads)] for layer in range(layers)]

    weights = {"cross": kind(5, 7), "encoder": kind(7, 7), "decoder": kind(5, 5, True)}
    return Picture(text="The old <i>dog sleeps." + " It sleeps." * 12, source=source, target=target, weights=weights)


@dataclass
class Made:
    html: str
    markdown: str
    table: list[dict[str, str]]
    out: Artifact


def make_report(root: Path, rows: Sequence[str], table: int | None, title: str = "Demo") -> Made:
    inputs = []
    for at, name in enumerate(rows):
        theirs = paper.figures_of(table, name)
        parameters = int((theirs.parameters if theirs and theirs.parameters else 1e6) / 10)
        perplexity = (theirs.perplexity if theirs and theirs.perplexity else 5.0) * 0.9
        bleu = 40 + (theirs.bleu - 25.8 if theirs else 0) * 1.7
        inputs.append(make_row(root, f"row{at}", bleu=bleu, perplexity=perplexity, parameters=parameters))
    config = ReportConfig(title=title, recipe="demo", rows=tuple(rows), table=table, samples=4)
    samples = read_samples(inputs[0].translations)
    texts = {sample.line: sample.source for sample in samples}
    others = {
        name: read_lines(row.translations, [0, 1, 2, 3], texts) for name, row in zip(rows[1:], inputs[1:], strict=True)
    }
    out = Artifact(str(root / "report"))
    write(gather(config, inputs, samples, [make_picture(), make_picture()], others), out)
    lines = list(csv.DictReader(io.StringIO(out.read_text("results.csv"))))
    return Made(out.read_text("report.html"), out.read_text("report.md"), lines, out)
