"""Label smoothing and checkpoint averaging (sections 5.4 and 6.1): do they give BLEU?

The same small translator trained with several amounts of smoothing: perplexity, BLEU, and whether its confidence means
what it says. Of each training the last checkpoints are kept and averaged, one to many.
"""

# N real target tokens, V vocabulary

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from jobs.lab import charts
from jobs.lab.bench import Bench, Chart, Measured, Row, Text
from jobs.lab.claims import Claim, Figures, Ruling, not_shown
from jobs.lab.configs import SmoothingConfig
from jobs.lab.draws import either_way, gap, ranged, seed_of, spread
from jobs.lab.text_training import greedy, read_test_set, train
from jobs.lab.variants import seeded
from transformer.batching import Batch
from transformer.model import Transformer

ABOUT = (
    "The paper smooths its labels by 0.1, which it says hurts perplexity and helps BLEU, and averages its last "
    "checkpoints. Both are tried on the same small translator, together with calibration: how far the model's "
    "confidence in a word is from how often it is right."
)
BINS = 10
TELLING = 0.5  # BLEU
LEAST_BLEU = 10.0
ANY_TWO = (
    "between any training with and any without, does not if as much the other way round; not shown between, or below "
    f"BLEU {LEAST_BLEU:g}"
)


def smoothings(figures: Figures) -> list[float]:
    return sorted(float(name.split("/")[0]) for name in figures if name.endswith("/bleu") and name[0].isdigit())


def reference(figures: Figures) -> str:
    """The smoothing to compare with none: the paper's where it was measured."""
    known = smoothings(figures)
    return f"{0.1 if 0.1 in known else max(known):g}"


def translates(figures: Figures, amount: str) -> bool:
    """Has either model learned enough for a comparison to mean something?"""
    return max(figures["0/bleu"], figures[f"{amount}/bleu"]) >= LEAST_BLEU


def judge_perplexity(figures: Figures) -> Ruling:
    return judge_between(figures, "log_perplexity", "0", reference(figures), 0.005, "log of the perplexity")


def judge_bleu(figures: Figures) -> Ruling:
    return judge_between(figures, "bleu", "0", reference(figures), TELLING, "BLEU")


def judge_calibration(figures: Figures) -> Ruling:
    return judge_between(figures, "calibration", reference(figures), "0", 0.005, "expected calibration error")


def judge_between(figures: Figures, figure: str, lower: str, higher: str, margin: float, what: str) -> Ruling:
    """Is the figure higher there than here, by the margin and in every draw?"""
    amount = reference(figures)
    measured = f"{what} {spread(figures, '0', figure)} without, {spread(figures, amount, figure)} with {amount}"
    if not translates(figures, amount):
        return not_shown(measured)
    return either_way(*gap(figures, lower, higher, figure), margin, measured)


def judge_averaging(figures: Figures) -> Ruling:
    """Of one and the same training each: the gain of every draw."""
    counts = sorted(int(name.split("/")[1]) for name in figures if name.startswith("averaged/"))
    last = 5 if 5 in counts else max(counts)
    one, many = figures["averaged/1"], figures[f"averaged/{last}"]
    least, most = figures["gain/bleu_least"], figures["gain/bleu_most"]
    measured = (
        f"BLEU {one:.1f} of the last checkpoint, {many:.1f} of the mean of {last}, "
        f"a gain of {least:+.1f} to {most:+.1f} by draw"
    )
    return not_shown(measured) if max(one, many) < LEAST_BLEU else either_way(least, most, TELLING, measured)


CLAIMS = (
    Claim(
        key="perplexity",
        section="5.4",
        says="Label smoothing hurts perplexity.",
        rule=f"holds if perplexity on unseen text is at least 0.5 % higher with it {ANY_TWO}",
        judge=judge_perplexity,
    ),
    Claim(
        key="bleu",
        section="5.4",
        says="Label smoothing improves BLEU.",
        rule=f"holds if BLEU is at least {TELLING} higher with it {ANY_TWO}",
        judge=judge_bleu,
    ),
    Claim(
        key="calibration",
        section="Müller 2019, of 5.4",
        says="Label smoothing improves calibration.",
        rule=f"holds if the expected calibration error is at least 0.005 lower with it {ANY_TWO}",
        judge=judge_calibration,
    ),
    Claim(
        key="averaging",
        section="6.1",
        says="Averaging the last 5 checkpoints improves BLEU.",
        rule=f"holds if in every draw BLEU is at least {TELLING} higher than that of the same training's last "
        f"checkpoint, does not if as much lower; not shown between, or below BLEU {LEAST_BLEU:g}",
        judge=judge_averaging,
    ),
)


class Point(NamedTuple):
    config: SmoothingConfig
    text: Text
    smoothing: float
    draw: int


def measure(config: SmoothingConfig, bench: Bench) -> Measured:
    points = [Point(config, bench.text, amount, draw) for amount in config.smoothing for draw in range(config.draws)]
    found = bench.each(train_smoothed, points)
    draws = {
        amount: [one for point, one in zip(points, found, strict=True) if point.smoothing == amount]
        for amount in config.smoothing
    }
    figures: dict[str, float] = {}
    rows: list[Row] = []
    for amount, own in draws.items():
        for name in own[0]["figures"]:
            figures |= ranged(f"{amount:g}", name, [one["figures"][name] for one in own])
        rows.append({"smoothing": amount, **{name: figures[f"{amount:g}/{name}"] for name in own[0]["figures"]}})
    paper = draws.get(0.1, draws[config.smoothing[0]])
    averaged = {
        count: [row["bleu"] for one in paper for row in one["averaged"] if row["checkpoints"] == count]
        for count in config.average
    }
    figures |= {f"averaged/{count}": math.fsum(values) / len(values) for count, values in averaged.items()}
    last = averaged[5 if 5 in averaged else max(averaged)]
    figures |= ranged("gain", "bleu", [many - one for one, many in zip(averaged[1], last, strict=True)])
    model, training = config.model, config.training
    return Measured(
        figures,
        {
            "smoothing": rows,
            "averaging": [row for own in draws.values() for row in mean_rows([one["averaged"] for one in own])],
            "calibration": [row for own in draws.values() for row in own[0]["bins"]],
        },
        setup=f"{model.layers} + {model.layers} layers, {model.d_model} wide, {training.steps} updates of about "
        f"{training.tokens_per_update:,} target tokens; {config.sentences} unseen sentences, greedy; checkpoints "
        f"{config.every} updates apart; {config.draws} trainings of each, which differ in the seed.",
        notes=(
            "The verdict on averaging is of the trainings with smoothing 0.1 where there are some. Curves are means of "
            "all draws, calibration is of the first. The learning rate is the paper's schedule on both sides, since "
            "the claim is of smoothing alone.",
        ),
    )  # fmt: skip


def mean_rows(tables: list[list[Row]]) -> list[Row]:
    """BLEU by checkpoints averaged, mean over draws."""
    return [
        {**same[0], "bleu": math.fsum(row["bleu"] for row in same) / len(same)} for same in zip(*tables, strict=True)
    ]


def train_smoothed(point: Point) -> dict[str, Any]:
    config, seed = point.config, seed_of(point.config.seed, point.draw)
    tested = read_test_set(point.text, config.sentences)
    model = seeded(config.model, len(tested.subwords), seed)
    training = replace(config.training, seed=seed, label_smoothing=point.smoothing)
    kept: deque[dict[str, Tensor]] = deque(maxlen=max(config.average))
    for number, _ in train(model, point.text, training, d_model=config.model.d_model):
        if (training.steps - number) % config.every == 0:
            kept.append({name: value.clone() for name, value in model.state_dict().items()})
    perplexity, bins = forced(model, tested.batch)
    averaged: list[Row] = []
    for count in config.average:
        states = list(kept)[-count:]
        model.load_state_dict({name: torch.stack([s[name] for s in states]).mean(dim=0) for name in states[0]})
        averaged.append({"smoothing": point.smoothing, "checkpoints": count, "bleu": tested.bleu_of(greedy(model))})
    error = math.fsum(row["share"] * abs(row["confidence"] - row["accuracy"]) for row in bins)
    bleu = next(row["bleu"] for row in averaged if row["checkpoints"] == 1)
    return {
        "figures": {
            "perplexity": perplexity,
            "log_perplexity": math.log(perplexity),
            "bleu": bleu,
            "calibration": error,
        },
        "averaged": averaged,
        "bins": [{"smoothing": point.smoothing, **row} for row in bins],
    }


@torch.no_grad()
def forced(model: Transformer, batch: Batch) -> tuple[float, list[Row]]:
    """Perplexity under teacher forcing, and how often the likeliest word is right, by how likely it was said to be."""
    model.eval()
    log_p_NV = model.logits(model.hidden_rows(batch)).log_softmax(dim=-1)
    model.train()
    confidence_N, said_N = log_p_NV.exp().max(dim=-1)
    right_N = (said_N == batch.gold_N).double()
    nll = float(-log_p_NV.gather(1, batch.gold_N[:, None]).double().mean())
    bin_N = (confidence_N * BINS).long().clamp(max=BINS - 1)
    rows: list[Row] = []
    for number in bin_N.unique().tolist():
        chosen = bin_N == number
        rows.append({
            "confidence": float(confidence_N[chosen].double().mean()),
            "accuracy": float(right_N[chosen].mean()),
            "share": float(chosen.double().mean()),
        })  # fmt: skip
    return math.exp(nll), rows


def draw(tables: dict[str, list[Row]]) -> list[Chart]:
    named = [{**row, "line": f"smoothing {row['smoothing']:g}"} for row in tables["averaging"]]
    bins = [{**row, "line": f"smoothing {row['smoothing']:g}"} for row in tables["calibration"]]
    reliability = {"perfect": [(0.0, 0.0), (1.0, 1.0)], **charts.series(bins, by="line", x="confidence", y="accuracy")}
    return [
        Chart(
            "BLEU by checkpoints averaged",
            charts.lines(charts.series(named, by="line", x="checkpoints", y="bleu"), x_label="checkpoints averaged",
                         y_label="BLEU"),
            "One checkpoint is no averaging.",
            "averaging",
        ),
        Chart(
            "Calibration",
            charts.lines(reliability, x_label="confidence of the likeliest word", y_label="how often it is right"),
            "Above the diagonal the model is less sure than it could be, below it is surer than it should be.",
            "calibration",
        ),
    ]  # fmt: skip
