"""The mask (section 3.2.3): what does it prevent?

First exactly: in the scores of a short target sequence every future entry is -inf, and changing a future token changes
no earlier output by anything. Then in training: the same model without it sees the very token it is to say.
"""

# B batch, H heads, T target length

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from jobs.lab import charts
from jobs.lab.bench import Bench, Chart, Measured, Row, Text
from jobs.lab.claims import Claim, Figures, Ruling, not_shown, rule
from jobs.lab.configs import MaskConfig
from jobs.lab.text_training import (
    forced_accuracy,
    greedy_by_prefix,
    looks_at,
    read_test_set,
    train,
)
from jobs.lab.variants import seeded, without_mask
from transformer.attention import scores
from transformer.config import END
from transformer.model import Transformer
from transformer.unpadded import Rectangle

ABOUT = (
    "The decoder is trained on all prefixes of a sentence at once; the mask keeps each position from seeing what comes "
    "after it. Its effect is exact, and it is checked exactly. Then the same model is trained with the mask off: given "
    "the right prefix it seems to know nearly every next word, since it reads it, and left to itself it knows nothing."
)
SHOWN = 8  # tokens of the sequence in the picture
LEAST_BLEU = 10.0  # of the masked model: below that nothing was learned


def judge_scores(figures: Figures) -> Ruling:
    count = figures["future_entries"]
    return rule(
        figures["future_finite"] == 0, f"{count - figures['future_finite']:.0f} of {count:.0f} future entries are -inf"
    )


def judge_leak(figures: Figures) -> Ruling:
    leak, without = figures["leak"], figures["leak_without"]
    return rule(leak == 0.0, f"largest change of an earlier output: {leak:g} with the mask, {without:.2g} without")


def judge_accuracy(figures: Figures) -> Ruling:
    with_it, without = figures["masked/accuracy"], figures["unmasked/accuracy"]
    measured = f"teacher-forced accuracy {without:.3f} without the mask, {with_it:.3f} with"
    return (
        not_shown(measured) if figures["masked/bleu"] < LEAST_BLEU else rule(1 - without <= (1 - with_it) / 2, measured)
    )


def judge_bleu(figures: Figures) -> Ruling:
    with_it, without = figures["masked/bleu"], figures["unmasked/bleu"]
    measured = f"BLEU {without:.1f} without the mask, {with_it:.1f} with"
    return not_shown(measured) if with_it < LEAST_BLEU else rule(without <= with_it / 2, measured)


CLAIMS = (
    Claim(
        key="scores",
        section="3.2.3",
        says="Scores of illegal connections are -inf before the softmax.",
        rule="holds if every score of a position for a later one is -inf",
        judge=judge_scores,
    ),
    Claim(
        key="leak",
        section="3.1",
        says="The prediction for position i depends only on outputs before i.",
        rule="holds if changing a token changes no earlier output, to the last bit",
        judge=judge_leak,
    ),
    Claim(
        key="accuracy",
        section="3.2.3",
        says="Without the mask the model reads the answer: teacher-forced accuracy soars.",
        rule="holds if at least half of all errors go away without it; not shown if BLEU with it is below "
        f"{LEAST_BLEU:g}",
        judge=judge_accuracy,
    ),
    Claim(
        key="bleu",
        section="3.2.3",
        says="Without the mask it cannot generate: BLEU collapses.",
        rule=f"holds if BLEU is at most half of the masked model's; not shown if that one is below {LEAST_BLEU:g}",
        judge=judge_bleu,
    ),
)


class Point(NamedTuple):
    config: MaskConfig
    text: Text
    masked: bool


def measure(config: MaskConfig, bench: Bench) -> Measured:
    (exact,) = bench.each(exact_effect, [config])
    points = [Point(config, bench.text, masked) for masked in (True, False)]
    curves = bench.each(train_translator, points)
    figures = dict(exact["figures"])
    for point, curve in zip(points, curves, strict=True):
        name = "masked" if point.masked else "unmasked"
        figures |= {f"{name}/{figure}": curve[-1][figure] for figure in ("accuracy", "bleu", "loss")}
    model, training = config.model, config.training
    return Measured(
        figures,
        {"training": [row for curve in curves for row in curve], "scores": exact["rows"]},
        setup=f"{model.layers} + {model.layers} layers, {model.d_model} wide, {training.steps} updates of about "
        f"{training.tokens_per_update:,} target tokens; {config.sentences} sentences of the test set, greedy search "
        f"that computes every prefix whole.",
    )


def exact_effect(config: MaskConfig) -> dict[str, Any]:
    """The scores of the first decoder layer's first head, and what a changed future token changes before it."""
    vocabulary = 50
    model = seeded(replace(config.model, dropout=0.0), vocabulary, config.seed).eval()
    generator = torch.Generator().manual_seed(config.seed)
    source_BS = torch.randint(END + 1, vocabulary, (1, SHOWN), generator=generator)
    target_BT = torch.randint(END + 1, vocabulary, (1, SHOWN), generator=generator)
    scores_TT = masked_scores(model, target_BT)
    future = torch.ones(SHOWN, SHOWN, dtype=torch.bool).triu(1)
    leak = largest_leak(model, source_BS, target_BT)
    figures = {
        "future_entries": float(future.sum()),
        "future_finite": float(torch.isfinite(scores_TT[future]).sum()),
        "leak": leak,
        "leak_without": largest_leak(without_mask(model), source_BS, target_BT),
    }
    rows = [
        {"query": at, **{str(key): value if math.isfinite(value) else None for key, value in enumerate(row)}}
        for at, row in enumerate(scores_TT.tolist())
    ]
    return {"figures": figures, "rows": rows}


@torch.no_grad()
def masked_scores(model: Transformer, target_BT: Tensor) -> Tensor:
    """(T, T): a score as the model's softmax takes it. Where that gives exactly 0, the score it took was -inf."""
    attention = model.decoder_layers[0].self_attention
    rows = Rectangle.of(target_BT)
    x_RD = model.embed_target(rows.pack(target_BT), rows)
    queries_BHTK, (keys_BHSK, _) = attention.project(x_RD, rows)
    weights_BHTS = attention.weights(x_RD, rows, causal=True)
    raw_BHTS = scores(queries_BHTK, keys_BHSK)
    return raw_BHTS.masked_fill(weights_BHTS == 0, -math.inf)[0, 0]


@torch.no_grad()
def largest_leak(model: Transformer, source_BS: Tensor, target_BT: Tensor) -> float:
    """Change each token in turn: the largest difference that this makes at any earlier position."""
    before_BTD = model.hidden(source_BS, target_BT)
    largest = 0.0
    for at in range(1, target_BT.size(1)):
        changed_BT = target_BT.clone()
        changed_BT[:, at] = END + 1 + (changed_BT[:, at] - END) % 40
        after_BTD = model.hidden(source_BS, changed_BT)
        largest = max(largest, float((after_BTD - before_BTD)[:, :at].abs().max()))
    return largest


def train_translator(point: Point) -> list[Row]:
    """Loss, teacher-forced accuracy and BLEU along the way."""
    config = point.config
    tested = read_test_set(point.text, config.sentences)
    model = seeded(config.model, len(tested.subwords), config.seed)
    model = model if point.masked else without_mask(model)
    training = replace(config.training, seed=config.seed)
    looks = looks_at(training.steps, config.looks)
    rows: list[Row] = []
    for number, loss in train(model, point.text, training, d_model=config.model.d_model):
        if number in looks:
            rows.append({
                "mask": "on" if point.masked else "off", "update": number, "loss": loss,
                "accuracy": forced_accuracy(model, tested.batch), "bleu": tested.bleu_of(greedy_by_prefix(model)),
            })  # fmt: skip
    return rows


def draw(tables: dict[str, list[Row]]) -> list[Chart]:
    matrix = [[row[str(key)] for key in range(SHOWN)] for row in tables["scores"]]
    both = {f"mask {row['mask']}, {name}": [] for row in tables["training"] for name in ("accuracy %", "BLEU")}  # type: dict[str, list[tuple[float, float]]]
    for row in tables["training"]:
        both[f"mask {row['mask']}, accuracy %"].append((row["update"], 100 * row["accuracy"]))
        both[f"mask {row['mask']}, BLEU"].append((row["update"], row["bleu"]))
    return [
        Chart(
            "Scores before the softmax",
            charts.matrix(matrix, describe="masked scores of a short target", x_label="key", y_label="query"),
            "One head of the first decoder layer, at initialisation: row i may look at columns up to i.",
            "scores",
        ),
        Chart(
            "With and without the mask",
            charts.lines(both, x_label="updates", y_label="percent, BLEU"),
            "Teacher-forced accuracy and BLEU of greedy translations, on unseen sentences.",
            "training",
        ),
    ]
