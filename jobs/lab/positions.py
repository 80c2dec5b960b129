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
from jobs.lab.claims import Claim, Figures, Ruling, by_margin, not_shown, rule
from jobs.lab.configs import PositionsConfig
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
    given, none = figures["reverse/sinusoidal/within"], figures["reverse/none/within"]
    measured = f"reversal: accuracy {given:.3f} with sinusoids, {none:.3f} without positions"
    return not_shown(measured) if given < LEARNED else rule(given - none >= 0.05, measured)


def judge_same(figures: Figures) -> Ruling:
    pairs = [(figures[f"{task}/sinusoidal/within"], figures[f"{task}/learned/within"]) for task in ("copy", "reverse")]
    measured = "; ".join(
        f"{task} {one:.3f} and {other:.3f}" for task, (one, other) in zip(("copy", "reversal"), pairs, strict=True)
    )
    if min(min(pair) for pair in pairs) < LEARNED:
        return not_shown(measured)
    return rule(max(abs(one - other) for one, other in pairs) <= 0.02, measured)


def judge_beyond(figures: Figures) -> Ruling:
    ours, learned = figures["sinusoidal/beyond"], figures["learned/beyond"]
    measured = f"accuracy beyond: {ours:.3f} sinusoidal, {learned:.3f} learned"
    if min(figures["sinusoidal/within"], figures["learned/within"]) < LEARNED:
        return not_shown(f"{measured}; not both learned the trained lengths")
    return by_margin(ours - learned, 0.05, measured)


def judge_extrapolates(figures: Figures) -> Ruling:
    beyond, within = figures["sinusoidal/beyond"], figures["sinusoidal/within"]
    measured = f"accuracy {within:.3f} at trained lengths, {beyond:.3f} beyond"
    return not_shown(measured) if within < LEARNED else rule(beyond >= 0.9 * within, measured)


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
        rule="holds if reversal is at least 0.05 less accurate without positions; not shown if it is not learned (0.9)",
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
        rule="holds if at trained lengths their accuracies differ by at most 0.02 on both tasks; not shown below 0.9",
        judge=judge_same,
    ),
    Claim(
        key="beyond",
        section="3.5",
        says="Beyond trained lengths sinusoids do better than learned positions.",
        rule="holds if their mean accuracy beyond is at least 0.05 higher, does not if it is 0.05 lower; not shown if "
        "either is below 0.9 at trained lengths",
        judge=judge_beyond,
    ),
    Claim(
        key="extrapolates",
        section="3.5",
        says="Sinusoids let the model extrapolate to lengths longer than those trained on.",
        rule="holds if accuracy beyond is at least 0.9 of that at trained lengths",
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

    @property
    def task(self) -> Task:
        config = self.config
        return Task(config.symbols, config.shortest, config.longest, self.reverse)


def built(config: PositionsConfig, kind: Positions, vocabulary: int) -> Transformer:
    model = replace(config.model, positions="learned" if kind == "learned" else "sinusoidal")
    made = seeded(model, vocabulary, config.seed)
    return without_positions(made) if kind == "none" else made


def measure(config: PositionsConfig, bench: Bench) -> Measured:
    points = [Point(config, kind, reverse) for reverse in (False, True) for kind in KINDS]
    rows = [row for rows in bench.each(learn, points) for row in rows]
    (properties,) = bench.each(exact_properties, [config])
    figures = dict(properties["figures"])
    within = range(config.shortest, config.longest + 1)
    for kind in KINDS:
        for task in ("copy", "reverse"):
            own = [row for row in rows if row["positions"] == kind and row["task"] == task]
            figures[f"{task}/{kind}/within"] = mean([row for row in own if row["length"] in within])
            figures[f"{task}/{kind}/beyond"] = mean([row for row in own if row["length"] not in within])
        for part in ("within", "beyond"):
            figures[f"{kind}/{part}"] = (figures[f"copy/{kind}/{part}"] + figures[f"reverse/{kind}/{part}"]) / 2
    return Measured(
        figures,
        {"accuracy": rows, "shift": properties["shift"]},
        setup=f"{config.model.layers} + {config.model.layers} layers, {config.model.d_model} wide; {config.symbols} "
        f"symbols with repeats, lengths {config.shortest} to {config.longest} in training and up to {config.beyond} "
        f"after; {config.updates:,} updates of {config.batch} sequences, Adam at {config.learning_rate:g}.",
        notes=("Accuracy is of single tokens after the right prefix (teacher forcing).",),
    )


def mean(rows: list[Row]) -> float:
    return math.fsum(row["accuracy"] for row in rows) / len(rows)


def learn(point: Point) -> list[Row]:
    """Train, then accuracy at every length."""
    config, task = point.config, point.task
    model = built(config, point.kind, task.vocabulary)
    for _ in training(
        model, task, batch=config.batch, updates=config.updates, seed=config.seed,
        rate=lambda number: config.learning_rate * min(1.0, number / 100),
    ):  # fmt: skip
        pass
    numbers = np.random.default_rng(config.seed + 10_000)
    return [
        {
            "task": "reverse" if point.reverse else "copy",
            "positions": point.kind,
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
