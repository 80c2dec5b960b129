"""Heads (section 3.2.2, Table 3 A): are several heads better than one, and how many are needed?

At a fixed d_model, on a task that needs several positions told apart at once, and on translation. How sharp the heads
are, and how unlike each other; then the heads of a trained model are taken away, the least important first.
"""

# B batch, T length, D d_model, H heads, S keys

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jobs.lab import charts
from jobs.lab.bench import Bench, Chart, Measured, Row, Text
from jobs.lab.claims import Claim, Figures, Ruling, by_margin, not_shown, rule
from jobs.lab.configs import HeadsConfig
from jobs.lab.draws import Try, needed, seed_of, spread, tuned
from jobs.lab.pruning import remove_heads
from jobs.lab.text_training import SEED_NOISE, TestSet, greedy, read_test_set, train
from jobs.lab.variants import seeded
from transformer.config import PAD, ModelConfig
from transformer.layers import EncoderLayer
from transformer.model import Transformer, attention_maps, initialise
from transformer.positions import SinusoidalPositions
from transformer.unpadded import Rectangle

ABOUT = (
    "With one head a position takes a single weighted mean of all others; several heads can look at several places at "
    "once, but each is narrower. Both are measured: on a task in which every position has to name four of its "
    "neighbours, and on translation. Then heads are removed from a trained model, without training it further, to see "
    "how many it really uses. (Voita 2019 removed 38 of 48 encoder heads while training on; Michel 2019, without, a "
    "fifth to two fifths of all.)"
)
OFFSETS, SYMBOLS, LENGTH, BATCH = (-3, -1, 2, 5), 8, 24, 32  # of the positional task
TELLING = 0.5  # BLEU, of one and the same model with and without some of its heads
LEAST_BLEU = 10.0


def by_heads(figures: Figures, name: str) -> dict[int, float]:
    return {int(key.split("/")[1]): value for key, value in figures.items() if key.startswith(f"{name}/")}


def judge_one_head(figures: Figures) -> Ruling:
    return against_reference(figures, min(by_heads(figures, "bleu")))


def judge_too_many(figures: Figures) -> Ruling:
    return against_reference(figures, max(by_heads(figures, "bleu")))


def against_reference(figures: Figures, heads: int) -> Ruling:
    """Against one number of heads that is fixed beforehand: the best of several would be better by chance alone."""
    bleu, reference = by_heads(figures, "bleu"), int(figures["reference"])
    if heads == reference:
        return not_shown(f"{heads} heads are those that the others are compared with")
    measured = f"BLEU {bleu[heads]:.1f} with {heads}, {bleu[reference]:.1f} with {reference}"
    if max(bleu[heads], bleu[reference]) < LEAST_BLEU:
        return not_shown(measured)
    return by_margin(bleu[reference] - bleu[heads], SEED_NOISE, measured)


def judge_positional(figures: Figures) -> Ruling:
    """Errors against the same reference as BLEU, each side at its best rate, in every draw."""
    least, reference = min(by_heads(figures, "positional")), int(figures["reference"])
    if least == reference:
        return not_shown(f"{least} heads are those that the others are compared with")
    few, several = f"positional/{least}", f"positional/{reference}"
    measured = (
        f"share of wrong neighbours {spread(figures, few)} with {least}, {spread(figures, several)} with {reference}"
    )
    if min(figures[f"{few}/loss"], figures[f"{several}/loss"]) > 0.7:
        return not_shown(measured)
    return needed(figures, several, few, 0.05, measured)


def judge_prunable(figures: Figures) -> Ruling:
    removable, total = figures["removable"], figures["heads"]
    measured = f"{removable:.0f} of {total:.0f} heads can go before BLEU falls by {TELLING}"
    return not_shown(measured) if figures["whole"] < LEAST_BLEU else rule(removable > total / 2, measured)


CLAIMS = (
    Claim(
        key="one_head",
        section="Table 3 (A)",
        says="A single head is worse than several.",
        rule=f"holds if the fewest heads are {SEED_NOISE:g} BLEU or more below the paper's 8 (or the most up to 8), "
        f"does not if as much above; not shown between, which a seed alone may do, or below BLEU {LEAST_BLEU:g}",
        judge=judge_one_head,
    ),
    Claim(
        key="too_many",
        section="Table 3 (A)",
        says="Quality drops off with too many heads, too.",
        rule=f"holds if the most heads are {SEED_NOISE:g} BLEU or more below the paper's 8, does not if as much above; "
        "not shown between",
        judge=judge_too_many,
    ),
    Claim(
        key="positional",
        section="3.2.2",
        says="With a single head, averaging inhibits looking at different positions at once.",
        rule="holds if the fewest heads are wrong about at least 0.05 more of the neighbours than the paper's 8 (or "
        "the most up to 8), does not if about less, either between any two draws, each at its best rate; not shown "
        "between, if the loser's best rate is the last of the list, or if both are wrong about 0.7 or more",
        judge=judge_positional,
    ),
    Claim(
        key="prunable",
        section="Voita 2019, Michel 2019, of 3.2.2",
        says="Most heads of a trained model can be removed without training it further.",
        rule=f"holds if over half of all heads can go before BLEU falls by more than {TELLING}",
        judge=judge_prunable,
    ),
)


class Point(NamedTuple):
    config: HeadsConfig
    heads: int
    text: Text | None = None


def measure(config: HeadsConfig, bench: Bench) -> Measured:
    ordered = sorted(config.heads, key=lambda heads: heads != config.pruned)  # what takes longest starts first
    found = dict(
        zip(ordered, bench.each(train_translator, [Point(config, h, bench.text) for h in ordered]), strict=True)
    )
    sides = [Point(config, heads) for heads in config.heads]
    positional = tuned(bench, learn_neighbours, sides, config.rates, config.draws)
    pruned = found[config.pruned]["pruned"]
    kept = list(itertools.takewhile(lambda row: row["bleu"] >= pruned[0]["bleu"] - TELLING, pruned))
    figures: dict[str, float] = {
        "removable": float(kept[-1]["removed"]),
        "heads": float(pruned[-1]["removed"]),
        "whole": float(pruned[0]["bleu"]),
        "reference": float(config.pruned),
    }
    rows: list[Row] = []
    for heads, neighbours in zip(config.heads, positional, strict=True):
        one = found[heads]["figures"]
        figures |= {f"{name}/{heads}": value for name, value in one.items()}
        figures |= neighbours.figures(f"positional/{heads}")
        right = 1 - figures[f"positional/{heads}/loss"]
        rows.append({"heads": heads, "positional": right, "positional_rate": neighbours.rate, **one})
    model, training = config.model, config.training
    return Measured(
        figures,
        {"heads": rows, "entropy": [r for one in found.values() for r in one["entropy"]], "pruning": pruned},
        setup=f"d_model {model.d_model}; translation: {model.layers} + {model.layers} layers, {training.steps} updates "
        f"of about {training.tokens_per_update:,} target tokens, {config.sentences} unseen sentences, greedy; "
        f"neighbours: one layer, {config.updates} updates of {BATCH} sequences of {LENGTH}, {SYMBOLS} symbols, Adam "
        f"at the best of {', '.join(f'{rate:g}' for rate in sorted(config.rates))} for each, {config.draws} draws.",
        notes=(
            "A head's importance is how much the loss on one micro-batch of the training text rises without it; a "
            "removed head's columns of W^O are zero. Divergence is Jensen and Shannon's, within a layer, in nats.",
        ),
    )


class Neighbours(nn.Module):
    """One encoder layer that names, at every position, the symbols at four offsets."""

    def __init__(self, heads: int, d_model: int) -> None:
        super().__init__()
        config = ModelConfig(layers=1, d_model=d_model, d_ff=4 * d_model, num_heads=heads, dropout=0.0)
        self.embedding = nn.Embedding(SYMBOLS, d_model)
        self.positions, self.layer = SinusoidalPositions(config), EncoderLayer(config)
        self.classes = nn.Linear(d_model, len(OFFSETS) * SYMBOLS)
        self.apply(initialise)

    def forward(self, symbols_BT: Tensor) -> Tensor:
        """(B, T, offsets, symbols)."""
        rows = Rectangle.of(symbols_BT)
        x_RD = self.embedding(rows.pack(symbols_BT)) * math.sqrt(self.embedding.embedding_dim)
        everywhere_B11T = torch.ones(symbols_BT.size(0), 1, 1, symbols_BT.size(1), dtype=torch.bool)
        out_R = self.classes(self.layer(self.positions(x_RD, rows), rows, everywhere_B11T))
        return rows.unpack(out_R.view(-1, len(OFFSETS), SYMBOLS))


def learn_neighbours(point: Try) -> dict[str, float]:
    """The share that is wrong of unseen sequences, over all offsets and all positions that have such neighbours."""
    side: Point = point.side
    config, seed = side.config, seed_of(side.config.seed, point.draw)
    torch.manual_seed(seed)
    model = Neighbours(side.heads, config.model.d_model)
    generator = torch.Generator().manual_seed(seed + 100)
    optimizer = torch.optim.Adam(model.parameters(), lr=point.rate)
    inner = slice(-min(OFFSETS), LENGTH - max(OFFSETS))

    def drawn(count: int) -> tuple[Tensor, Tensor]:
        symbols_BT = torch.randint(SYMBOLS, (count, LENGTH), generator=generator)
        gold = torch.stack([symbols_BT.roll(-offset, dims=1) for offset in OFFSETS], dim=2)
        return symbols_BT, gold[:, inner]

    for _ in range(config.updates):
        symbols_BT, gold = drawn(BATCH)
        optimizer.zero_grad()
        F.cross_entropy(model(symbols_BT)[:, inner].flatten(0, 2), gold.flatten()).backward()
        optimizer.step()
    symbols_BT, gold = drawn(256)
    with torch.no_grad():
        return {"loss": float((model.eval()(symbols_BT)[:, inner].argmax(dim=-1) != gold).double().mean())}


def train_translator(point: Point) -> dict[str, Any]:
    """BLEU, what the heads look like, and for one of the models what is left when heads are removed."""
    config, text = point.config, point.text
    assert text is not None
    tested = read_test_set(text, config.sentences)
    model = seeded(replace(config.model, num_heads=point.heads), len(tested.subwords), config.seed)
    for _ in train(model, text, replace(config.training, seed=config.seed), d_model=config.model.d_model):
        pass
    bleu = tested.bleu_of(greedy(model))
    entropy, divergence = looked_at(model, tested, point.heads)
    pruned = remove_heads(model, text, tested, bleu, TELLING) if point.heads == config.pruned else []
    mean = math.fsum(row["entropy"] for row in entropy) / len(entropy)
    figures = {"bleu": bleu, "entropy": mean} | ({"divergence": divergence} if point.heads > 1 else {})
    return {"figures": figures, "entropy": entropy, "pruned": pruned}


def looked_at(model: Transformer, tested: TestSet, heads: int) -> tuple[list[Row], float]:
    """Entropy of every head, in nats, and the mean divergence between two heads of a layer."""
    batch = tested.batch
    maps = attention_maps(model, batch.source_BS, batch.target_in_BT)
    real = {
        "encoder": batch.source_BS != PAD,
        "decoder": batch.target_in_BT != PAD,
        "cross": batch.target_in_BT != PAD,
    }
    rows: list[Row] = []
    divergences: list[float] = []
    for kind, real_BT in real.items():
        for layer, weights_BHTS in enumerate(getattr(maps, kind), 1):
            chosen_NHS = weights_BHTS.transpose(1, 2)[real_BT].double()
            entropy_H = entropies(chosen_NHS).mean(dim=0)
            rows += [
                {"heads": heads, "kind": kind, "layer": layer, "head": at, "entropy": value}
                for at, value in enumerate(entropy_H.tolist(), 1)
            ]
            divergences += [
                float(divergence(chosen_NHS[:, one], chosen_NHS[:, other]))
                for one, other in itertools.combinations(range(heads), 2)
            ]
    return rows, math.fsum(divergences) / max(1, len(divergences))


def entropies(p: Tensor) -> Tensor:
    return -(p * p.clamp_min(1e-300).log()).sum(dim=-1)


def divergence(p_NS: Tensor, q_NS: Tensor) -> Tensor:
    """Jensen-Shannon, mean over queries: 0 for the same weights, log 2 for weights with nothing in common."""
    return (entropies((p_NS + q_NS) / 2) - (entropies(p_NS) + entropies(q_NS)) / 2).mean()


def draw(tables: dict[str, list[Row]]) -> list[Chart]:
    rows = tables["heads"]
    quality = {
        "BLEU": [(row["heads"], row["bleu"]) for row in rows],
        "neighbours, %": [(row["heads"], 100 * row["positional"]) for row in rows],
    }
    likeness = {
        "entropy": [(row["heads"], row["entropy"]) for row in rows],
        "divergence": [(row["heads"], row["divergence"]) for row in rows if row.get("divergence") is not None],
    }
    left = {"BLEU": [(row["removed"], row["bleu"]) for row in tables["pruning"]]}
    entropy = [{**row, "place": f"{row['kind']} {row['layer']}"} for row in tables["entropy"]]
    shown = max((row["heads"] for row in entropy if row["heads"] <= 8), default=min(row["heads"] for row in entropy))
    own = [row for row in entropy if row["heads"] == shown]
    each = charts.heat(
        own, x="head", y="place", value="entropy", x_label="head", y_label="layer", low=0.0,
        high=max(row["entropy"] for row in own), describe=f"entropy of each of {shown} heads by layer",
    )  # fmt: skip
    return [
        Chart("Quality by heads", charts.lines(quality, x_label="heads", y_label="BLEU, percent", log=(True, False)),
              "At a fixed d_model: more heads are narrower heads.", "heads"),
        Chart("How the heads look", charts.lines(likeness, x_label="heads", y_label="nats", log=(True, False)),
              "Mean entropy of a head, and mean divergence between two heads of a layer.", "heads"),
        Chart("Entropy of every head", each, f"In nats, with {shown} heads; 0 looks at one place only.", "entropy"),
        Chart("Heads removed", charts.lines(left, x_label="heads removed", y_label="BLEU"),
              "The least important first; the order is not chosen on the sentences that are scored.", "pruning"),
    ]  # fmt: skip
