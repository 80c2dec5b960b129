"""Recurrence (abstract, sections 1 and 4): is the Transformer better, and faster to train, than a recurrent translator?

Both have as many parameters and see the same micro-batches in the same order through the same update. Both are trained
in full at every learning rate of one list, and each is judged by its own best.
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
from jobs.lab.text_training import SEED_NOISE, looks_at, read_test_set, train
from transformer.config import TrainingConfig
from transformer.model import count_parameters

ABOUT = (
    "The abstract's own claim: a model of attention alone is better, and takes less time to train, since nothing in it "
    "has to wait for the position before. Its opponent here is what it replaced: an LSTM encoder-decoder with additive "
    "attention, of as many parameters, on the same micro-batches. Each side is trained in full at every learning rate "
    "of the same list, and its best training counts."
)
LEAST_BLEU = 10.0
TAIL = 20  # updates at the end of a training whose mean loss decides over its learning rate


def unfair(figures: Figures, won: bool) -> str:
    """Why the side that lost cannot be said to have had its best learning rate; empty if it had."""
    loser: Kind = "recurrent" if won else "transformer"
    if not figures[f"{loser}/at_edge"]:
        return ""
    return f"; but the {loser} model's best learning rate is the last of the list, and one beyond it may do better"


def judge_better(figures: Figures) -> Ruling:
    ours, theirs = figures["transformer/bleu"], figures["recurrent/bleu"]
    measured = f"BLEU {ours:.1f} against {theirs:.1f} after as many updates"
    if max(ours, theirs) < LEAST_BLEU:
        return not_shown(measured)
    doubt = unfair(figures, ours > theirs)
    return not_shown(measured + doubt) if doubt else by_margin(ours - theirs, SEED_NOISE, measured)


def judge_faster(figures: Figures) -> Ruling:
    ours, theirs = figures["transformer/seconds_to_target"], figures["recurrent/seconds_to_target"]
    measured = f"{ours:.0f} s against {theirs:.0f} s of training to BLEU {figures['target_bleu']:.1f}, which both reach"
    doubt = unfair(figures, ours < theirs)
    if doubt or figures["target_bleu"] < LEAST_BLEU or 0.8 < ours / max(theirs, 1e-9) < 1.25:
        return not_shown(measured + doubt)
    return rule(ours < theirs, measured)


def judge_parallel(figures: Figures) -> Ruling:
    lengths = sorted(int(name.rpartition("/")[2]) for name in figures if name.startswith("transformer/tokens_per_s/"))
    short, long = lengths[0], lengths[-1]
    ratios = {
        n: figures[f"transformer/tokens_per_s/{n}"] / figures[f"recurrent/tokens_per_s/{n}"] for n in (short, long)
    }
    measured = (
        f"tokens/s over the recurrent model's: {ratios[short]:.1f} at length {short}, {ratios[long]:.1f} at {long}"
    )
    return rule(ratios[long] > 1 and ratios[long] >= 1.2 * ratios[short], measured)


CLAIMS = (
    Claim(
        key="better",
        section="abstract",
        says="The Transformer is superior in quality.",
        rule=f"holds if its BLEU is at least {SEED_NOISE:g} higher, does not if as much lower; not shown between, "
        f"below BLEU {LEAST_BLEU:g}, or if the loser's best learning rate is the last of the list",
        judge=judge_better,
    ),
    Claim(
        key="faster",
        section="abstract",
        says="It requires significantly less time to train.",
        rule="holds if it takes at most 0.8 of the seconds to the lower of both best BLEUs; not shown from 0.8 to "
        "1.25, or if the loser's best learning rate is the last of the list",
        judge=judge_faster,
    ),
    Claim(
        key="parallel",
        section="1, 4",
        says="Its advantage in speed grows with the length of the sentence, since it does not go word by word.",
        rule="holds if at the longest length it is faster in tokens/s, by a factor at least 1.2 times that at the "
        "shortest",
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
    # one after the other of the two kinds: side by side on two cores, both have the same company while they are timed
    tries = [Point(config, bench.text, kind, factor) for factor in config.factors for kind in KINDS]
    found = list(zip(tries, bench.each(train_whole, tries), strict=True))
    best = {k: min((one for p, one in found if p.kind == k), key=lambda one: float(one["loss"])) for k in KINDS}
    vocabulary = int(best["transformer"]["vocabulary"])
    speeds = by_length(config, bench, vocabulary)
    workers = by_workers(config, bench, vocabulary)
    target = min(max(row["bleu"] for row in best[kind]["curve"]) for kind in KINDS)
    figures: dict[str, float] = {"target_bleu": target}
    for kind in KINDS:
        curve, factor = best[kind]["curve"], best[kind]["factor"]
        figures |= {
            f"{kind}/bleu": curve[-1]["bleu"],
            f"{kind}/seconds": curve[-1]["seconds"],
            f"{kind}/seconds_to_target": seconds_to(target, curve),
            f"{kind}/parameters": best[kind]["parameters"],
            f"{kind}/factor": factor,
            f"{kind}/at_edge": float(factor in (min(config.factors), max(config.factors))),
        }
    figures |= {f"{row['model']}/tokens_per_s/{row['length']}": row["tokens_per_s"] for row in speeds}
    figures |= {f"{row['model']}/tokens_per_s_of_workers/{row['workers']}": row["tokens_per_s"] for row in workers}
    tables: dict[str, list[Row]] = {
        "training": [row for kind in KINDS for row in best[kind]["curve"]],
        "rates": [
            {"model": p.kind, "factor": p.factor, "loss": one["loss"], "bleu": one["curve"][-1]["bleu"]}
            for p, one in found
        ],
        "speed": speeds,
        "workers": workers,
    }
    return Measured(figures, tables, setup=words(config, figures), notes=notes(config, figures))


def seconds_to(target: float, curve: list[Row]) -> float:
    """When a curve first reaches `target`, which it does; between two looks along a straight line."""
    before: Row = {"seconds": 0.0, "bleu": 0.0}
    for row in curve:
        if row["bleu"] >= target:
            break
        before = row
    share = (target - before["bleu"]) / max(row["bleu"] - before["bleu"], 1e-9)
    return float(before["seconds"] + share * (row["seconds"] - before["seconds"]))


def notes(config: RecurrenceConfig, figures: Figures) -> tuple[str, str]:
    """What was tuned, and how seconds were taken."""
    tried = ", ".join(f"{factor:g}" for factor in config.factors)
    return (
        f"Tuned on both sides: the factor on the learning rate, from {tried}, each in a full training, by the training "
        f"loss of its last {TAIL} updates; chosen {figures['transformer/factor']:g} for the Transformer and "
        f"{figures['recurrent/factor']:g} for the recurrent model. Not tuned: depth, width, the form of the schedule, "
        f"warm-up, Adam's betas and dropout, which are the paper's or none on both sides. The recurrent model's "
        f"gradient is clipped at {CLIP:g}, as usual; the Transformer's is not, as in the paper.",
        "Seconds are of the processor, of one training on one thread, without the looks along the way. Workers "
        "are processes of one thread each that share out the micro-batches of an update; their speed is by the clock.",
    )


def words(config: RecurrenceConfig, figures: Figures) -> str:
    training = config.training
    return (
        f"Transformer {config.model.layers} + {config.model.layers} layers, {config.model.d_model} wide, "
        f"{figures['transformer/parameters']:,.0f} parameters; LSTM, one layer each way, "
        f"{figures['recurrent/parameters']:,.0f}; {training.steps} updates of about {training.tokens_per_update:,} "
        f"target tokens, {config.sentences} unseen sentences, both greedy."
    )


def training_of(point: Point) -> TrainingConfig:
    clip = CLIP if point.kind == "recurrent" else None
    return replace(point.config.training, seed=point.config.seed, learning_rate=point.factor, clip_norm=clip)


def train_whole(point: Point) -> dict[str, Any]:
    """BLEU by updates and by seconds, and the loss at the end: infinite where it is no number."""
    config = point.config
    tested = read_test_set(point.text, config.sentences)
    model = built(point.kind, config.model, len(tested.subwords), config.seed)
    training = training_of(point)
    looks = looks_at(training.steps, config.looks)
    rows: list[Row] = []
    losses: list[float] = []
    spent, began = 0.0, time.process_time()
    for number, loss in train(model, point.text, training, d_model=config.model.d_model):
        losses.append(loss)
        if number in looks:
            spent += time.process_time() - began
            bleu = tested.bleu_of(translating(model))
            rows.append({"model": point.kind, "update": number, "seconds": spent, "loss": loss, "bleu": bleu})
            began = time.process_time()
    closing = math.fsum(losses[-TAIL:]) / len(losses[-TAIL:])
    return {
        "curve": rows, "factor": point.factor, "loss": closing if math.isfinite(closing) else math.inf,
        "parameters": float(count_parameters(model)), "vocabulary": len(tested.subwords),
    }  # fmt: skip


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
    return tokens_per_second(model, batches, config.training, clock=time.process_time)


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
            task = {
                "kind": point.kind, "vocabulary": point.vocabulary, "length": point.length, "rank": rank,
                "workers": point.workers, "micro_batches": max(config.workers), "meet": f"{directory}/meet",
                "tokens": config.training.tokens_per_update, "seed": config.seed, "layers": config.model.layers,
                "d_model": config.model.d_model, "d_ff": config.model.d_ff, "num_heads": config.model.num_heads,
            }  # fmt: skip
            command = [sys.executable, "-m", "jobs.lab.contestants", json.dumps(task)]
            started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        ended = [process.communicate() for process in started]
    failed = [error for process, (_, error) in zip(started, ended, strict=True) if process.returncode]
    if failed:
        raise RuntimeError(f"{point.workers} workers failed: {failed[0].strip()[-500:]}")
    return min(float(json.loads(measured.splitlines()[-1])) for measured, _ in ended)


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
        Chart("Learning rates tried",
              curve("rates", "factor", "bleu", "factor on the learning rate", "BLEU", (True, False)),
              "BLEU at the end of a full training at each. The best by training loss is the one that counts.", "rates"),
        Chart("Speed by sentence length",
              curve("speed", "length", "tokens_per_s", "length", "target tokens/s", (True, True)),
              "Whole updates on one thread, about as many tokens each, by the processor's seconds.", "speed"),
    ]  # fmt: skip
    if len({row["workers"] for row in tables["workers"]}) > 1:
        svg = curve("workers", "workers", "tokens_per_s", "workers", "target tokens/s")
        found.append(Chart("Speed by workers", svg, "Sentences of 32 subwords.", "workers"))
    return found
