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
from jobs.lab.claims import Claim, Figures, Ruling, by_margin, not_shown, rule
from jobs.lab.configs import SmoothingConfig
from jobs.lab.text_training import SEED_NOISE, greedy, read_test_set, train
from jobs.lab.variants import seeded
from transformer.batching import Batch
from transformer.model import Transformer

ABOUT = (
    "The paper smooths its labels by 0.1, which it says hurts perplexity and helps BLEU, and averages its last "
    "checkpoints. Both are tried on the same small translator, together with calibration: how far the model's "
    "confidence in a word is from how often it is right."
)
BINS = 10
TELLING = 0.5  # BLEU, of one training and the same sentences; two trainings are told apart from SEED_NOISE on
LEAST_BLEU = 10.0


def smoothings(figures: Figures) -> list[float]:
    return sorted(float(name.split("/")[1]) for name in figures if name.startswith("bleu/"))


def reference(figures: Figures) -> str:
    """The smoothing to compare with none: the paper's where it was measured."""
    known = smoothings(figures)
    return f"{0.1 if 0.1 in known else max(known):g}"


def translates(figures: Figures, amount: str) -> bool:
    """Has either model learned enough for a comparison to mean something?"""
    return max(figures["bleu/0"], figures[f"bleu/{amount}"]) >= LEAST_BLEU


def judge_perplexity(figures: Figures) -> Ruling:
    amount = reference(figures)
    none, smooth = figures["perplexity/0"], figures[f"perplexity/{amount}"]
    measured = f"perplexity {none:.2f} without, {smooth:.2f} with {amount}"
    return rule(smooth > none * 1.005, measured) if translates(figures, amount) else not_shown(measured)


def judge_bleu(figures: Figures) -> Ruling:
    amount = reference(figures)
    none, smooth = figures["bleu/0"], figures[f"bleu/{amount}"]
    measured = f"BLEU {none:.1f} without, {smooth:.1f} with {amount}"
    return by_margin(smooth - none, SEED_NOISE, measured) if translates(figures, amount) else not_shown(measured)


def judge_calibration(figures: Figures) -> Ruling:
    amount = reference(figures)
    none, smooth = figures["calibration/0"], figures[f"calibration/{amount}"]
    measured = f"expected calibration error {none:.3f} without, {smooth:.3f} with {amount}"
    return by_margin(none - smooth, 0.005, measured) if translates(figures, amount) else not_shown(measured)


def judge_averaging(figures: Figures) -> Ruling:
    counts = sorted(int(name.split("/")[1]) for name in figures if name.startswith("averaged/"))
    last = 5 if 5 in counts else max(counts)
    one, many = figures["averaged/1"], figures[f"averaged/{last}"]
    measured = f"BLEU {one:.1f} of the last checkpoint, {many:.1f} of the mean of {last}"
    return not_shown(measured) if max(one, many) < LEAST_BLEU else by_margin(many - one, TELLING, measured)


CLAIMS = (
    Claim(
        key="perplexity",
        section="5.4",
        says="Label smoothing hurts perplexity.",
        rule=f"holds if perplexity on unseen text is over 0.5 % higher with it; not shown below {LEAST_BLEU:g} BLEU",
        judge=judge_perplexity,
    ),
    Claim(
        key="bleu",
        section="5.4",
        says="Label smoothing improves BLEU.",
        rule=f"holds if BLEU is at least {SEED_NOISE:g} higher, does not if as much lower; not shown between, which a "
        f"seed alone may do, or below BLEU {LEAST_BLEU:g}",
        judge=judge_bleu,
    ),
    Claim(
        key="calibration",
        section="Müller 2019, of 5.4",
        says="Label smoothing improves calibration.",
        rule="holds if the expected calibration error falls by 0.005 or more, does not if it rises as much",
        judge=judge_calibration,
    ),
    Claim(
        key="averaging",
        section="6.1",
        says="Averaging the last 5 checkpoints improves BLEU.",
        rule=f"holds if BLEU is at least {TELLING} higher than the last checkpoint's, does not if as much lower",
        judge=judge_averaging,
    ),
)


class Point(NamedTuple):
    config: SmoothingConfig
    text: Text
    smoothing: float


def measure(config: SmoothingConfig, bench: Bench) -> Measured:
    points = [Point(config, bench.text, amount) for amount in config.smoothing]
    found = bench.each(train_smoothed, points)
    figures: dict[str, float] = {}
    for point, one in zip(points, found, strict=True):
        figures |= {f"{name}/{point.smoothing:g}": value for name, value in one["figures"].items()}
    paper = next((one for p, one in zip(points, found, strict=True) if p.smoothing == 0.1), found[0])
    figures |= {f"averaged/{row['checkpoints']}": row["bleu"] for row in paper["averaged"]}
    model, training = config.model, config.training
    return Measured(
        figures,
        {
            "smoothing": [{"smoothing": p.smoothing, **one["figures"]} for p, one in zip(points, found, strict=True)],
            "averaging": [row for one in found for row in one["averaged"]],
            "calibration": [row for one in found for row in one["bins"]],
        },
        setup=f"{model.layers} + {model.layers} layers, {model.d_model} wide, {training.steps} updates of about "
        f"{training.tokens_per_update:,} target tokens; {config.sentences} unseen sentences, greedy; checkpoints "
        f"{config.every} updates apart.",
        notes=("The verdict on averaging is of the training with smoothing 0.1 where there is one.",),
    )  # fmt: skip


def train_smoothed(point: Point) -> dict[str, Any]:
    config = point.config
    tested = read_test_set(point.text, config.sentences)
    model = seeded(config.model, len(tested.subwords), config.seed)
    training = replace(config.training, seed=config.seed, label_smoothing=point.smoothing)
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
        "figures": {"perplexity": perplexity, "bleu": bleu, "calibration": error},
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
