"""Residual connections and normalisation (section 3.1): which of them make depth trainable?

The same deep model, reversing sequences of several lengths, with one thing around its sub-layers changed at a time. The
gradient of each layer is looked at before the first update, the loss along the way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from jobs.lab import charts
from jobs.lab.bench import Bench, Chart, Measured, Row
from jobs.lab.claims import Claim, Figures, Ruling, not_shown, rule
from jobs.lab.configs import ResidualConfig
from jobs.lab.draws import Try, Tuned, bounded, by_draws, gap, needed, ranged, seed_of, spread, tuned
from jobs.lab.sequences import Task, loss, smoothed, training, warmed_up
from jobs.lab.variants import Norm, around_sublayers, seeded
from transformer.model import Transformer
from transformer.update import batch_losses

ABOUT = (
    "Every sub-layer of the paper is wrapped as LayerNorm(x + Sublayer(x)). Here a deep model learns to reverse "
    "sequences of several lengths with that wrapping changed in one thing at a time: no residual, no norm, BatchNorm "
    "in place of LayerNorm, the norm before the sub-layer (pre) instead of after it (post), and either with and "
    "without warm-up. Each variant is trained at every learning rate of one list, and at its own best again with other "
    "seeds: a verdict needs all of these draws."
)


class Kind(NamedTuple):
    """What stands around a sub-layer, and whether the learning rate rises first. The name is part of a metric's."""

    name: str
    norm: Norm = "layer"
    residual: bool = True
    place: str = "post"
    warmup: bool = True


KINDS = (
    Kind("post-norm"),
    Kind("pre-norm", place="pre"),
    Kind("no residual", residual=False),
    Kind("no norm", norm="none"),
    Kind("BatchNorm", norm="batch"),
    Kind("post-norm no warm-up", warmup=False),
    Kind("pre-norm no warm-up", place="pre", warmup=False),
)
TOP = 4.0  # of the charts of losses
WINDOW = 20  # updates that a point of a curve is the mean of
PAPER = KINDS[0].name
COST = 0.1  # nats, of leaving warm-up out
APART = (
    "between any two draws, does not if it is less between any two; not shown between, where the paper's own does not "
    "learn, or where the loser's best rate is the last of the list"
)


def learned(figures: Figures, name: str) -> bool:
    """Has it got well below guessing, which costs the logarithm of the number of symbols?"""
    return figures[f"{name}/loss"] < 0.8 * figures["guessing"]


def judge_residual(figures: Figures) -> Ruling:
    return judge_loss(figures, "no residual", 0.2, "residuals")


def judge_norm(figures: Figures) -> Ruling:
    return judge_loss(figures, "no norm", 0.1, "LayerNorm")


def judge_batch_norm(figures: Figures) -> Ruling:
    return judge_loss(figures, "BatchNorm", 0.05, "LayerNorm")


def judge_loss(figures: Figures, without: str, margin: float, what: str) -> Ruling:
    """Is the loss without it higher, each side at its best rate, in every draw?"""
    measured = (
        f"loss {spread(figures, PAPER)} with {what}, {spread(figures, without)} with {without} "
        f"({figures['guessing']:.2f} is guessing)"
    )
    return needed(figures, PAPER, without, margin, measured) if learned(figures, PAPER) else not_shown(measured)


def judge_gradients(figures: Figures) -> Ruling:
    with_it, without = figures[f"{PAPER}/first_over_last"], figures["no residual/first_over_last"]
    measured = (
        f"gradient of the first encoder layer over the last's: {with_it:.2g} with residuals, {without:.2g} without"
    )
    return by_draws(*gap(figures, PAPER, "no residual", "imbalance"), math.log(2), measured)


def judge_warmup(figures: Figures) -> Ruling:
    pairs = {place: (f"{place}-norm", f"{place}-norm no warm-up") for place in ("post", "pre")}
    least, most = zip(*(gap(figures, *pair) for pair in pairs.values()), strict=True)
    mean = {place: figures[f"{b}/loss"] - figures[f"{a}/loss"] for place, (a, b) in pairs.items()}
    measured = f"leaving warm-up out costs post-norm {mean['post']:+.2f} of loss, pre-norm {mean['pre']:+.2f}"
    if not learned(figures, PAPER) or not learned(figures, "pre-norm"):
        return not_shown(measured)
    if least[0] >= COST > most[1]:
        if figures[f"{pairs['post'][1]}/at_edge"]:
            return not_shown(f"{measured}; but post-norm's best rate without is the last of the list")
        return rule(True, measured)
    return rule(False, measured) if least[1] >= COST else not_shown(measured)


CLAIMS = (
    Claim(
        key="residual",
        section="3.1",
        says="Residual connections make the deep model trainable.",
        rule=f"holds if without them the loss is at least 0.2 nats higher {APART}",
        judge=judge_residual,
    ),
    Claim(
        key="gradients",
        section="3.1",
        says="Residual connections carry the gradient to the first layer.",
        rule="holds if at initialisation the first layer's gradient is out of balance with the last's by at least "
        "twice as large a factor without them, does not if by less, either between any two draws; not shown between",
        judge=judge_gradients,
    ),
    Claim(
        key="norm",
        section="3.1",
        says="Normalisation is needed beside residuals.",
        rule=f"holds if without it the loss is at least 0.1 nats higher {APART}",
        judge=judge_norm,
    ),
    Claim(
        key="batch_norm",
        section="3.1 (Ba 2016)",
        says="On sequences of varying length LayerNorm does better than BatchNorm.",
        rule=f"holds if BatchNorm's loss on unseen batches is at least 0.05 nats higher {APART}",
        judge=judge_batch_norm,
    ),
    Claim(
        key="warmup",
        section="Xiong 2020, of 3.1 and 5.3",
        says="Without warm-up post-norm suffers, pre-norm does not.",
        rule=f"holds if leaving warm-up out costs post-norm {COST} nats or more and pre-norm less, does not if it "
        "costs pre-norm as much, either between any two draws, each at its best rate; else not shown",
        judge=judge_warmup,
    ),
)


class Variant(NamedTuple):
    config: ResidualConfig
    kind: Kind


def built(config: ResidualConfig, kind: Kind, vocabulary: int, seed: int) -> Transformer:
    own = replace(config.model, norm="pre" if kind.place == "pre" else "post", dropout=0.0)
    model = seeded(own, vocabulary, seed)
    if kind.norm == "layer" and kind.residual:
        return model
    return around_sublayers(model, norm=kind.norm, residual=kind.residual)


def measure(config: ResidualConfig, bench: Bench) -> Measured:
    found = tuned(bench, train_deep, [Variant(config, kind) for kind in KINDS], config.rates, config.draws)
    figures: dict[str, float] = {"guessing": math.log(config.symbols)}
    for kind, one in zip(KINDS, found, strict=True):
        logs = [math.log(float(draw["first_over_last"])) for draw in one.draws]
        figures |= one.figures(kind.name) | ranged(kind.name, "imbalance", [abs(value) for value in logs])
        figures[f"{kind.name}/first_over_last"] = math.exp(math.fsum(logs) / len(logs))
    model = config.model
    return Measured(
        figures,
        {
            "gradients": [row for one in found for row in one.draws[0]["gradients"]],
            "loss": [row for kind, one in zip(KINDS, found, strict=True) for row in mean_curve(kind.name, one)],
            "rates": [
                {"around": kind.name, "rate": rate, "loss": value}
                for kind, one in zip(KINDS, found, strict=True)
                for rate, value in one.tried.items()
            ],
        },
        setup=f"{model.layers} + {model.layers} layers, {model.d_model} wide, reversing {config.symbols} symbols of "
        f"length 3 to {config.longest}; {config.updates} updates of {config.batch} sequences, Adam, a peak rate from "
        f"{', '.join(f'{rate:g}' for rate in sorted(config.rates))} after {config.warmup} updates of warm-up or none, "
        f"then constant; {config.draws} draws at each variant's best.",
        notes=(
            "Losses in the verdicts are on 256 unseen sequences in evaluation mode: BatchNorm uses its running means. "
            "BatchNorm normalises over the real tokens of a batch; up to 31 rows of rounding-up repeat one of them.",
            "Best rates: " + ", ".join(f"{k.name} {one.rate:g}" for k, one in zip(KINDS, found, strict=True))
            + ". They are chosen by the first draw's loss; the verdicts are on all draws, whose "
            "range stands in brackets.",
        ),
    )  # fmt: skip


def train_deep(point: Try) -> dict[str, Any]:
    config, kind = point.side
    seed = seed_of(config.seed, point.draw)
    task = Task(config.symbols, 3, config.longest)
    model = built(config, kind, task.vocabulary, seed)
    gradients = gradients_at_start(model, task, seed)
    rate = warmed_up(point.rate, config.warmup if kind.warmup else 0)
    losses = list(training(model, task, batch=config.batch, updates=config.updates, rate=rate, seed=seed))
    final = loss(model, task.batch(256, np.random.default_rng(seed + 10_000)))
    first, *_, last = [row["gradient"] for row in gradients if row["stack"] == "encoder"]
    return {
        "loss": bounded(final),
        "first_over_last": max(first, 1e-30) / max(last, 1e-30),
        "gradients": [{"around": kind.name, **row} for row in gradients],
        "curve": smoothed([bounded(value) for value in losses], WINDOW),
    }


def mean_curve(name: str, found: Tuned) -> list[Row]:
    """The loss along the training, mean over draws."""
    curves: Sequence[list[tuple[int, float]]] = [draw["curve"] for draw in found.draws]
    return [
        {"around": name, "rate": found.rate, "update": same[0][0], "loss": math.fsum(v for _, v in same) / len(same)}
        for same in zip(*curves, strict=True)
    ]


def gradients_at_start(model: Transformer, task: Task, seed: int) -> list[Row]:
    """The norm of the gradient of each layer's feed-forward weights before the first update."""
    batch = task.batch(64, np.random.default_rng(seed + 20_000))
    model.train()
    (batch_losses(model, batch, 0.0)[0] / batch.target_tokens).backward()
    encoder = [("encoder", number, layer.feed_forward) for number, layer in enumerate(model.encoder_layers, 1)]
    decoder = [("decoder", number, layer.feed_forward) for number, layer in enumerate(model.decoder_layers, 1)]
    rows: list[Row] = []
    for stack, number, feed_forward in [*encoder, *decoder]:
        gradient = feed_forward.inner.weight.grad
        norm = float(gradient.norm()) if gradient is not None else 0.0
        rows.append({"stack": stack, "layer": number, "gradient": norm})
    model.zero_grad(set_to_none=True)
    return rows


def draw(tables: dict[str, list[Row]]) -> list[Chart]:
    encoder = [row for row in tables["gradients"] if row["stack"] == "encoder" and "no warm-up" not in row["around"]]
    curves, rates = ([{**row, "loss": min(row["loss"], TOP)} for row in tables[name]] for name in ("loss", "rates"))
    return [
        Chart(
            "Gradient by layer before the first update",
            charts.lines(
                charts.series(encoder, by="around", x="layer", y="gradient"), x_label="layer of the encoder",
                y_label="gradient norm", log=(False, True),
            ),
            "Of the feed-forward weights. The decoder's are in the data.",
            "gradients",
        ),
        Chart(
            "Loss by update",
            charts.lines(
                charts.series(curves, by="around", x="update", y="loss"), x_label="updates",
                y_label="loss per token, nats",
            ),
            f"Means of {WINDOW} updates of training and of all draws, each variant at its best rate. Post-norm is the "
            f"paper's. What is above {TOP:g} is drawn there.",
            "loss",
        ),
        Chart(
            "Learning rates tried",
            charts.lines(
                charts.series(rates, by="around", x="rate", y="loss"), x_label="peak rate",
                y_label="loss at the end, nats", log=(True, False),
            ),
            f"Of the first draw, on unseen sequences. What is above {TOP:g} is drawn there.",
            "rates",
        ),
    ]  # fmt: skip
