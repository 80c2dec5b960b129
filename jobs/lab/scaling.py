"""Scaling (section 3.2.1): does leaving out 1/sqrt(d_k) kill the gradient of the softmax?

First at initialisation: queries and keys of independent unit normals, as footnote 4 supposes. The Jacobian of a softmax
p is diag(p) - p p^T; its norm (Frobenius) says how much of a gradient comes through. Its mean over draws hides how
often it vanishes, so the median decides. Then in training: one attention layer must find, among 16 tokens, the one
whose key is asked for, and say its value.
"""

# N draws, S keys, K d_k, B batch, T tokens, D width of the layer

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jobs.lab import charts
from jobs.lab.bench import Bench, Chart, Measured, Row
from jobs.lab.claims import Claim, Figures, Ruling, not_shown, rule
from jobs.lab.configs import ScalingConfig
from jobs.lab.variants import UnscaledSelfAttention
from transformer.attention import SelfAttention, scores
from transformer.config import ModelConfig
from transformer.unpadded import Rectangle

ABOUT = (
    "The paper divides dot products by sqrt(d_k) because it suspects that large ones saturate the softmax, and a "
    "saturated softmax hands on no gradient. Here the norm of the softmax's Jacobian is measured with and without the "
    "division, from narrow to wide, and then whether an attention layer that has to look something up learns it."
)
PAPER_D_K = 64
PAIRS, KEYS, VALUES, WIDTH = 16, 32, 8, 64  # of the task: tokens, different keys, classes, and the layer's width
ENOUGH = 0.95  # accuracy to be reached
LOOK = 20  # updates between two looks at the accuracy


def largest(figures: Figures) -> int:
    return max(int(name.rpartition("/")[2]) for name in figures if name.startswith("scaled/variance/"))


def judge_variance(figures: Figures) -> Ruling:
    ratios = {
        int(name.rpartition("/")[2]): value / int(name.rpartition("/")[2])
        for name, value in figures.items()
        if name.startswith("unscaled/variance/")
    }
    worst = max(abs(ratio - 1) for ratio in ratios.values())
    return rule(worst <= 0.1, f"variance / d_k within {worst:.1%} of 1 for all d_k")


def judge_vanishing(figures: Figures) -> Ruling:
    width = largest(figures)
    without, scaled = figures[f"unscaled/jacobian_median/{width}"], figures[f"scaled/jacobian_median/{width}"]
    return rule(without <= 0.05 * scaled, f"median norm {without:.2g} without, {scaled:.2g} with, at d_k = {width}")


def judge_paper_width(figures: Figures) -> Ruling:
    name = f"unscaled/jacobian_median/{PAPER_D_K}"
    if name not in figures:
        return not_shown(f"d_k = {PAPER_D_K} was not measured")
    without, scaled = figures[name], figures[f"scaled/jacobian_median/{PAPER_D_K}"]
    return rule(without <= 0.1 * scaled, f"median norm {without:.2g} without, {scaled:.2g} with")


def judge_counteracts(figures: Figures) -> Ruling:
    medians = [value for name, value in figures.items() if name.startswith("scaled/jacobian_median/")]
    return rule(
        max(medians) <= 1.3 * min(medians), f"median norm {min(medians):.2g} to {max(medians):.2g} over all d_k"
    )


def judge_training(figures: Figures) -> Ruling:
    width, limit = largest(figures), figures["updates"]
    without, scaled = figures[f"unscaled/updates/{width}"], figures[f"scaled/updates/{width}"]
    shown = [width, *([PAPER_D_K] if f"scaled/updates/{PAPER_D_K}" in figures and width != PAPER_D_K else [])]
    words = [
        f"at d_k = {d_k}: "
        + " with, ".join(
            f"not in {limit:.0f}" if value > limit else f"{value:.0f}"
            for value in (figures[f"scaled/updates/{d_k}"], figures[f"unscaled/updates/{d_k}"])
        )
        + " without"
        for d_k in shown
    ]
    measured = f"updates to {ENOUGH:.0%} {'; '.join(words)}"
    return not_shown(measured) if scaled > limit else rule(without >= 1.5 * scaled, measured)


CLAIMS = (
    Claim(
        key="variance",
        section="3.2.1, footnote 4",
        says="The dot product of d_k-wide queries and keys of unit variance has variance d_k.",
        rule="holds if variance / d_k is within 10 % of 1 for every d_k",
        judge=judge_variance,
    ),
    Claim(
        key="vanishing",
        section="3.2.1",
        says="For large d_k, unscaled dot products push the softmax into regions of extremely small gradients.",
        rule="holds if at the largest d_k the median norm of the Jacobian is at most 1/20 of the scaled one",
        judge=judge_vanishing,
    ),
    Claim(
        key="paper_width",
        section="3.2.1 with 3.2.2",
        says="At the paper's own d_k = 64 the unscaled softmax has such small gradients already.",
        rule="holds if at d_k = 64 the median norm of the Jacobian is at most 1/10 of the scaled one",
        judge=judge_paper_width,
    ),
    Claim(
        key="counteracts",
        section="3.2.1",
        says="Scaling by 1/sqrt(d_k) counteracts this.",
        rule="holds if the scaled median norms of all d_k are within a factor of 1.3 of each other",
        judge=judge_counteracts,
    ),
    Claim(
        key="training",
        section="3.2.1",
        says="Without scaling, a wide attention layer learns more slowly.",
        rule="holds if without scaling the largest d_k takes at least 1.5 times as many updates to 95 % accuracy, each "
        "at its best learning rate; not shown if the scaled layer does not get there",
        judge=judge_training,
    ),
)


class Point(NamedTuple):
    config: ScalingConfig
    d_k: int
    scaled: bool
    rate: float = 1e-3  # of the training


def measure(config: ScalingConfig, bench: Bench) -> Measured:
    points = [Point(config, d_k, scaled) for scaled in (True, False) for d_k in config.d_k]
    drawn = bench.each(at_initialisation, points)
    runs = [point._replace(rate=rate) for point in points for rate in config.learning_rates]
    every = list(zip(runs, bench.each(train_layer, runs), strict=True))
    trained = [best([one for run, one in every if run[:3] == point[:3]]) for point in points]
    names = ["scaled" if point.scaled else "unscaled" for point in points]
    figures: dict[str, float] = {"updates": config.updates}
    for point, name, found, curve in zip(points, names, drawn, trained, strict=True):
        figures |= {f"{name}/{figure}/{point.d_k}": value for figure, value in found.items()}
        figures[f"{name}/updates/{point.d_k}"] = curve["updates"]
        figures[f"{name}/rate/{point.d_k}"] = curve["rate"]
    rows = [{"scores": name, "d_k": p.d_k, **found} for p, name, found in zip(points, names, drawn, strict=True)]
    curves = [
        {"scores": name, "d_k": p.d_k, "rate": curve["rate"], **row}
        for p, name, curve in zip(points, names, trained, strict=True)
        for row in curve["curve"]
    ]
    return Measured(
        figures,
        {"initialisation": rows, "training": curves},
        setup=f"{config.draws:,} draws of a query and {config.keys} keys of unit normals; then one attention layer, "
        f"{WIDTH} wide, one head, {config.updates} updates of {config.batch} sequences, Adam, each at its best of the "
        f"rates {', '.join(f'{rate:g}' for rate in config.learning_rates)}.",
    )


def best(trained: list[dict[str, Any]]) -> dict[str, Any]:
    """The training that is there first, and among equals the most accurate at its end."""
    return min(trained, key=lambda one: (one["updates"], -float(one["curve"][-1]["accuracy"])))


def at_initialisation(point: Point) -> dict[str, float]:
    """Variance of the scores, entropy of the softmax in nats, norm of its Jacobian: median and mean over draws."""
    config = point.config
    generator = torch.Generator().manual_seed(config.seed * 100_003 + point.d_k)
    query_NK = torch.randn(config.draws, 1, point.d_k, generator=generator)
    found: list[Tensor] = []
    for some_N1K in query_NK.split(250):
        keys_NSK = torch.randn(len(some_N1K), config.keys, point.d_k, generator=generator)
        found.append(scores(some_N1K, keys_NSK).squeeze(1))
    scores_NS = torch.cat(found).double() * (1.0 if point.scaled else math.sqrt(point.d_k))
    p_NS = scores_NS.softmax(dim=-1)
    entropy_N = -(p_NS * p_NS.clamp_min(1e-300).log()).sum(dim=-1)
    norm_N = jacobian_norm(p_NS)
    return {
        "variance": float(scores_NS.var()),
        "entropy": float(entropy_N.mean()),
        "jacobian_median": float(norm_N.median()),
        "jacobian_mean": float(norm_N.mean()),
    }


def jacobian_norm(p_NS: Tensor) -> Tensor:
    """Frobenius norm of diag(p) - p p^T. Written so that a nearly certain softmax keeps its digits."""
    diagonal_N = (p_NS * (1 - p_NS)).square().sum(dim=-1)
    squares_N = p_NS.square().sum(dim=-1)
    off_diagonal_N = squares_N.square() - p_NS.pow(4).sum(dim=-1)
    return (diagonal_N + off_diagonal_N.clamp_min(0)).sqrt()


class Lookup(nn.Module):
    """Key and value of every token embedded and added, one attention layer, a class from the asking token."""

    def __init__(self, d_k: int, scaled: bool) -> None:
        super().__init__()
        config = ModelConfig(layers=1, d_model=WIDTH, num_heads=1, d_k=d_k, d_v=WIDTH)
        self.keys = nn.Embedding(KEYS, WIDTH)
        self.values = nn.Embedding(VALUES + 1, WIDTH)  # the last: the token that asks
        self.attention = SelfAttention(config) if scaled else UnscaledSelfAttention(config)
        self.classes = nn.Linear(WIDTH, VALUES)
        queries_keys, _ = self.attention.queries_keys_values.weight.split([2 * d_k, WIDTH])
        nn.init.normal_(queries_keys.data, std=(2 * WIDTH) ** -0.5)  # queries and keys of unit variance, as supposed

    def forward(self, keys_BT: Tensor, values_BT: Tensor) -> Tensor:
        x_BTD = self.keys(keys_BT) + self.values(values_BT)
        rows = Rectangle.of(keys_BT)
        out: Tensor = self.classes(rows.unpack(self.attention(rows.pack(x_BTD), rows))[:, -1])
        return out


def sequences(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs of different keys with values, and last the key that is asked for; the class is its value."""
    keys_BT = torch.rand(count, KEYS, generator=generator).argsort(dim=1)[:, :PAIRS]
    values_BT = torch.randint(VALUES, (count, PAIRS), generator=generator)
    asked_B1 = torch.randint(PAIRS, (count, 1), generator=generator)
    gold_B = values_BT.gather(1, asked_B1).squeeze(1)
    keys_BT = torch.cat((keys_BT, keys_BT.gather(1, asked_B1)), dim=1)
    return keys_BT, torch.cat((values_BT, torch.full((count, 1), VALUES)), dim=1), gold_B


def train_layer(point: Point) -> dict[str, Any]:
    """Gradient norm of the query and key projections and accuracy by update; updates to `ENOUGH` (inf: limit + 1)."""
    config = point.config
    torch.manual_seed(config.seed)
    model = Lookup(point.d_k, point.scaled)
    generator = torch.Generator().manual_seed(config.seed + 1)
    held_out = sequences(512, torch.Generator().manual_seed(config.seed + 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=point.rate)
    curve: list[Row] = []
    reached = config.updates + 1
    for update in range(1, config.updates + 1):
        keys_BT, values_BT, gold_B = sequences(config.batch, generator)
        optimizer.zero_grad()
        F.cross_entropy(model(keys_BT, values_BT), gold_B).backward()
        gradient = model.attention.queries_keys_values.weight.grad
        norm = float(gradient[: 2 * point.d_k].norm()) if gradient is not None else math.nan
        optimizer.step()
        if update % LOOK == 0 or update == 1:
            with torch.no_grad():
                accuracy = float((model(*held_out[:2]).argmax(dim=1) == held_out[2]).float().mean())
            curve.append({"update": update, "gradient_norm": norm, "accuracy": accuracy})
            if accuracy >= ENOUGH and reached > config.updates:
                reached = update
    return {"updates": float(reached), "rate": point.rate, "curve": curve}


def draw(tables: dict[str, list[Row]]) -> list[Chart]:
    widths = sorted({float(row["d_k"]) for row in tables["initialisation"]})
    norm = [
        {**row, "line": f"{row['scores']}, {kind}", "norm": row[f"jacobian_{kind}"]}
        for row in tables["initialisation"]
        for kind in ("median", "mean")
    ]
    ends = [row for row in tables["training"] if row["d_k"] in (min(widths), max(widths))]
    learning = [{**row, "line": f"{row['scores']}, d_k {row['d_k']}"} for row in ends]
    marker = (float(PAPER_D_K), "the paper's d_k") if PAPER_D_K in widths else None
    return [
        Chart(
            "How much gradient the softmax lets through",
            charts.lines(
                charts.series(norm, by="line", x="d_k", y="norm"), x_label="d_k", y_label="norm of the Jacobian",
                log=(True, True), marker=marker,
            ),
            "At initialisation. The mean hides what the median shows: most softmaxes are saturated, a few are not.",
            "initialisation",
        ),
        Chart(
            "Learning to look something up",
            charts.lines(
                charts.series(learning, by="line", x="update", y="accuracy"), x_label="updates", y_label="accuracy"
            ),
            "Accuracy on unseen sequences, with and without scaling, for the narrowest and the widest d_k, each at its "
            "best learning rate.",
            "training",
        ),
        Chart(
            "Gradient of the query and key projections",
            charts.lines(
                charts.series(learning, by="line", x="update", y="gradient_norm"), x_label="updates",
                y_label="gradient norm", log=(False, True),
            ),
            "Its norm along the training above.",
            "training",
        ),
    ]  # fmt: skip
