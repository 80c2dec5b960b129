"""Carry out one experiment of the lab: measure, judge, write.

Reads   for experiments that translate: shards/<id>, vocabulary/<id>, corpora/<id> of the test set
Writes  results.json (figures, tables, set-up), <table>.csv
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.configs import Resources
from jobs.events import Facts, Log, Note
from jobs.lab import heads, mask, memory, positions, recurrence, residual, scaling, smoothing, warmup
from jobs.lab.bench import Bench, Chart, Measured, Row, Text
from jobs.lab.claims import Claim, findings
from jobs.lab.configs import (
    HeadsConfig,
    LabConfig,
    MaskConfig,
    MemoryConfig,
    PositionsConfig,
    RecurrenceConfig,
    ResidualConfig,
    ScalingConfig,
    SmoothingConfig,
    WarmupConfig,
)
from jobs.storage.artifacts import Artifact

RESULTS = "results.json"


@dataclass(frozen=True)
class Experiment:
    """What an experiment's file gives: its claims with their rules, how it is measured, and how that is drawn."""

    name: str
    about: str
    claims: Sequence[Claim]
    measure: Callable[[Any, Bench], Measured]
    draw: Callable[[dict[str, list[Row]]], list[Chart]]


EXPERIMENTS: Mapping[type, Experiment] = {
    ScalingConfig: Experiment("scaling", scaling.ABOUT, scaling.CLAIMS, scaling.measure, scaling.draw),
    MaskConfig: Experiment("mask", mask.ABOUT, mask.CLAIMS, mask.measure, mask.draw),
    PositionsConfig: Experiment("positions", positions.ABOUT, positions.CLAIMS, positions.measure, positions.draw),
    HeadsConfig: Experiment("heads", heads.ABOUT, heads.CLAIMS, heads.measure, heads.draw),
    MemoryConfig: Experiment("memory", memory.ABOUT, memory.CLAIMS, memory.measure, memory.draw),
    ResidualConfig: Experiment("residual", residual.ABOUT, residual.CLAIMS, residual.measure, residual.draw),
    WarmupConfig: Experiment("warmup", warmup.ABOUT, warmup.CLAIMS, warmup.measure, warmup.draw),
    SmoothingConfig: Experiment("smoothing", smoothing.ABOUT, smoothing.CLAIMS, smoothing.measure, smoothing.draw),
    RecurrenceConfig: Experiment(
        "recurrence", recurrence.ABOUT, recurrence.CLAIMS, recurrence.measure, recurrence.draw
    ),
}


def run(
    config: LabConfig,
    *,
    out: Artifact,
    on: Resources,
    log: Log,
    shards: Artifact | None = None,
    vocabulary: Artifact | None = None,
    test: Artifact | None = None,
) -> Facts:
    """Facts: every figure, and for each claim its words, what was measured, and the verdict."""
    experiment = EXPERIMENTS[type(config)]
    text = Text(shards, vocabulary, test) if shards and vocabulary and test else None
    measured = experiment.measure(config, Bench(log, text))
    write(experiment, measured, out)
    facts: dict[str, int | float | str] = {name: float(value) for name, value in finite(measured.figures).items()}
    for finding in findings(experiment.claims, [measured.figures]):
        key = finding.claim.key
        facts |= {
            f"claim_{key}": f"{finding.claim.says} ({finding.claim.section})",
            f"measured_{key}": finding.ruling.measured,
            f"verdict_{key}": finding.ruling.verdict,
        }
        log(Note(f"{finding.ruling.verdict}: {finding.claim.says} {finding.ruling.measured}"))
    return facts


def write(experiment: Experiment, measured: Measured, out: Artifact) -> None:
    for name, rows in measured.tables.items():
        out.write_text(f"{name}.csv", as_csv(rows))
    result = {
        "experiment": experiment.name,
        "setup": measured.setup,
        "notes": list(measured.notes),
        "figures": dict(measured.figures),
        "tables": {name: [dict(row) for row in rows] for name, rows in measured.tables.items()},
    }
    out.write_json(RESULTS, result)


def finite(figures: Mapping[str, float]) -> dict[str, float]:
    """MLflow and the record take no NaN and no infinity: such a figure is left out there, and stands in the tables."""
    return {name: value for name, value in figures.items() if math.isfinite(value)}


def as_csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
