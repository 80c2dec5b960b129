"""Warm-up (section 5.3): is it needed, and by whom?

The same deep model learns to reverse sequences over a grid of peak learning rates and warm-ups, with the norm after
each sub-layer as in the paper (post) and before it (pre). After warm-up the rate stays at its peak, so that what
differs between two cells of a row is the beginning alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from jobs.lab import charts
from jobs.lab.bench import Bench, Chart, Measured, Row
from jobs.lab.claims import Claim, Figures, Ruling, not_shown, rule
from jobs.lab.configs import WarmupConfig
from jobs.lab.draws import bounded, is_at_edge, ranged, seed_of
from jobs.lab.sequences import Task, loss, training, warmed_up
from jobs.lab.variants import seeded

ABOUT = (
    "The paper raises the learning rate slowly before it lets it fall, and gives no reason. Xiong (2020) does: with "
    "the norm after the sub-layer the first gradients near the output are large, with the norm before it they are not. "
    "The grid shows the loss at the end over peak rate and warm-up, the mean of several draws; in a crossed cell one "
    "of them or more has learned nothing."
)
NORMS: tuple[Literal["post", "pre"], ...] = ("post", "pre")
TELLING = 0.03  # nats
FAILED = 0.95  # of the loss of guessing: at or above that a run counts as failed


def cell(norm: str, rate: float, warmup: int) -> str:
    return f"{norm}/{rate:g}/{warmup}"


def grid(figures: Figures, norm: str, part: str = "") -> dict[tuple[float, int], float]:
    """Loss by (rate, warm-up): the mean of the draws, or the `_least` or `_most` of them."""
    found = {}
    for name, value in figures.items():
        if name.startswith(f"{norm}/") and name.endswith(f"/loss{part}"):
            _, rate, warmup, _ = name.split("/")
            found[float(rate), int(warmup)] = value
    return found


def outcomes(figures: Figures, norm: str, warmup: int) -> dict[float, bool | None]:
    """By rate: True where every draw failed, False where none did, None where some did."""
    limit = FAILED * figures["guessing"]
    least, most = grid(figures, norm, "_least"), grid(figures, norm, "_most")
    return {
        rate: True if least[rate, length] >= limit else False if most[rate, length] < limit else None
        for rate, length in least
        if length == warmup
    }


def more_failures(these: Mapping[float, bool | None], those: Mapping[float, bool | None], measured: str) -> Ruling:
    """Is there a rate at which every draw of these fails and none of those, and none the other way round?"""
    saved = any(these[rate] is True and those[rate] is False for rate in these)
    lost = any(these[rate] is False and those[rate] is True for rate in these)
    if saved != lost:
        return rule(saved, measured)
    both = [*these.values(), *those.values()]
    told_apart = True in both and False in both and None not in both
    return rule(False, measured) if told_apart else not_shown(measured)


def judge_post(figures: Figures) -> Ruling:
    longest = max(length for _, length in grid(figures, "post"))
    without, with_it = outcomes(figures, "post", 0), outcomes(figures, "post", longest)
    measured = f"post-norm fails at {words(without)} without warm-up, at {words(with_it)} with {longest} updates of it"
    return more_failures(without, with_it, measured)


def judge_pre(figures: Figures) -> Ruling:
    post, pre = outcomes(figures, "post", 0), outcomes(figures, "pre", 0)
    measured = f"without warm-up post-norm fails at {words(post)}, pre-norm at {words(pre)}"
    return more_failures(post, pre, measured)


def words(outcomes: Mapping[float, bool | None]) -> str:
    sometimes = list(outcomes.values()).count(None)
    always = list(outcomes.values()).count(True)
    return f"{always} of {len(outcomes)} rates" + (f" (at {sometimes} more in some draws)" if sometimes else "")


def judge_best(figures: Figures) -> Ruling:
    mean, least, most = (grid(figures, "post", part) for part in ("", "_least", "_most"))
    lengths = sorted({length for _, length in mean})
    best = {
        length: min((cell for cell in mean if cell[1] == length), key=lambda cell: mean[cell]) for length in lengths
    }
    measured = "loss of post-norm at its best rate by updates of warm-up: " + ", ".join(
        f"{mean[best[n]]:.2f} ({least[best[n]]:.2f} to {most[best[n]]:.2f}) with {n}" for n in lengths
    )
    none, others = best[0], [best[length] for length in lengths if length]
    if min(mean.values()) >= FAILED * figures["guessing"]:
        return not_shown(measured)
    if all(least[none] - most[other] >= TELLING for other in others):
        return unless_at_edge(figures, [none], measured, True)
    if all(least[other] - most[none] >= TELLING for other in others):
        return unless_at_edge(figures, others, measured, False)
    return not_shown(measured)


def unless_at_edge(figures: Figures, losers: Sequence[tuple[float, int]], measured: str, holds: bool) -> Ruling:
    mean = grid(figures, "post")
    for rate, length in losers:
        rates = sorted(one for one, other in mean if other == length)
        if is_at_edge([mean[one, length] for one in rates], rates.index(rate)):
            return not_shown(f"{measured}; but with {length} the best rate tried is the last of the list")
    return rule(holds, measured)


CLAIMS = (
    Claim(
        key="post",
        section="5.3; Xiong 2020",
        says="The paper's post-norm model needs warm-up at high learning rates.",
        rule=f"holds if at some rate every draw fails (loss {FAILED} of guessing or more) without, none with the "
        "most of it, and at no rate the other way round; not shown if draws differ, or none or all fail",
        judge=judge_post,
    ),
    Claim(
        key="pre",
        section="Xiong 2020",
        says="Pre-norm needs warm-up less than post-norm.",
        rule="holds if without warm-up every draw of post-norm and none of pre-norm fails at some rate, and at no "
        "rate the other way round; not shown if draws differ, or none or all fail",
        judge=judge_pre,
    ),
    Claim(
        key="best",
        section="5.3",
        says="Each at its best rate, post-norm does better with warm-up.",
        rule=f"holds if with every length of it the loss is at least {TELLING} nats below that without, does not if "
        "with every length as much above, between any two draws; not shown otherwise, or if the loser's best rate is "
        "the last of the list",
        judge=judge_best,
    ),
)


class Point(NamedTuple):
    config: WarmupConfig
    norm: Literal["post", "pre"]
    rate: float
    warmup: int
    draw: int


def measure(config: WarmupConfig, bench: Bench) -> Measured:
    cells = [(norm, rate, length) for norm in NORMS for rate in sorted(config.rates) for length in config.warmups]
    points = [Point(config, *one, draw) for one in cells for draw in range(config.draws)]
    losses = bench.each(train_cell, points)
    figures: dict[str, float] = {"guessing": math.log(config.symbols)}
    rows: list[Row] = []
    for place, (norm, rate, length) in enumerate(cells):
        own = losses[place * config.draws : (place + 1) * config.draws]
        figures |= ranged(cell(norm, rate, length), "loss", own)
        failed = sum(value >= FAILED * figures["guessing"] for value in own)
        mean = math.fsum(own) / len(own)
        rows.append({
            "norm": norm, "rate": rate, "warmup": length, "loss": mean, "least": min(own), "most": max(own),
            "failed": failed > 0, "draws_failed": failed,
        })  # fmt: skip
    model = config.model
    return Measured(
        figures,
        {"grid": rows},
        setup=f"{model.layers} + {model.layers} layers, {model.d_model} wide, reversing {config.symbols} symbols of "
        f"length 3 to {config.longest}; {config.updates} updates of {config.batch} sequences, Adam, the rate constant "
        f"after warm-up; loss on 256 unseen sequences, {figures['guessing']:.2f} is guessing; {config.draws} draws of "
        f"every cell.",
    )


def train_cell(point: Point) -> float:
    """The loss at the end."""
    config, seed = point.config, seed_of(point.config.seed, point.draw)
    task = Task(config.symbols, 3, config.longest)
    model = seeded(replace(config.model, norm=point.norm, dropout=0.0), task.vocabulary, seed)
    rate = warmed_up(point.rate, point.warmup)
    for _ in training(model, task, batch=config.batch, updates=config.updates, rate=rate, seed=seed):
        pass
    return bounded(loss(model, task.batch(256, np.random.default_rng(seed + 10_000))))


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
            "Loss at the end, mean of the draws; crossed: in one draw or more nothing was learned.",
            "grid",
        )
        for norm in NORMS
    ]  # fmt: skip
