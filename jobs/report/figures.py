"""Charts as SVG text, without a plotting library: lines, dots and histograms.

A colour is written as `var(--name, #value)`: inside the page the theme decides, light or dark; `standalone` makes a
file of its own with the light values. Elements carry `data-tip`, which the page shows under the pointer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

# Okabe and Ito's colours, told apart by colour-blind readers too; the yellow, illegible on white, is a purple here.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#2f9bd8", "#e69f00", "#7a5195", "#5d6b78")
DASHES = ("", "7 4", "2 3", "9 3 2 3")
INK, MUTED, RULE, PAPER = "var(--ink, #1c2530)", "var(--muted, #5b6875)", "var(--rule, #dde3e9)", "var(--page, #ffffff)"


def colour(index: int) -> str:
    return f"var(--c{index % len(COLOURS)}, {COLOURS[index % len(COLOURS)]})"


def dash(index: int) -> str:
    return DASHES[(index // len(COLOURS)) % len(DASHES)]


def standalone(svg: str) -> str:
    """The same picture as a file: fixed colours on white, and no need of a page around it."""
    fixed = re.sub(r"var\(--[\w-]+, (#[0-9a-fA-F]+)\)", r"\1", svg)
    fixed = re.sub(r' data-tip="[^"]*"', "", fixed)
    head, _, body = fixed.partition(">")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}><rect width="100%" height="100%" fill="#ffffff"/>{body}\n'


def short(value: float) -> str:
    """A tick's label: 1,500 and 0.05 in full, 2.5M and 1e-4 where they are long."""
    if value == 0:
        return "0"
    size = abs(value)
    for limit, name in ((1e9, "G"), (1e6, "M")):
        if size >= limit:
            return f"{value / limit:.4g}{name}"
    if size >= 10_000:
        return f"{value / 1e3:.4g}k"
    return f"{value:,.6g}" if size >= 0.001 else f"{value:.0e}".replace("e-0", "e-")


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from low to high, about so many."""
    if high <= low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 12) for index in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, ... within the range, thinned to the powers of ten where there are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    fine = [value for value in fine if low * 0.999 <= value <= high * 1.001]
    if len(fine) > 8:
        return [value for value in fine if math.isclose(math.log10(value) % 1, 0, abs_tol=1e-9)]
    return fine if len(fine) >= 2 else ticks(low, high)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A range of values laid over a range of pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log10(low), math.log10(high), math.log10(max(value, low))
        share = (at - low) / (high - low) if high > low else 0.5
        return round(self.start + share * (self.end - self.start), 2)

    def ticks(self) -> list[float]:
        return log_ticks(self.low, self.high) if self.log else ticks(self.low, self.high)


def spread(values: Iterable[float], *, log: bool = False, margin: float = 0.06) -> tuple[float, float]:
    """The range of the values with a little air around it."""
    found = [value for value in values if not log or value > 0]
    low, high = (min(found), max(found)) if found else (1.0, 10.0)
    if log:
        air = (high / low) ** margin if high > low else 1.5
        return low / air, high * air
    air = (high - low) * margin or abs(high) * 0.1 or 1.0
    return low - air, high + air


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The axes of a chart: ticks, rules, labels with units, and the two scales for what goes inside."""

    x: Axis
    y: Axis
    width: int
    height: int
    x_label: str
    y_label: str
    describe: str

    def draw(self, inside: Iterable[str], x_name: Callable[[float], str] = short) -> str:
        left, right, top, bottom = self.x.start, self.x.end, self.y.end, self.y.start
        lines = [
            f'<svg class="chart" viewBox="0 0 {self.width} {self.height}" xmlns="http://www.w3.org/2000/svg" '
            f'role="img" font-family="system-ui, sans-serif" font-size="12"><title>{escape(self.describe)}</title>'
        ]
        for value in self.y.ticks():
            at = self.y(value)
            lines.append(f'<path d="M{left} {at}H{right}" stroke="{RULE}"/>')
            lines.append(_text(left - 8, at + 4, short(value), anchor="end"))
        for value in self.x.ticks():
            at = self.x(value)
            lines.append(f'<path d="M{at} {bottom}v5" stroke="{MUTED}"/>')
            lines.append(_text(at, bottom + 19, x_name(value)))
        lines.append(f'<path d="M{left} {bottom}H{right}" stroke="{MUTED}"/>')
        lines.append(_text((left + right) / 2, self.height - 6, self.x_label))
        lines.append(_text(left - 44, top - 12, self.y_label, anchor="start", fill=INK))
        return "".join([*lines, *inside, "</svg>"])


def _text(x: float, y: float, text: str, *, anchor: str = "middle", fill: str = MUTED, extra: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}"{extra}>{escape(text)}</text>'


def frame(
    xs: Sequence[float],
    ys: Sequence[float],
    *,
    x_label: str,
    y_label: str,
    describe: str,
    size: tuple[int, int] = (720, 360),
    log: tuple[bool, bool] = (False, False),
    from_zero: bool = False,
    right: int = 16,
) -> Frame:
    """Axes that hold the given values; `right` is the room kept for labels."""
    width, height = size
    x_low, x_high = spread(xs, log=log[0], margin=0.02)
    y_low, y_high = spread(ys, log=log[1])
    return Frame(
        x=Axis(low=x_low, high=x_high, start=58, end=width - right, log=log[0]),
        y=Axis(low=0.0 if from_zero else y_low, high=y_high, start=height - 46, end=34, log=log[1]),
        width=width,
        height=height,
        x_label=x_label,
        y_label=y_label,
        describe=describe,
    )


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]


def line_chart(lines: Sequence[Line], *, x_label: str, y_label: str, log: tuple[bool, bool] = (False, False)) -> str:
    """Curves with their names at the right end where there are few, else named by colour and dash in a legend."""
    points = [point for line in lines for point in line.points]
    named = len(lines) <= 6
    axes = frame(
        [x for x, _ in points],
        [y for _, y in points],
        x_label=x_label,
        y_label=y_label,
        describe=f"{y_label} by {x_label} of {', '.join(line.name for line in lines)}",
        log=log,
        right=110 if named else 16,
        size=(720, 360 if named else 360 + 20 * math.ceil(len(lines) / 5)),
    )
    legend = 0 if named else 20 * math.ceil(len(lines) / 5)
    plotted = Axis(low=axes.y.low, high=axes.y.high, start=axes.y.start - legend, end=axes.y.end, log=log[1])
    axes = Frame(**{**axes.__dict__, "y": plotted})
    inside = []
    ends: list[float] = []
    for index, line in enumerate(lines):
        path = "L".join(f"{axes.x(x)} {axes.y(y)}" for x, y in line.points if not log[1] or y > 0)
        stroke = f'stroke="{colour(index)}" stroke-dasharray="{dash(index)}"'
        inside.append(f'<path d="M{path}" fill="none" {stroke} stroke-width="2" stroke-linejoin="round"/>')
        if named and line.points:
            at = _free(axes.y(line.points[-1][1]), ends)
            inside.append(_text(axes.x.end + 6, at + 4, line.name, anchor="start", fill=colour(index)))
        elif not named:
            x, y = 58 + 132 * (index % 5), axes.height - 26 - legend + 20 * (index // 5) + 16
            inside.append(f'<path d="M{x} {y - 4}h22" {stroke} stroke-width="2"/>')
            inside.append(_text(x + 28, y, line.name, anchor="start"))
    return axes.draw(inside)


def _free(wanted: float, taken: list[float], room: float = 14) -> float:
    """A height near the wanted one where no other label stands."""
    for shift in (0, 1, -1, 2, -2, 3, -3, 4, -4):
        at = wanted + shift * room
        if all(abs(at - other) >= room - 0.5 for other in taken):
            taken.append(at)
            return at
    return wanted


class Labels:
    """Finds room for names beside dots: no name covers a dot or another name; a name without room is left out."""

    LETTER, HEIGHT, RADIUS = 6.5, 12.0, 6.0

    def __init__(self, dots: Sequence[tuple[float, float]], inside: tuple[float, float, float, float]) -> None:
        self.dots = dots
        self.left, self.right, self.top, self.bottom = inside
        self.taken: list[tuple[float, float, float, float]] = []

    def place(self, x: float, y: float, name: str) -> tuple[float, float, str] | None:
        """Where the text of the dot at (x, y) is anchored and how: right of it, else left, above or below."""
        wide = self.LETTER * len(name)
        anchors = {"start": 0.0, "end": wide, "middle": wide / 2}
        for at, base, anchor in (
            (x + 8, y + 4, "start"),
            (x - 8, y + 4, "end"),
            (x, y - 9, "middle"),
            (x, y + 17, "middle"),
        ):
            left = at - anchors[anchor]
            box = (left, base - self.HEIGHT + 2, left + wide, base + 2)
            if self._free(box, (x, y)):
                self.taken.append(box)
                return round(at, 1), round(base, 1), anchor
        return None

    def _free(self, box: tuple[float, float, float, float], own: tuple[float, float]) -> bool:
        left, top, right, bottom = box
        if left < self.left or right > self.right or top < self.top - 14 or bottom > self.bottom:
            return False
        if any(left < x2 and right > x1 and top < y2 and bottom > y1 for x1, y1, x2, y2 in self.taken):
            return False
        near = self.RADIUS
        others = (dot for dot in self.dots if dot != own)
        return not any(left - near < x < right + near and top - near < y < bottom + near for x, y in others)


@dataclass(frozen=True, kw_only=True)
class Dot:
    name: str
    x: float
    y: float
    tip: str
    index: int = 0


def dot_chart(
    dots: Sequence[Dot],
    *,
    x_label: str,
    y_label: str,
    log: tuple[bool, bool] = (False, False),
    zero_lines: bool = False,
    size: tuple[int, int] = (470, 320),
) -> str:
    """Dots with their names beside them where there is room."""
    axes = frame(
        [dot.x for dot in dots] + ([0.0] if zero_lines else []),
        [dot.y for dot in dots] + ([0.0] if zero_lines else []),
        x_label=x_label,
        y_label=y_label,
        describe=f"{y_label} by {x_label} of {', '.join(dict.fromkeys(dot.name for dot in dots))}",
        size=size,
        log=log,
        right=64,
    )
    inside = []
    if zero_lines:
        inside.append(f'<path d="M{axes.x(0)} {axes.y.end}V{axes.y.start}" stroke="{MUTED}" stroke-dasharray="3 3"/>')
        inside.append(f'<path d="M{axes.x.start} {axes.y(0)}H{axes.x.end}" stroke="{MUTED}" stroke-dasharray="3 3"/>')
    places = [(axes.x(dot.x), axes.y(dot.y)) for dot in dots]
    labels = Labels(places, (axes.x.start, axes.width, axes.y.end, axes.y.start))
    for dot in dots:
        x, y, paint = axes.x(dot.x), axes.y(dot.y), colour(dot.index)
        inside.append(
            f'<circle cx="{x}" cy="{y}" r="5" fill="{paint}" stroke="{PAPER}" stroke-width="1.2" tabindex="0" '
            f'data-tip="{escape(dot.tip)}"/>'
        )
        place = labels.place(x, y, dot.name)
        if place:
            at, base, anchor = place
            inside.append(_text(at, base, dot.name, anchor=anchor, extra=' font-size="11"'))
    return axes.draw(inside)


def histogram(
    series: Sequence[tuple[str, Sequence[tuple[float, float]]]], *, bin_width: float, x_label: str, y_label: str
) -> str:
    """Counts by bin, side by side. Each series: its name, and the bins as (lower edge, count)."""
    edges = sorted({edge for _, bins in series for edge, _ in bins})
    axes = frame(
        [edges[0], edges[-1] + bin_width] if edges else [0, 1],
        [count for _, bins in series for _, count in bins] or [1],
        x_label=x_label,
        y_label=y_label,
        describe=f"{y_label} by {x_label}: {', '.join(name for name, _ in series)}",
        size=(470, 280),
        from_zero=True,
    )
    inside = []
    for index, (name, bins) in enumerate(series):
        share = bin_width / len(series)
        for edge, count in bins:
            x, end = axes.x(edge + index * share), axes.x(edge + (index + 1) * share)
            y, wide = axes.y(count), max(end - x - 0.6, 0.6)
            tip = escape(f"{name}: {count:,.0f} from {edge:g} to {edge + bin_width - 1:g}")
            inside.append(
                f'<rect x="{x}" y="{y}" width="{wide:.2f}" height="{axes.y.start - y:.2f}" rx="1" '
                f'fill="{colour(index)}" data-tip="{tip}"/>'
            )
        at = axes.x.end - 90 * (len(series) - index)
        inside.append(f'<rect x="{at}" y="14" width="11" height="11" rx="2" fill="{colour(index)}"/>')
        inside.append(_text(at + 16, 24, name, anchor="start"))
    return axes.draw(inside)
