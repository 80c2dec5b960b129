"""Memory and time (section 4, Table 1): what do attention, recurrence and convolution cost by length?

Every point runs in a process of its own (jobs/lab/memory_point.py), so that its peak is its own. Exponents are slopes
of log cost over log length, over the longest three lengths, where constants and what is linear count least.
"""

# B batch, T length, D d_model

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any, NamedTuple

import torch
from torch import nn

from jobs.lab import charts
from jobs.lab.bench import Bench, Chart, Measured, Row
from jobs.lab.claims import Claim, Figures, Ruling, not_shown, rule
from jobs.lab.configs import MemoryConfig
from jobs.lab.layers import LAYERS, WIDTH, built

ABOUT = (
    "Table 1 compares layers by their operations, by how many of them must follow one another, and by how far a signal "
    "travels between two positions. Here the same layers are run: attention with its scores written out, the same with "
    "PyTorch's fused kernel, an LSTM and a convolution. The quadratic memory that the paper's time knew belongs to the "
    "written-out scores; a fused kernel never holds them."
)
CALIBRATION_MB = 64
NEARER_2 = 1.5  # an exponent from here on is nearer to the square than to the line
COPIES = 4  # of the scores that a written-out layer may hold at once, with its gradients


def judge_quadratic_time(figures: Figures) -> Ruling:
    slope, longest, width = (figures[name] for name in ("written out/backward_s/exponent", "longest", "d_model"))
    measured = f"seconds grow with n^{slope:.2f} up to n = {longest:.0f}"
    # n^2 d outweighs the projections' n d^2 from n = 2d on: before that the exponent says nothing against the claim
    return not_shown(measured) if slope < NEARER_2 and longest < 8 * width else rule(slope >= NEARER_2, measured)


def judge_linear_time(figures: Figures) -> Ruling:
    slopes = {name: figures[f"{name}/backward_s/exponent"] for name in ("LSTM", "convolution")}
    measured = ", ".join(f"{name} n^{slope:.2f}" for name, slope in slopes.items())
    return rule(all(0.7 <= slope <= 1.3 for slope in slopes.values()), measured)


def judge_quadratic_memory(figures: Figures) -> Ruling:
    slope = figures["written out/backward_mb/exponent"]
    return rule(slope >= NEARER_2, f"peak memory grows with n^{slope:.2f}")


def judge_fused_memory(figures: Figures) -> Ruling:
    slope, longest = figures["fused/backward_mb/exponent"], int(figures["longest"])
    fused, written = figures[f"fused/backward_mb/{longest}"], figures[f"written out/backward_mb/{longest}"]
    return rule(
        slope >= NEARER_2, f"n^{slope:.2f}: {fused:,.0f} MB fused, {written:,.0f} MB written out at {longest:,}"
    )


def judge_faster(figures: Figures) -> Ruling:
    names = [name for name in figures if name.startswith("fused/forward_s/") and name.rpartition("/")[2].isdigit()]
    lengths = sorted(int(name.rpartition("/")[2]) for name in names)
    shorter = [length for length in lengths if length < figures["d_model"]]
    if not shorter:
        return not_shown(f"no length below d_model = {figures['d_model']:.0f} was measured")
    ratios = {n: figures[f"LSTM/backward_s/{n}"] / figures[f"written out/backward_s/{n}"] for n in shorter}
    worst = min(ratios, key=lambda n: ratios[n])
    return rule(ratios[worst] > 1, f"LSTM / attention in seconds: {ratios[worst]:.1f} at its least (n = {worst})")


def judge_path(figures: Figures) -> Ruling:
    near, far = figures["attention/gradient/near"], figures["attention/gradient/far"]
    recurrent = figures["LSTM/gradient/far"] / figures["LSTM/gradient/near"]
    apart = f"gradient at {figures['farthest']:.0f} positions over that at 1"
    measured = (
        f"{apart}: attention {far / near:.2g}, LSTM {f'{recurrent:.1g}' if recurrent else 'too small for a float'}"
    )
    return rule(far >= 0.5 * near and recurrent < 0.1, measured)


def judge_convolution(figures: Figures) -> Ruling:
    layers, distance = figures["convolution/layers"], figures["convolution/distance"]
    expected = math.ceil(distance / (WIDTH // 2))
    return rule(layers == expected, f"{layers:.0f} layers until a gradient crosses {distance:.0f} positions")


CLAIMS = (
    Claim(
        key="quadratic_time",
        section="4, Table 1",
        says="A self-attention layer takes O(n^2 d) operations.",
        rule=f"holds if the fitted exponent of its seconds (scores written out, forward and backward) is {NEARER_2} or "
        "more; not shown if it is less and no length is 8 d_model or more",
        judge=judge_quadratic_time,
    ),
    Claim(
        key="linear_time",
        section="4, Table 1",
        says="Recurrent and convolutional layers take O(n d^2) operations.",
        rule="holds if their fitted exponents are between 0.7 and 1.3",
        judge=judge_linear_time,
    ),
    Claim(
        key="faster",
        section="4",
        says="Self-attention layers are faster than recurrent ones where n is smaller than d.",
        rule="holds if the LSTM takes longer at every measured length below d_model",
        judge=judge_faster,
    ),
    Claim(
        key="quadratic_memory",
        section="4 (implied by eq. 1)",
        says="With the scores of eq. (1) written out, memory grows with the square of the length.",
        rule=f"holds if the fitted exponent of peak memory is {NEARER_2} or more, nearer to 2 than to 1",
        judge=judge_quadratic_memory,
    ),
    Claim(
        key="fused_memory",
        section="4 (implied by eq. 1)",
        says="Self-attention needs memory that grows with the square of the length, however it is computed.",
        rule=f"holds if the exponent of peak memory is {NEARER_2} or more with PyTorch's fused kernel, too",
        judge=judge_fused_memory,
    ),
    Claim(
        key="path",
        section="4, Table 1",
        says="The path between two positions is O(1) in self-attention and O(n) in a recurrent layer.",
        rule="holds if over the farthest distance attention keeps half of its gradient or more, the LSTM below 1/10",
        judge=judge_path,
    ),
    Claim(
        key="convolution_path",
        section="4, Table 1",
        says="A stack of convolutions needs O(n / k) layers to connect two positions.",
        rule=f"holds if exactly distance / {WIDTH // 2} layers of width {WIDTH} are needed until a gradient arrives",
        judge=judge_convolution,
    ),
)


class Point(NamedTuple):
    config: MemoryConfig
    layer: str
    length: int


def affordable(config: MemoryConfig, layer: str, length: int) -> bool:
    scores_gb = COPIES * config.num_heads * length**2 * 4 / 2**30
    return layer != "written out" or scores_gb <= config.most_gb


def measure(config: MemoryConfig, bench: Bench) -> Measured:
    wanted = [Point(config, layer, length) for length in reversed(config.lengths) for layer in LAYERS]
    points = [point for point in wanted if affordable(*point)]
    left_out = [f"{p.layer} at {p.length:,}" for p in wanted if p not in points]
    calibration, *found = bench.each(in_own_process, [Point(config, "calibration", CALIBRATION_MB), *points])
    rows: list[Row] = [{"layer": p.layer, "length": p.length, **f} for p, f in zip(points, found, strict=True)]
    rows.sort(key=lambda row: (list(LAYERS).index(row["layer"]), row["length"]))
    (paths,) = bench.each(gradients_by_distance, [config])
    longest = max(length for length in config.lengths if affordable(config, "written out", length))
    figures: dict[str, float] = {"d_model": config.d_model, "longest": longest, **paths["figures"]}
    for row in rows:
        for kind in ("forward_mb", "backward_mb", "forward_s", "backward_s"):
            figures[f"{row['layer']}/{kind}/{row['length']}"] = row[kind]
    for layer in LAYERS:
        own = [row for row in rows if row["layer"] == layer]
        for kind in ("backward_mb", "backward_s"):
            figures[f"{layer}/{kind}/exponent"] = exponent([(row["length"], row[kind]) for row in own])
    error = abs(calibration["megabytes"] / CALIBRATION_MB - 1)
    figures["calibration_error"] = error
    return Measured(
        figures,
        {"cost": rows, "paths": paths["rows"]},
        setup=f"One sequence, d_model {config.d_model}, {config.num_heads} heads, one thread, single precision; "
        f"lengths {min(config.lengths):,} to {max(config.lengths):,}, each point in a process of its own.",
        notes=(
            "Memory is the process's own peak (VmHWM, set back before the layer runs) minus what it held before: the "
            "layer's parameters and input are not in it, its gradients and work space are. Error: a tensor of "
            f"{CALIBRATION_MB} MB was measured as {calibration['megabytes']:.1f} MB ({error:.1%}); what is allocated "
            "and given back at once to the allocator is not seen, and below about 1 MB the figure says nothing.",
            f"Seconds are of the processor, on one thread, the best of {config.tries}.",
            *([f"Left out, as it takes more than {config.most_gb:g} GB: {', '.join(left_out)}."] if left_out else []),
        ),
    )  # fmt: skip


def exponent(points: list[tuple[float, float]]) -> float:
    """Slope of log y over log x, by least squares, over the longest three lengths."""
    logs = [(math.log(x), math.log(max(y, 1e-9))) for x, y in sorted(points)[-3:]]
    mean_x, mean_y = (math.fsum(values) / len(logs) for values in zip(*logs, strict=True))
    return math.fsum((x - mean_x) * (y - mean_y) for x, y in logs) / math.fsum((x - mean_x) ** 2 for x, _ in logs)


def in_own_process(point: Point) -> dict[str, float]:
    config = point.config
    task = {
        "layer": point.layer, "length": point.length, "d_model": config.d_model, "num_heads": config.num_heads,
        "tries": config.tries, "seed": config.seed,
    }  # fmt: skip
    command = [sys.executable, "-m", "jobs.lab.memory_point", json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"measuring {point.layer} at {point.length} failed: {done.stderr.strip()[-500:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def gradients_by_distance(config: MemoryConfig) -> dict[str, Any]:
    """How much of a gradient at one position arrives at another, so far away, through one layer."""
    torch.manual_seed(config.seed)
    width, length = 64, max(config.distances) + 1
    layers = {"attention": built("fused", width, 4), "LSTM": built("LSTM", width, 4)}
    rows: list[Row] = []
    for name, layer in layers.items():
        norms = arriving(layer, length, width)
        rows += [
            {"layer": name, "distance": distance, "gradient": norms[-1 - distance]} for distance in config.distances
        ]
    distance = min(16, max(config.distances))
    stack = nn.Sequential()
    while arriving(stack, distance + 1, width)[0] == 0.0:
        stack.append(built("convolution", width, 4))
    figures = {
        "farthest": float(max(config.distances)),
        "convolution/layers": len(stack),
        "convolution/distance": distance,
    }
    for name in layers:
        own = {row["distance"]: row["gradient"] for row in rows if row["layer"] == name}
        figures |= {f"{name}/gradient/near": own[min(own)], f"{name}/gradient/far": own[max(own)]}
    return {"figures": figures, "rows": rows}


def arriving(layer: nn.Module, length: int, width: int) -> list[float]:
    """The norm, by position, of the gradient of the last position's output; a mean over 32 sequences."""
    x_BTD = torch.randn(32, length, width, generator=torch.Generator().manual_seed(1)).requires_grad_()
    layer(x_BTD)[:, -1].sum().backward()
    return x_BTD.grad.norm(dim=2).mean(dim=0).tolist() if x_BTD.grad is not None else []


def draw(tables: dict[str, list[Row]]) -> list[Chart]:
    def by_length(kind: str, label: str) -> str:
        named = charts.series(tables["cost"], by="layer", x="length", y=kind)
        return charts.lines(named, x_label="length", y_label=label, log=(True, True))

    distances = charts.series(tables["paths"], by="layer", x="distance", y="gradient")
    return [
        Chart("Peak memory by length", by_length("backward_mb", "MB"), "Forward and backward, one layer.", "cost"),
        Chart(
            "Time by length", by_length("backward_s", "seconds"), "Forward and backward, one layer, one thread.", "cost"
        ),
        Chart(
            "How far a gradient reaches",
            charts.lines(distances, x_label="positions between", y_label="gradient norm", log=(True, True)),
            "What arrives of the last position's gradient, through one layer at initialisation.",
            "paths",
        ),
    ]
