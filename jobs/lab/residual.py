"""Residual connections and normalisation (section 3.1): which of them make depth trainable?

The same deep model, reversing sequences of several lengths, with one thing around its sub-layers changed at a time. The
gradient of each layer is looked at before the first update, the loss along the way.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from jobs.lab import charts
from jobs.lab.bench import Bench, Chart, Measured, Row
from jobs.lab.claims import Claim, Figures, Ruling, not_shown, rule
from jobs.lab.configs import ResidualConfig
from jobs.lab.sequences import Task, loss, smoothed, training, warmed_up
from jobs.lab.variants import Norm, around_sublayers, seeded
from transformer.model import Transformer
from transformer.update import batch_losses

ABOUT = (
    "Every sub-layer of the paper is wrapped as LayerNorm(x + Sublayer(x)). Here a deep model learns to reverse "
    "sequences of several lengths with that wrapping changed in one thing at a time: no residual, no norm, BatchNorm "
    "in place of LayerNorm, the norm before the sub-layer (pre) instead of after it (post), and either with and "
    "without warm-up."
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
WINDOW = 20  # updates that a point of a curve is the mean of
PAPER = KINDS[0].name
COST = 0.1  # nats, of leaving warm-up out


def learned(figures: Figures, name: str) -> bool:
    """Has it got well below guessing, which costs the logarithm of the number of symbols?"""
    return figures[f"{name}/loss"] < 0.8 * figures["guessing"]


def judge_residual(figures: Figures) -> Ruling:
    with_it, without = figures[f"{PAPER}/loss"], figures["no residual/loss"]
    measured = f"loss {with_it:.2f} with residuals, {without:.2f} without ({figures['guessing']:.2f} is guessing)"
    return (
        rule(not math.isfinite(without) or without >= with_it + 0.2, measured)
        if learned(figures, PAPER)
        else not_shown(measured)
    )


def judge_gradients(figures: Figures) -> Ruling:
    with_it, without = figures[f"{PAPER}/first_over_last"], figures["no residual/first_over_last"]
    measured = (
        f"gradient of the first encoder layer over the last's: {with_it:.2g} with residuals, {without:.2g} without"
    )
    return rule(abs(math.log(max(without, 1e-30))) > abs(math.log(max(with_it, 1e-30))) + math.log(2), measured)


def judge_norm(figures: Figures) -> Ruling:
    with_it, without = figures[f"{PAPER}/loss"], figures["no norm/loss"]
    measured = f"loss {with_it:.2f} with LayerNorm, {without:.2f} without a norm"
    return (
        rule(not math.isfinite(without) or without >= with_it + 0.1, measured)
        if learned(figures, PAPER)
        else not_shown(measured)
    )


def judge_batch_norm(figures: Figures) -> Ruling:
    layer, batch = figures[f"{PAPER}/loss"], figures["BatchNorm/loss"]
    measured = f"loss on unseen batches {layer:.2f} with LayerNorm, {batch:.2f} with BatchNorm"
    return (
        rule(not math.isfinite(batch) or batch >= layer + 0.05, measured)
        if learned(figures, PAPER)
        else not_shown(measured)
    )


def judge_warmup(figures: Figures) -> Ruling:
    post, pre = "post-norm no warm-up", "pre-norm no warm-up"
    post_cost = figures[f"{post}/loss"] - figures[f"{PAPER}/loss"]
    pre_cost = figures[f"{pre}/loss"] - figures["pre-norm/loss"]
    measured = f"leaving warm-up out costs post-norm {post_cost:+.2f} of loss, pre-norm {pre_cost:+.2f}"
    if not learned(figures, PAPER) or not learned(figures, "pre-norm") or max(post_cost, pre_cost) < COST:
        return not_shown(measured)
    return rule(not post_cost < COST and pre_cost < COST, measured)


CLAIMS = (
    Claim(
        key="residual",
        section="3.1",
        says="Residual connections make the deep model trainable.",
        rule="holds if without them the loss is at least 0.2 nats higher; not shown if the paper's own does not learn",
        judge=judge_residual,
    ),
    Claim(
        key="gradients",
        section="3.1",
        says="Residual connections carry the gradient to the first layer.",
        rule="holds if at initialisation the first layer's gradient is out of balance with the last's by over twice as "
        "large a factor without them",
        judge=judge_gradients,
    ),
    Claim(
        key="norm",
        section="3.1",
        says="Normalisation is needed beside residuals.",
        rule="holds if without it the loss is at least 0.1 nats higher",
        judge=judge_norm,
    ),
    Claim(
        key="batch_norm",
        section="3.1 (Ba 2016)",
        says="On sequences of varying length LayerNorm does better than BatchNorm.",
        rule="holds if BatchNorm's loss on unseen batches is at least 0.05 nats higher",
        judge=judge_batch_norm,
    ),
    Claim(
        key="warmup",
        section="Xiong 2020, of 3.1 and 5.3",
        says="Without warm-up post-norm suffers, pre-norm does not.",
        rule=f"holds if leaving warm-up out costs post-norm {COST} nats or more and pre-norm less; not shown if "
        "neither loses so much",
        judge=judge_warmup,
    ),
)


class Point(NamedTuple):
    config: ResidualConfig
    kind: Kind


def built(point: Point, vocabulary: int) -> Transformer:
    kind = point.kind
    config = replace(point.config.model, norm="pre" if kind.place == "pre" else "post", dropout=0.0)
    model = seeded(config, vocabulary, point.config.seed)
    if kind.norm == "layer" and kind.residual:
        return model
    return around_sublayers(model, norm=kind.norm, residual=kind.residual)


def measure(config: ResidualConfig, bench: Bench) -> Measured:
    points = [Point(config, kind) for kind in KINDS]
    found = bench.each(train_deep, points)
    figures: dict[str, float] = {"guessing": math.log(config.symbols)}
    for point, one in zip(points, found, strict=True):
        figures |= {f"{point.kind.name}/{name}": value for name, value in one["figures"].items()}
    model = config.model
    return Measured(
        figures,
        {
            "gradients": [row for one in found for row in one["gradients"]],
            "loss": [row for one in found for row in one["curve"]],
        },
        setup=f"{model.layers} + {model.layers} layers, {model.d_model} wide, reversing {config.symbols} symbols of "
        f"length 3 to {config.longest}; {config.updates} updates of {config.batch} sequences, Adam, peak "
        f"{config.learning_rate:g} after {config.warmup} updates of warm-up or none, then constant.",
        notes=(
            "Losses in the verdicts are on 256 unseen sequences in evaluation mode: BatchNorm uses its running means. "
            "BatchNorm normalises over the real tokens of a batch; up to 31 rows of rounding-up repeat one of them.",
        ),
    )  # fmt: skip


def train_deep(point: Point) -> dict[str, Any]:
    config, name = point.config, point.kind.name
    task = Task(config.symbols, 3, config.longest)
    model = built(point, task.vocabulary)
    gradients = gradients_at_start(model, task, config.seed)
    rate = warmed_up(config.learning_rate, config.warmup if point.kind.warmup else 0)
    losses = list(training(model, task, batch=config.batch, updates=config.updates, rate=rate, seed=config.seed))
    final = loss(model, task.batch(256, np.random.default_rng(config.seed + 10_000)))
    encoder = [row["gradient"] for row in gradients if row["stack"] == "encoder"]
    return {
        "figures": {"loss": final, "first_over_last": encoder[0] / max(encoder[-1], 1e-30)},
        "gradients": [{"around": name, **row} for row in gradients],
        "curve": [{"around": name, "update": at, "loss": value} for at, value in smoothed(losses, WINDOW)],
    }


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
                charts.series(tables["loss"], by="around", x="update", y="loss"), x_label="updates",
                y_label="loss per token, nats",
            ),
            f"Means of {WINDOW} updates of training. Post-norm is the paper's.",
            "loss",
        ),
    ]  # fmt: skip
