"""The cost section of a report: time, tokens and arithmetic of every row, counted and by the formula under Table 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobs.configs import Resources
from jobs.durations import duration
from jobs.report.figures import short
from jobs.report.row_results import Row, seconds_of
from jobs.report.tables import number, scientific
from transformer.paper_figures import P100_FLOPS, training_flops

PAPER_GPUS = 8


def cost_section(rows: Sequence[Row], on: Resources | None = None) -> dict[str, Any]:
    """`on` is the profile of this run: its stated rate goes into the paper's formula for rows trained on it."""
    formula = [by_formula(row, on) for row in rows]
    header = ["row", "training", "per update", "target tokens", "tokens per second", "FLOPs, counted"]
    header += ["FLOPs, time x devices x rate"] if any(formula) else []
    header += ["on the paper's 8 P100", "translation", "all steps"]
    lines = []
    for row, value in zip(rows, formula, strict=True):
        line = _line(row)
        lines.append([*line[:6], *([scientific(value)] if any(formula) else []), *line[6:]])
    return {
        "text": "FLOPs are counted: the matrix products of every forward and backward pass. The paper multiplied "
        f"time, number of GPUs and {P100_FLOPS / 1e12:g} TFLOPS for each of its P100s; the column after it turns "
        "that formula round: how long our arithmetic would have taken on the paper's machine.",
        "table": {"header": header, "lines": lines},
    }


def _line(row: Row) -> list[str]:
    seconds, updates, flops = row.train_seconds, row.updates, row.fact("flops", "training")
    tokens = target_tokens(row)
    rate = row.fact("tokens_per_second", "training") or (tokens / seconds if tokens and seconds else None)
    taken = [seconds_of(record) for record in row.records.values()]
    known = [value for value in taken if value is not None]
    return [
        row.name,
        duration(seconds),
        duration(seconds / updates if seconds and updates else None),
        short(float(f"{tokens:.3g}")) if tokens else "–",
        number(rate, 0),
        scientific(flops),
        duration(flops / training_flops(1, PAPER_GPUS)) if flops else "–",
        duration(row.fact("seconds", "translations") or seconds_of(row.records.get("translations", {}))),
        duration(sum(known) if known else None),
    ]


def by_formula(row: Row, on: Resources | None) -> float | None:
    """Time x devices x the sustained rate of one, where the row was trained on this profile and it states a rate."""
    trained_on = row.records.get("training", {}).get("made", {}).get("profile")
    if on is None or on.device_tflops is None or trained_on != on.name or row.train_seconds is None:
        return None
    devices = (row.fact("workers", "training") or on.train.workers) * (
        on.train.gpus_per_worker or on.train.cpus_per_worker
    )
    return training_flops(row.train_seconds, 1, on.device_tflops * 1e12) * devices


def target_tokens(row: Row) -> float | None:
    """Target tokens trained on, as the job counted them, or from its mean rate."""
    counted = row.fact("target_tokens", "training")
    rate, seconds = row.fact("tokens_per_second", "training"), row.fact("seconds", "training")
    return counted or (rate * seconds if rate and seconds else None)
