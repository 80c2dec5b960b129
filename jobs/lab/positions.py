"""Positions (section 3.5): what do position encodings give, and how far do they reach?

A small encoder-decoder learns to copy and to reverse sequences with sinusoids, with a learned table, and with nothing.
Then it is given sequences longer than any it was trained on. Without positions the encoder cannot know order at all:
permuting its input permutes its output.
"""

# B batch, S source length, D d_model

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from jobs.lab import charts
from jobs.lab.bench import Bench, Chart, Measured, Row
from jobs.lab.claims import Claim, Figures, Ruling, not_shown, rule
from jobs.lab.configs import PositionsConfig
from jobs.lab.draws import by_draws, either_way, gap, ranged, seed_of, spread
from jobs.lab.sequences import FIRST, Task, accuracy, training
from jobs.lab.variants import Positions, seeded, without_positions
from transformer.model import Transformer
from transformer.positions import sinusoids
from transformer.unpadded import Rectangle

ABOUT = (
    "Attention has no notion of order: what a position is must be told. The same small encoder-decoder learns to copy "
    "and to reverse with sinusoids, with learned positions, and with none, and is then tried on longer sequences than "
    "it ever saw. Two properties are checked: without positions the encoder only permutes what it is given, "
    "and the sinusoids of position pos + k are one and the same rotation of those of pos, whatever pos."
)
KINDS: tuple[Positions, ...] = ("sinusoidal", "learned", "none")
TRIED = 128  # sequences of each length
SHIFT, SHIFT_WIDTH, SHIFT_POSITIONS = 3, 16, 1_000
LEARNED = 0.9  # accuracy from which a task counts as learned


def judge_needed(figures: Figures) -> Ruling:
    given, none = "reverse/sinusoidal", "reverse/none"
    measured = (
        f"reversal: accuracy {spread(figures, given, 'within')} with sinusoids, "
        f"{spread(figures, none, 'within')} without positions"
    )
    if figures[f"{given}/within"] < LEARNED:
        return not_shown(measured)
    return by_draws(*gap(figures, none, given, "within"), 0.05, measured)


def judge_same(figures: Figures) -> Ruling:
    pairs = [(f"{task}/sinusoidal", f"{task}/learned") for task in ("copy", "reverse")]
    measured = "; ".join(
        f"{task} {spread(figures, one, 'within')} and {spread(figures, other, 'within')}"
        for task, (one, other) in zip(("copy", "reversal"), pairs, strict=True)
    )
    if min(figures[f"{one}/within"] for pair in pairs for one in pair) < LEARNED:
        return not_shown(measured)
    gaps = [gap(figures, *pair, "within") for pair in pairs]
    if all(max(-least, most) <= 0.02 for least, most in gaps):
        return rule(True, measured)
    return rule(False, measured) if any(max(least, -most) > 0.02 for least, most in gaps) else not_shown(measured)


def judge_beyond(figures: Figures) -> Ruling:
    ours, learned = (spread(figures, kind, "beyond") for kind in ("sinusoidal", "learned"))
    measured = f"accuracy beyond: {ours} sinusoidal, {learned} learned"
    if min(figures["sinusoidal/within"], figures["learned/within"]) < LEARNED:
        return not_shown(f"{measured}; not both learned the trained lengths")
    return either_way(*gap(figures, "learned", "sinusoidal", "beyond"), 0.05, measured)


def judge_extrapolates(figures: Figures) -> Ruling:
    within, beyond = (spread(figures, "sinusoidal", part) for part in ("within", "beyond"))
    measured = f"accuracy {within} at trained lengths, {beyond} beyond"
    if figures["sinusoidal/within"] < LEARNED:
        return not_shown(measured)
    limit = 0.9 * figures["sinusoidal/within"]
    return by_draws(figures["sinusoidal/beyond_least"], figures["sinusoidal/beyond_most"], limit, measured)


def judge_equivariant(figures: Figures) -> Ruling:
    error, contrast = figures["permutation_error"], figures["permutation_difference"]
    return rule(error < 1e-5, f"largest difference {error:.1e} without positions ({contrast:.2g} with sinusoids)")


def judge_linear(figures: Figures) -> Ruling:
    error = figures["shift_error"]
    return rule(error < 1e-5, f"largest error {error:.1e} over {SHIFT_POSITIONS:,} positions, k = {SHIFT}")


CLAIMS = (
    Claim(
        key="needed",
        section="3.5",
        says="Without recurrence, the model must be given the order of the sequence.",
        rule="holds if reversal is at least 0.05 less accurate without positions, does not if less so, either between "
        "any two draws; not shown between, or if it is not learned (0.9)",
        judge=judge_needed,
    ),
    Claim(
        key="equivariant",
        section="3.5",
        says="Without positions the encoder is permutation-equivariant.",
        rule="holds if permuting the input permutes the output to within 1e-5",
        judge=judge_equivariant,
    ),
    Claim(
        key="same",
        section="3.5, Table 3 (E)",
        says="Learned positions and sinusoids give nearly identical results.",
        rule="holds if at trained lengths the accuracies of any two draws differ by at most 0.02 on both tasks, does "
        "not if on either task they differ by more between any two; not shown between, or below 0.9",
        judge=judge_same,
    ),
    Claim(
        key="beyond",
        section="3.5",
        says="Beyond trained lengths sinusoids do better than learned positions.",
        rule="holds if their accuracy beyond (the mean of both tasks) is at least 0.05 higher, does not if it is 0.05 "
        "lower, either between any two draws; not shown between, or if either is below 0.9 at trained lengths",
        judge=judge_beyond,
    ),
    Claim(
        key="extrapolates",
        section="3.5",
        says="Sinusoids let the model extrapolate to lengths longer than those trained on.",
        rule="holds if in every draw accuracy beyond is at least 0.9 of that at trained lengths, does not if in none",
        judge=judge_extrapolates,
    ),
    Claim(
        key="linear",
        section="3.5",
        says="PE(pos + k) is a linear function of PE(pos).",
        rule="holds if one matrix maps PE(pos) to PE(pos + k) to within 1e-5 for every pos",
        judge=judge_linear,
    ),
)


class Point(NamedTuple):
    config: PositionsConfig
    kind: Positions
    reverse: bool
    draw: int = 0

    @property
    def task(self) -> Task:
        config = self.config
        return Task(config.symbols, config.shortest, config.longest, self.reverse)


def built(config: PositionsConfig, kind: Positions, vocabulary: int, draw: int = 0) -> Transformer:
    model = replace(config.model, positions="learned" if kind == "learned" else "sinusoidal")
    made = seeded(model, vocabulary, seed_of(config.seed, draw))
    return without_positions(made) if kind == "none" else made


def measure(config: PositionsConfig, bench: Bench) -> Measured:
    sides = [(kind, reverse) for reverse in (False, True) for kind in KINDS]
    points = [Point(config, *side, draw) for side in sides for draw in range(config.draws)]
    every = [row for rows in bench.each(learn, points) for row in rows]
    (properties,) = bench.each(exact_properties, [config])
    figures = dict(properties["figures"])
    within = range(config.shortest, config.longest + 1)
    for kind in KINDS:
        for part in ("within", "beyond"):
            of_kind = [r for r in every if r["positions"] == kind and (r["length"] in within) == (part == "within")]
            by_draw = {
                task: [mean([r for r in of_kind if r["task"] == task and r["draw"] == d]) for d in range(config.draws)]
                for task in ("copy", "reverse")
            }
            both = [(one + other) / 2 for one, other in zip(*by_draw.values(), strict=True)]
            figures |= ranged(kind, part, both)
            for task, values in by_draw.items():
                figures |= ranged(f"{task}/{kind}", part, values)
    return Measured(
        figures,
        {"accuracy": over_draws(every), "shift": properties["shift"]},
        setup=f"{config.model.layers} + {config.model.layers} layers, {config.model.d_model} wide; {config.symbols} "
        f"symbols with repeats, lengths {config.shortest} to {config.longest} in training and up to {config.beyond} "
        f"after; {config.updates:,} updates of {config.batch} sequences, Adam at {config.learning_rate:g} for all; "
        f"{config.draws} draws of each.",
        notes=(
            "Accuracy is of single tokens after the right prefix (teacher forcing). Curves are means of the draws; in "
            "brackets, their range.",
        ),
    )


def over_draws(rows: list[Row]) -> list[Row]:
    """Mean accuracy over draws."""
    same: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        same.setdefault((row["task"], row["positions"], row["length"]), []).append(row)
    return [
        {"task": task, "positions": kind, "length": length, "accuracy": mean(own)}
        for (task, kind, length), own in same.items()
    ]


def mean(rows: list[Row]) -> float:
    return math.fsum(row["accuracy"] for row in rows) / len(rows)


def learn(point: Point) -> list[Row]:
    """Train, then accuracy at every length."""
    config, task = point.config, point.task
    seed = seed_of(config.seed, point.draw)
    model = built(config, point.kind, task.vocabulary, point.draw)
    for _ in training(
        model, task, batch=config.batch, updates=config.updates, seed=seed,
        rate=lambda number: config.learning_rate * min(1.0, number / 100),
    ):  # fmt: skip
        pass
    numbers = np.random.default_rng(seed + 10_000)
    return [
        {
            "task": "reverse" if point.reverse else "copy",
            "positions": point.kind,
            "draw": point.draw,
            "length": length,
            "accuracy": accuracy(model, task.of_length(length).batch(TRIED, numbers)),
        }
        for length in range(config.shortest, config.beyond + 1)
    ]


def exact_properties(config: PositionsConfig) -> dict[str, Any]:
    """What must hold whatever the weights: equivariance without positions, and the shift of sinusoids."""
    matrix = shift_matrix(SHIFT_WIDTH, SHIFT)
    table = sinusoids(SHIFT_POSITIONS + SHIFT, SHIFT_WIDTH).double()
    error = float((table[:-SHIFT] @ matrix.T - table[SHIFT:]).abs().max())
    figures = {
        "permutation_error": permutation_error(built(config, "none", 100), config.seed),
        "permutation_difference": permutation_error(built(config, "sinusoidal", 100), config.seed),
        "shift_error": error,
    }
    rows = [
        {"row": down, **{f"{at}": value for at, value in enumerate(row)}} for down, row in enumerate(matrix.tolist())
    ]
    return {"figures": figures, "shift": rows}


@torch.no_grad()
def permutation_error(model: Transformer, seed: int) -> float:
    """The largest difference between encoding a permuted sequence and permuting an encoded one."""
    generator = torch.Generator().manual_seed(seed)
    source_BS = torch.randint(FIRST, 100, (8, 24), generator=generator)
    order = torch.randperm(24, generator=generator)
    rows = Rectangle.of(source_BS)
    model.eval()
    permuted_BSD = rows.unpack(model.encode(source_BS[:, order], rows).memory_MD)
    plain_BSD = rows.unpack(model.encode(source_BS, rows).memory_MD)
    return float((permuted_BSD - plain_BSD[:, order]).abs().max())


def shift_matrix(d_model: int, k: int) -> Tensor:
    """M with PE(pos + k) = M PE(pos) for every pos: each sine-cosine pair turned by its own angle."""
    matrix = torch.zeros(d_model, d_model, dtype=torch.float64)
    for pair in range(0, d_model, 2):
        angle = k / 10_000 ** (pair / d_model)
        turn = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
        matrix[pair : pair + 2, pair : pair + 2] = torch.tensor(turn, dtype=torch.float64)
    return matrix


def draw(tables: dict[str, list[Row]]) -> list[Chart]:
    matrix = [[float(row[str(at)]) for at in range(SHIFT_WIDTH)] for row in tables["shift"]]
    found = [
        Chart(
            f"{name} by length",
            charts.lines(
                charts.series([row for row in tables["accuracy"] if row["task"] == task], by="positions", x="length",
                              y="accuracy"),
                x_label="length", y_label="token accuracy",
            ),
            "Training saw the shorter lengths only: see the set-up.",
            "accuracy",
        )
        for task, name in (("copy", "Copying"), ("reverse", "Reversing"))
    ]  # fmt: skip
    picture = charts.matrix(
        matrix, describe=f"the matrix that maps PE(pos) to PE(pos + {SHIFT})", x_label="PE(pos)",
        y_label=f"PE(pos + {SHIFT})",
    )  # fmt: skip
    words = f"The map from pos to pos + {SHIFT} for d_model = {SHIFT_WIDTH}: the same for every pos. Blue is positive."
    return [*found, Chart("Sinusoids shift by rotation", picture, words, "shift")]
