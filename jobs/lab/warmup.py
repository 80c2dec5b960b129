"""Warm-up (section 5.3): is it needed, and by whom?

The same deep model learns to reverse sequences over a grid of peak learning rates and warm-ups, with the norm after
each sub-layer as in the paper (post) and before it (pre). After warm-up the rate stays at its peak, so that what
differs between two cells of a row is the beginning alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from jobs.lab import charts
from jobs.lab.bench import Bench, Chart, Measured, Row
from jobs.lab.claims import Claim, Figures, Ruling, not_shown, rule
from jobs.lab.configs import WarmupConfig
from jobs.lab.sequences import Task, loss, training, warmed_up
from jobs.lab.variants import seeded

ABOUT = (
    "The paper raises the learning rate slowly before it lets it fall, and gives no reason. Xiong (2020) does: with "
    "the norm after the sub-layer the first gradients near the output are large, with the norm before it they are not. "
    "The grid shows the loss at the end over peak rate and warm-up; a crossed cell has learned nothing."
)
NORMS: tuple[Literal["post", "pre"], ...] = ("post", "pre")
FAILED = 0.95  # of the loss of guessing: at or above that a run counts as failed


def cell(norm: str, rate: float, warmup: int) -> str:
    return f"{norm}/{rate:g}/{warmup}"


def grid(figures: Figures, norm: str) -> dict[tuple[float, int], float]:
    """Loss by (rate, warm-up)."""
    found = {}
    for name, value in figures.items():
        if name.startswith(f"{norm}/"):
            _, rate, warmup = name.split("/")
            found[float(rate), int(warmup)] = value
    return found


def rates(figures: Figures) -> int:
    return len({rate for rate, _ in grid(figures, "post")})


def failures(figures: Figures, norm: str, warmup: int) -> int:
    limit = FAILED * figures["guessing"]
    return sum(not value < limit for (_, length), value in grid(figures, norm).items() if length == warmup)


def judge_post(figures: Figures) -> Ruling:
    longest = max(length for _, length in grid(figures, "post"))
    without, with_it = failures(figures, "post", 0), failures(figures, "post", longest)
    measured = f"post-norm fails at {without} rates without warm-up, at {with_it} with {longest} updates of it"
    undecided = without == with_it == 0 or with_it == rates(figures)
    return not_shown(measured) if undecided else rule(without > with_it, measured)


def judge_pre(figures: Figures) -> Ruling:
    post, pre = failures(figures, "post", 0), failures(figures, "pre", 0)
    measured = f"without warm-up post-norm fails at {post} of the rates, pre-norm at {pre}"
    undecided = post == pre and post in (0, rates(figures))
    return not_shown(measured) if undecided else rule(pre < post, measured)


def judge_best(figures: Figures) -> Ruling:
    cells = grid(figures, "post")
    best = {length: min(value for (_, one), value in cells.items() if one == length) for _, length in cells}
    without, *with_it = (best[length] for length in sorted(best))
    others = ", ".join(f"{best[length]:.2f} with {length}" for length in sorted(best) if length)
    measured = f"loss of post-norm at its best rate {without:.2f} without warm-up, {others}"
    if min(best.values()) >= FAILED * figures["guessing"]:
        return not_shown(measured)
    if all(value <= without - 0.03 for value in with_it):
        return rule(True, measured)
    return rule(False, measured) if all(value >= without + 0.03 for value in with_it) else not_shown(measured)


CLAIMS = (
    Claim(
        key="post",
        section="5.3; Xiong 2020",
        says="The paper's post-norm model needs warm-up at high learning rates.",
        rule=f"holds if it fails (loss {FAILED} of guessing or more) at more rates without than with most of it",
        judge=judge_post,
    ),
    Claim(
        key="pre",
        section="Xiong 2020",
        says="Pre-norm needs warm-up less than post-norm.",
        rule="holds if without warm-up pre-norm fails at fewer rates; not shown if neither fails, or both always",
        judge=judge_pre,
    ),
    Claim(
        key="best",
        section="5.3",
        says="Each at its best rate, post-norm does better with warm-up.",
        rule="holds if with every length of it the loss is at least 0.03 nats below that without, does not if with "
        "every length as much above; not shown between",
        judge=judge_best,
    ),
)


class Point(NamedTuple):
    config: WarmupConfig
    norm: Literal["post", "pre"]
    rate: float
    warmup: int


def measure(config: WarmupConfig, bench: Bench) -> Measured:
    points = [Point(config, norm, rate, length) for norm in NORMS for rate in config.rates for length in config.warmups]
    losses = bench.each(train_cell, points)
    figures: dict[str, float] = {"guessing": math.log(config.symbols)}
    rows: list[Row] = []
    for point, value in zip(points, losses, strict=True):
        figures[cell(point.norm, point.rate, point.warmup)] = value
        failed = not value < FAILED * figures["guessing"]
        rows.append({"norm": point.norm, "rate": point.rate, "warmup": point.warmup, "loss": value, "failed": failed})
    model = config.model
    return Measured(
        figures,
        {"grid": rows},
        setup=f"{model.layers} + {model.layers} layers, {model.d_model} wide, reversing {config.symbols} symbols of "
        f"length 3 to {config.longest}; {config.updates} updates of {config.batch} sequences, Adam, the rate constant "
        f"after warm-up; loss on 256 unseen sequences, {figures['guessing']:.2f} is guessing.",
    )


def train_cell(point: Point) -> float:
    """The loss at the end; 99 where it is no number."""
    config = point.config
    task = Task(config.symbols, 3, config.longest)
    model = seeded(replace(config.model, norm=point.norm, dropout=0.0), task.vocabulary, config.seed)
    rate = warmed_up(point.rate, point.warmup)
    for _ in training(model, task, batch=config.batch, updates=config.updates, rate=rate, seed=config.seed):
        pass
    final = loss(model, task.batch(256, np.random.default_rng(config.seed + 10_000)))
    return final if math.isfinite(final) else 99.0


def draw(tables: dict[str, list[Row]]) -> list[Chart]:
    losses = [row["loss"] for row in tables["grid"]]
    return [
        Chart(
            f"{norm}-norm",
            charts.heat(
                [row for row in tables["grid"] if row["norm"] == norm], x="warmup", y="rate", value="loss",
                x_label="updates of warm-up", y_label="peak rate", low=min(losses), high=min(max(losses), 3.0),
                describe=f"loss of {norm}-norm by peak learning rate and warm-up", bad="failed",
            ),
            "Loss at the end; crossed: nothing learned.",
            "grid",
        )
        for norm in NORMS
    ]  # fmt: skip
