"""Charts of the lab as SVG text: lines, a grid of values, a matrix. Drawn for a phone, in the page's colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from jobs.report.figures import DASHES, INK, MUTED, RULE, colour, frame, short

WIDTH, HEIGHT = 440, 270
LEGEND_ROW = 19
Row = Mapping[str, Any]


def text(x: float, y: float, words: str, *, anchor: str = "middle", fill: str = MUTED, size: int = 12) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}" font-size="{size}">{escape(words)}</text>'


def series(rows: Sequence[Row], *, by: str, x: str, y: str) -> dict[str, list[tuple[float, float]]]:
    """The points (x, y) of every value of the column `by`, in the order in which they stand; empty cells left out."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        found.setdefault(str(row[by]), [])
        if isinstance(row[x], int | float) and isinstance(row[y], int | float) and math.isfinite(row[y]):
            found[str(row[by])].append((float(row[x]), float(row[y])))
    return found


def lines(
    named: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x_label: str,
    y_label: str,
    log: tuple[bool, bool] = (False, False),
    at: Sequence[float] | None = None,
    marker: tuple[float, str] | None = None,
) -> str:
    """Curves with a legend below. `at` are the ticks of x, `marker` a line across at one x with a word."""
    legend, rows = _legend(list(named))
    points = [point for curve in named.values() for point in curve if not log[1] or point[1] > 0]
    axes = frame(
        [x for x, _ in points], [y for _, y in points], x_label=x_label, y_label=y_label,
        describe=f"{y_label} by {x_label}: {', '.join(named)}", size=(WIDTH, HEIGHT), log=log,
    )  # fmt: skip
    inside = []
    if marker:
        place = axes.x(marker[0])
        inside.append(f'<path d="M{place} {axes.y.end}V{axes.y.start}" stroke="{MUTED}" stroke-dasharray="3 3"/>')
        right = place > WIDTH / 2  # the words stand where there is room for them
        inside.append(
            text(place + (-4 if right else 4), axes.y.start - 6, marker[1], anchor="end" if right else "start", size=11)
        )
    for index, curve in enumerate(named.values()):
        kept = [(axes.x(x), axes.y(y)) for x, y in curve if not log[1] or y > 0]
        if not kept:
            continue
        stroke = f'stroke="{colour(index)}" stroke-dasharray="{DASHES[index % len(DASHES)]}"'
        path = "L".join(f"{x} {y}" for x, y in kept)
        inside.append(f'<path d="M{path}" fill="none" {stroke} stroke-width="2" stroke-linejoin="round"/>')
        if len(kept) <= 12:
            inside += [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour(index)}"/>' for x, y in kept]
    drawn = axes.draw(inside, x_name=_only(at) if at else short)
    return _below(drawn, legend, rows)


def _only(at: Sequence[float]) -> Callable[[float], str]:
    """Names for the ticks that were measured, and none for the others."""
    return lambda value: short(value) if any(math.isclose(value, one, rel_tol=1e-6) for one in at) else ""


def _legend(names: Sequence[str]) -> tuple[list[str], int]:
    """Swatches and names in rows below a chart."""
    drawn, x, row = [], 16.0, 0
    for index, name in enumerate(names):
        wide = 34 + 6.6 * len(name)
        if x + wide > WIDTH and x > 16:
            x, row = 16.0, row + 1
        y = HEIGHT + 12 + LEGEND_ROW * row
        dash = DASHES[index % len(DASHES)]
        drawn.append(
            f'<path d="M{x:g} {y - 4}h20" stroke="{colour(index)}" stroke-width="2" stroke-dasharray="{dash}"/>'
        )
        drawn.append(text(x + 25, y, name, anchor="start", fill=INK))
        x += wide + 8
    return drawn, row + 1


def _below(svg: str, more: Sequence[str], rows: int) -> str:
    """A chart made taller, with `more` under it."""
    tall = HEIGHT + LEGEND_ROW * rows + 4
    return svg.replace(f'viewBox="0 0 {WIDTH} {HEIGHT}"', f'viewBox="0 0 {WIDTH} {tall}"').replace(
        "</svg>", "".join(more) + "</svg>"
    )


def heat(
    rows: Sequence[Row], *, x: str, y: str, value: str, x_label: str, y_label: str, describe: str, low: float,
    high: float, bad: str | None = None,
) -> str:  # fmt: skip
    """A grid of values: the darker, the larger. Where the column `bad` is true, the cell is crossed out."""
    across = list(dict.fromkeys(row[x] for row in rows))
    down = list(dict.fromkeys(row[y] for row in rows))
    wide, tall = (WIDTH - 90) / len(across), min(46.0, 190 / len(down) + 8)
    height = 60 + tall * len(down)
    drawn = [_open(height, describe), text(8, 16, y_label, anchor="start", fill=INK)]
    for row in rows:
        left, top = 76 + wide * across.index(row[x]), 26 + tall * down.index(row[y])
        number = float(row[value])
        share = min(1.0, max(0.0, (number - low) / (high - low))) if math.isfinite(number) and high > low else 1.0
        crossed = bool(bad and row[bad])
        drawn.append(
            f'<rect x="{left:g}" y="{top:g}" width="{wide - 2:g}" height="{tall - 2:g}" rx="2" fill="{colour(1)}" '
            f'fill-opacity="{0.05 + 0.75 * share:.2f}" stroke="{RULE}"/>'
        )
        shown = f"{number:.2f}" if math.isfinite(number) else "NaN"
        shown = f"✕ {shown}" if crossed else shown
        drawn.append(text(left + wide / 2 - 1, top + tall / 2 + 4, shown, fill=INK))
    for name in across:
        drawn.append(text(76 + wide * (across.index(name) + 0.5), 40 + tall * len(down), label(name)))
    for name in down:
        drawn.append(text(70, 26 + tall * (down.index(name) + 0.5) + 4, label(name), anchor="end"))
    drawn.append(text(76 + (WIDTH - 90) / 2, 56 + tall * len(down), x_label))
    return "".join([*drawn, "</svg>"])


def label(name: Any) -> str:
    return short(float(name)) if isinstance(name, int | float) else str(name)


def matrix(values: Sequence[Sequence[float | None]], *, describe: str, x_label: str, y_label: str) -> str:
    """A picture of a matrix: blue above zero, orange below, and hatched in grey where there is no value (-inf)."""
    size = min(30.0, (WIDTH - 60) / max(len(values[0]), 1), 300 / max(len(values), 1))
    largest = max((abs(v) for row in values for v in row if v is not None), default=1.0) or 1.0
    height = 52 + size * len(values)
    drawn = [_open(height, describe), text(8, 14, y_label, anchor="start", fill=INK)]
    for down, row in enumerate(values):
        for across, value in enumerate(row):
            left, top = 40 + size * across, 22 + size * down
            paint = MUTED if value is None else colour(0 if value >= 0 else 1)
            opacity = 0.18 if value is None else abs(value) / largest
            drawn.append(
                f'<rect x="{left:g}" y="{top:g}" width="{size - 1:.2f}" height="{size - 1:.2f}" fill="{paint}" '
                f'fill-opacity="{opacity:.2f}" stroke="{RULE}" stroke-width="0.5"/>'
            )
            if value is None and size >= 22:
                drawn.append(text(left + size / 2, top + size / 2 + 4, "−∞", size=11))
            elif value is not None and size >= 26:
                drawn.append(text(left + size / 2, top + size / 2 + 4, f"{value:.1f}", fill=INK, size=9))
    drawn.append(text(40 + size * len(values[0]) / 2, height - 8, x_label))
    return "".join([*drawn, "</svg>"])


def _open(height: float, describe: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height:g}" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12"><title>{escape(describe)}</title>'
    )
