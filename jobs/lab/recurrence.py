"""Recurrence (abstract, sections 1 and 4): is the Transformer better, and faster to train, than a recurrent translator?

Both have as many parameters, see the same micro-batches in the same order through the same update, and have their
learning rates chosen from the same list by the loss of a short training each.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import ray

from jobs.lab import charts
from jobs.lab.bench import Bench, Chart, Measured, Row, Text
from jobs.lab.claims import Claim, Figures, Ruling, by_margin, not_shown, rule
from jobs.lab.configs import RecurrenceConfig
from jobs.lab.contestants import CLIP, KINDS, Kind, built, synthetic_batches, tokens_per_second, translating
from jobs.lab.text_training import looks_at, read_test_set, train
from transformer.config import TrainingConfig
from transformer.model import count_parameters

ABOUT = (
    "The abstract's own claim: a model of attention alone is better, and takes less time to train, since nothing in it "
    "has to wait for the position before. Its opponent here is what it replaced: an LSTM encoder-decoder with additive "
    "attention, of as many parameters, on the same micro-batches, with a learning rate chosen in the same way."
)
LEAST_BLEU = 10.0
TAIL = 20  # updates at the end of a try whose mean loss decides over its learning rate


def judge_better(figures: Figures) -> Ruling:
    ours, theirs = figures["transformer/bleu"], figures["recurrent/bleu"]
    said = f"BLEU {ours:.1f} against {theirs:.1f} after as many updates"
    return not_shown(said) if max(ours, theirs) < LEAST_BLEU else by_margin(ours - theirs, 1.0, said)


def judge_faster(figures: Figures) -> Ruling:
    ours, theirs = figures["transformer/seconds_to_target"], figures["recurrent/seconds_to_target"]
    said = f"{ours:.0f} s against {theirs:.0f} s of training to BLEU {figures['target_bleu']:.1f}, which both reach"
    if figures["target_bleu"] < LEAST_BLEU or 0.8 < ours / max(theirs, 1e-9) < 1.25:
        return not_shown(said)
    return rule(ours < theirs, said)


def judge_parallel(figures: Figures) -> Ruling:
    lengths = sorted(int(name.rpartition("/")[2]) for name in figures if name.startswith("transformer/tokens_per_s/"))
    short, long = lengths[0], lengths[-1]
    ratios = {
        n: figures[f"transformer/tokens_per_s/{n}"] / figures[f"recurrent/tokens_per_s/{n}"] for n in (short, long)
    }
    said = f"tokens/s over the recurrent model's: {ratios[short]:.1f} at length {short}, {ratios[long]:.1f} at {long}"
    return rule(ratios[long] >= 1.2 * ratios[short], said)


CLAIMS = (
    Claim(
        key="better",
        section="abstract",
        says="The Transformer is superior in quality.",
        rule=f"holds if its BLEU is at least 1 higher, does not if 1 lower; not shown between, or below {LEAST_BLEU:g}",
        judge=judge_better,
    ),
    Claim(
        key="faster",
        section="abstract",
        says="It requires significantly less time to train.",
        rule="holds if it takes at most 0.8 of the seconds to the lower of both best BLEUs; not shown from 0.8 to 1.25",
        judge=judge_faster,
    ),
    Claim(
        key="parallel",
        section="1, 4",
        says="Its advantage in speed grows with the length of the sentence, since it does not go word by word.",
        rule="holds if its tokens/s over the recurrent model's are at least 1.2 times as many at the longest length "
        "as at the shortest",
        judge=judge_parallel,
    ),
)


class Point(NamedTuple):
    config: RecurrenceConfig
    text: Text
    kind: Kind
    factor: float


class Speed(NamedTuple):
    config: RecurrenceConfig
    kind: Kind
    vocabulary: int
    length: int
    workers: int = 1


def measure(config: RecurrenceConfig, bench: Bench) -> Measured:
    tries = [Point(config, bench.text, kind, factor) for kind in KINDS for factor in config.factors]
    losses = bench.each(try_rate, tries)
    rows = [{"model": p.kind, "factor": p.factor, "loss": loss} for p, loss in zip(tries, losses, strict=True)]
    chosen = {kind: min((r for r in rows if r["model"] == kind), key=lambda row: float(row["loss"])) for kind in KINDS}
    finals = [Point(config, bench.text, kind, float(chosen[kind]["factor"])) for kind in KINDS]
    curves = dict(zip(KINDS, bench.each(train_whole, finals), strict=True))
    vocabulary = int(curves["transformer"]["vocabulary"])
    speeds = by_length(config, bench, vocabulary)
    workers = by_workers(config, bench, vocabulary)
    target = min(max(row["bleu"] for row in curves[kind]["curve"]) for kind in KINDS)
    figures: dict[str, float] = {"target_bleu": target}
    for kind in KINDS:
        curve = curves[kind]["curve"]
        figures |= {
            f"{kind}/bleu": curve[-1]["bleu"],
            f"{kind}/seconds": curve[-1]["seconds"],
            f"{kind}/seconds_to_target": next(row["seconds"] for row in curve if row["bleu"] >= target),
            f"{kind}/parameters": curves[kind]["parameters"],
            f"{kind}/factor": float(chosen[kind]["factor"]),
        }
    figures |= {f"{row['model']}/tokens_per_s/{row['length']}": row["tokens_per_s"] for row in speeds}
    figures |= {f"{row['model']}/tokens_per_s_of_workers/{row['workers']}": row["tokens_per_s"] for row in workers}
    return Measured(
        figures,
        {
            "training": [row for kind in KINDS for row in curves[kind]["curve"]],
            "rates": rows,
            "speed": speeds,
            "workers": workers,
        },
        setup=words(config, figures),
        notes=notes(config, figures),
    )


def notes(config: RecurrenceConfig, figures: Figures) -> tuple[str, str]:
    """What was tuned, and how seconds were taken."""
    tried = ", ".join(f"{factor:g}" for factor in config.factors)
    return (
        f"Tuned on both sides: the factor on the learning rate, from {tried}, by the loss of the last {TAIL} of "
        f"{config.tuning} updates; chosen {figures['transformer/factor']:g} for the Transformer and "
        f"{figures['recurrent/factor']:g} for the recurrent model. Not tuned: width, depth, warm-up and dropout, which "
        f"are the same for both. The recurrent model's gradient is clipped at {CLIP:g}, as usual; the paper's is not.",
        "Seconds are of training alone, on one thread, without the looks along the way; other work on the machine "
        "makes them longer. Workers are processes of one thread each that share out the micro-batches of an update.",
    )


def words(config: RecurrenceConfig, figures: Figures) -> str:
    training = config.training
    return (
        f"Transformer {config.model.layers} + {config.model.layers} layers, {config.model.d_model} wide, "
        f"{figures['transformer/parameters']:,.0f} parameters; LSTM, one layer each way, "
        f"{figures['recurrent/parameters']:,.0f}; {training.steps} updates of about {training.tokens_per_update:,} "
        f"target tokens, {config.sentences} unseen sentences, both greedy."
    )


def training_of(point: Point, steps: int) -> TrainingConfig:
    clip = CLIP if point.kind == "recurrent" else None
    return replace(
        point.config.training, seed=point.config.seed, steps=steps, learning_rate=point.factor, clip_norm=clip
    )


def try_rate(point: Point) -> float:
    """The loss at the end of a short training; infinite where it is no number."""
    tested = read_test_set(point.text, 1)
    model = built(point.kind, point.config.model, len(tested.subwords), point.config.seed)
    training = training_of(point, point.config.tuning)
    losses = [loss for _, loss in train(model, point.text, training, d_model=point.config.model.d_model)]
    mean = math.fsum(losses[-TAIL:]) / len(losses[-TAIL:])
    return mean if math.isfinite(mean) else math.inf


def train_whole(point: Point) -> dict[str, Any]:
    """BLEU by updates and by seconds."""
    config = point.config
    tested = read_test_set(point.text, config.sentences)
    model = built(point.kind, config.model, len(tested.subwords), config.seed)
    training = training_of(point, config.training.steps)
    looks = looks_at(training.steps, config.looks)
    rows: list[Row] = []
    spent, began = 0.0, time.perf_counter()
    for number, loss in train(model, point.text, training, d_model=config.model.d_model):
        if number in looks:
            spent += time.perf_counter() - began
            bleu = tested.bleu_of(translating(model))
            rows.append({"model": point.kind, "update": number, "seconds": spent, "loss": loss, "bleu": bleu})
            began = time.perf_counter()
    return {"curve": rows, "parameters": float(count_parameters(model)), "vocabulary": len(tested.subwords)}


def by_length(config: RecurrenceConfig, bench: Bench, vocabulary: int) -> list[Row]:
    points = [Speed(config, kind, vocabulary, length) for kind in KINDS for length in config.lengths]
    found = bench.each(speed_at_length, points)
    return [{"model": p.kind, "length": p.length, "tokens_per_s": s} for p, s in zip(points, found, strict=True)]


def speed_at_length(point: Speed) -> float:
    """Target tokens per second of whole updates, on sentences that are all of one length."""
    config = point.config
    model = built(point.kind, config.model, point.vocabulary, config.seed)
    numbers = np.random.default_rng(config.seed)
    batches = synthetic_batches(point.vocabulary, point.length, config.training.tokens_per_update, 1, numbers)
    return tokens_per_second(model, batches, config.training)


def by_workers(config: RecurrenceConfig, bench: Bench, vocabulary: int) -> list[Row]:
    """As many workers as this cluster's node can hold; the rest of the list is left out."""
    cpus = int(ray.cluster_resources().get("CPU", 1)) if ray.is_initialized() else 1
    rows: list[Row] = []
    for workers in [count for count in config.workers if count <= cpus]:
        points = [Speed(config, kind, vocabulary, 32, workers) for kind in KINDS]
        found = bench.each(speed_of_workers, points, cpus=workers)
        rows += [{"model": p.kind, "workers": workers, "tokens_per_s": s} for p, s in zip(points, found, strict=True)]
    return rows


def speed_of_workers(point: Speed) -> float:
    """Target tokens per second of updates whose micro-batches are shared out over processes (gloo)."""
    config = point.config
    with tempfile.TemporaryDirectory(prefix="attn-") as directory:
        started = []
        for rank in range(point.workers):
            asked = {
                "kind": point.kind, "vocabulary": point.vocabulary, "length": point.length, "rank": rank,
                "workers": point.workers, "micro_batches": max(config.workers), "meet": f"{directory}/meet",
                "tokens": config.training.tokens_per_update, "seed": config.seed, "layers": config.model.layers,
                "d_model": config.model.d_model, "d_ff": config.model.d_ff, "num_heads": config.model.num_heads,
            }  # fmt: skip
            command = [sys.executable, "-m", "jobs.lab.contestants", json.dumps(asked)]
            started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        ended = [process.communicate() for process in started]
    failed = [error for process, (_, error) in zip(started, ended, strict=True) if process.returncode]
    if failed:
        raise RuntimeError(f"{point.workers} workers failed: {failed[0].strip()[-500:]}")
    return min(float(json.loads(said.splitlines()[-1])) for said, _ in ended)


def draw(tables: dict[str, list[Row]]) -> list[Chart]:
    def curve(table: str, x: str, y: str, x_label: str, y_label: str, log: tuple[bool, bool] = (False, False)) -> str:
        return charts.lines(
            charts.series(tables[table], by="model", x=x, y=y), x_label=x_label, y_label=y_label, log=log
        )

    found = [
        Chart("BLEU by time", curve("training", "seconds", "bleu", "seconds of training", "BLEU"),
              "One thread each.", "training"),
        Chart("BLEU by updates", curve("training", "update", "bleu", "updates", "BLEU"),
              "The same micro-batches in the same order.", "training"),
        Chart("Speed by sentence length",
              curve("speed", "length", "tokens_per_s", "length", "target tokens/s", (True, True)),
              "Whole updates on one thread, about as many tokens each.", "speed"),
    ]  # fmt: skip
    if len({row["workers"] for row in tables["workers"]}) > 1:
        svg = curve("workers", "workers", "tokens_per_s", "workers", "target tokens/s")
        found.append(Chart("Speed by workers", svg, "Sentences of 32 subwords.", "workers"))
    return found
