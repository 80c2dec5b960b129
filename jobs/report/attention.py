"""Attention weights of each head: pictures as in the paper's appendix (figures 3 to 5), still and to click through.

`attention_page` is one HTML file for a few sentences, `lines_svg` and `matrix_svg` are still pictures of single heads,
`entropies` is the same in numbers. The maps come from transformer/translator.py; rows are queries, columns are keys.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol

from markupsafe import Markup

from jobs.report import pages
from jobs.report.figures import INK, MUTED, RULE, colour

Matrix = Sequence[Sequence[float]]  # a row per query, a column per key; a row sums to 1
Heads = Sequence[Sequence[Matrix]]  # [layer][head]

KINDS = {"cross": "Decoder to encoder", "encoder": "Encoder self-attention", "decoder": "Decoder self-attention"}
ACCENT = colour(0)
BLANK = "▁"  # SentencePiece's mark of a word's beginning
SPECIAL = {"<s>": "⟨start⟩", "</s>": "⟨end⟩", "<unk>": "⟨unknown⟩", "<pad>": "⟨pad⟩"}


class AttentionMaps(Protocol):
    """One sentence: its tokens, and the attention weights as tensors or nested lists."""

    @property
    def source_tokens(self) -> Sequence[str]: ...
    @property
    def target_tokens(self) -> Sequence[str]: ...
    @property
    def encoder(self) -> Any: ...
    @property
    def decoder(self) -> Any: ...
    @property
    def cross(self) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class Picture:
    """The attention of one sentence as plain data: tokens fit to be read, and weights.

    `target` is what the decoder has read at each place, START first; `written` is what it writes there.
    """

    text: str
    source: Sequence[str]
    target: Sequence[str]
    weights: Mapping[str, Heads]  # by kind, as in KINDS

    @property
    def written(self) -> list[str]:
        return [*self.target[1:], SPECIAL["</s>"]]

    def sides(self, kind: str) -> tuple[Sequence[str], Sequence[str]]:
        """The tokens of the queries and of the keys; queries of the decoder-to-encoder attention are target tokens."""
        return {
            "cross": (self.written, self.source),
            "encoder": (self.source, self.source),
            "decoder": (self.target, self.target),
        }[kind]


def picture(maps: AttentionMaps) -> Picture:
    weights = {kind: _plain(getattr(maps, kind)) for kind in KINDS}
    text = "".join(token for token in maps.source_tokens if token not in SPECIAL).replace(BLANK, " ").strip()
    return Picture(text=text, source=readable(maps.source_tokens), target=readable(maps.target_tokens), weights=weights)


def _plain(weights: Any) -> Any:
    """Tensors, arrays and sequences of them as nested lists."""
    if hasattr(weights, "tolist"):
        return weights.tolist()
    if isinstance(weights, float | int):
        return float(weights)
    return [_plain(item) for item in weights]


def readable(tokens: Sequence[str]) -> list[str]:
    """Subwords as a reader wants them: a word as it is, a later piece of a word with a dot before it."""
    shown = []
    for token in tokens:
        piece = token.removeprefix(BLANK)
        inside = not token.startswith(BLANK) and piece[:1].isalnum()
        shown.append(SPECIAL.get(token) or (f"·{piece}" if inside else piece) or "␣")
    return shown


def entropy(matrix: Matrix) -> float:
    """Bits, the mean over the queries: 0 where a head looks at one place, log2(length) where it looks everywhere."""
    rows = [-sum(weight * math.log2(weight) for weight in row if weight > 0) for row in matrix]
    return sum(rows) / len(rows) if rows else 0.0


def entropies(pictures: Sequence[Picture]) -> dict[str, list[list[float]]]:
    """By kind, layer and head: the mean entropy over the sentences."""
    found: dict[str, list[list[float]]] = {}
    for kind in KINDS if pictures else ():
        layers = pictures[0].weights[kind]
        found[kind] = [
            [
                sum(entropy(shown.weights[kind][layer][head]) for shown in pictures) / len(pictures)
                for head in range(len(heads))
            ]
            for layer, heads in enumerate(layers)
        ]
    return found


def entropy_facts(pictures: Sequence[Picture]) -> dict[str, float]:
    """As facts for the record and MLflow, layers and heads counted from 1."""
    return {
        f"attention_entropy_{kind}_{layer}_{head}": round(value, 4)
        for kind, layers in entropies(pictures).items()
        for layer, heads in enumerate(layers, 1)
        for head, value in enumerate(heads, 1)
    }


def sharpest(shown: Picture, kind: str) -> tuple[int, int]:
    """The layer and head to show first: of the upper half of the layers, the head that looks most decidedly."""
    layers = shown.weights[kind]
    upper = range(len(layers) // 2, len(layers))
    places = [(layer, head) for layer in upper for head in range(len(layers[layer]))]
    return min(places, key=lambda place: entropy(layers[place[0]][place[1]]))


# --- still pictures ----------------------------------------------------------------------------------------------


def matrix_svg(shown: Picture, kind: str, layer: int, head: int, cell: int = 24) -> str:
    """A head as a matrix: what is written (rows) against what it looks at (columns)."""
    queries, keys = shown.sides(kind)
    left = 14 + 8 * max((len(token) for token in queries), default=1)
    top = 34 + 7 * max((len(token) for token in keys), default=1)
    width, height = left + cell * len(keys) + 40, top + cell * len(queries) + 12
    parts = [_open(width, height, f"{KINDS[kind]}, layer {layer + 1}, head {head + 1}")]
    parts.append(_label(8, 18, f"{KINDS[kind]}, layer {layer + 1}, head {head + 1}", INK, size=13))
    for column, token in enumerate(keys):
        x, y = left + cell * (column + 0.62), top - 6
        parts.append(
            f'<text x="{x:g}" y="{y:g}" fill="{MUTED}" transform="rotate(-55 {x:g} {y:g})">{escape(token)}</text>'
        )
    for row, token in enumerate(queries):
        y = top + cell * row
        parts.append(_label(left - 6, y + cell * 0.66, token, MUTED, anchor="end"))
        for column, weight in enumerate(shown.weights[kind][layer][head][row]):
            tip = escape(f"{token} → {keys[column]}: {weight:.0%}")
            parts.append(
                f'<rect x="{left + cell * column}" y="{y}" width="{cell - 1}" height="{cell - 1}" rx="2" '
                f'fill="{ACCENT}" fill-opacity="{max(weight, 0.0) ** 0.7:.3f}" stroke="{RULE}" data-tip="{tip}"/>'
            )
    return "".join([*parts, "</svg>"])


def lines_svg(shown: Picture, kind: str, layer: int, heads: Sequence[int], query: int | None = None) -> str:
    """The paper's figures: from each query a line to what it looks at, as strong as the weight, a colour per head."""
    queries, keys = shown.sides(kind)
    left = 14 + 8 * max((len(token) for token in queries), default=1)
    right = 14 + 8 * max((len(token) for token in keys), default=1)
    step, span, top = 24, 240, 34
    height = top + step * max(len(queries), len(keys)) + 10
    name = f"{KINDS[kind]}, layer {layer + 1}, head{'s' if len(heads) > 1 else ''} "
    name += ", ".join(str(head + 1) for head in heads)
    parts = [_open(left + span + right, height, name), _label(8, 18, name, INK, size=13)]
    for row, token in enumerate(queries):
        faint = query is not None and row != query
        parts.append(_label(left - 6, top + step * (row + 0.66), token, MUTED if faint else INK, anchor="end"))
    for column, token in enumerate(keys):
        parts.append(_label(left + span + 6, top + step * (column + 0.66), token, INK))
    for order, head in enumerate(heads):
        for row, weights in enumerate(shown.weights[kind][layer][head]):
            if query is not None and row != query:
                continue
            for column, weight in enumerate(weights):
                if weight >= 0.02:
                    y, end = top + step * (row + 0.5), top + step * (column + 0.5)
                    parts.append(
                        f'<path d="M{left} {y:g}C{left + span / 2:g} {y:g} {left + span / 2:g} {end:g} {left + span} '
                        f'{end:g}" fill="none" stroke="{colour(order)}" stroke-width="2.5" '
                        f'stroke-opacity="{min(1.0, weight):.3f}"/>'
                    )
    return "".join([*parts, "</svg>"])


def _open(width: float, height: float, title: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {width:g} {height:g}" width="{width:g}" xmlns="http://www.w3.org/2000/svg" '
        f'role="img" font-family="system-ui, sans-serif" font-size="13"><title>{escape(title)}</title>'
    )


def _label(x: float, y: float, text: str, fill: str, *, anchor: str = "start", size: int = 13) -> str:
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"'
    return f'<text {place} fill="{fill}">{escape(text)}</text>'


# --- to click through --------------------------------------------------------------------------------------------


def viewer_data(pictures: Sequence[Picture]) -> dict[str, Any]:
    """What the page's script reads. A matrix is base64 of one byte per weight, row by row: 255 is all of it."""
    sentences = []
    for shown in pictures:
        kinds = {
            kind: {"layers": [[_packed(head) for head in heads] for heads in layers], "first": sharpest(shown, kind)}
            for kind, layers in shown.weights.items()
            if layers
        }
        tokens = {"source": list(shown.source), "target": list(shown.target), "written": shown.written}
        sentences.append({"text": shown.text, **tokens, "kinds": kinds})
    return {"names": KINDS, "sentences": sentences}


def _packed(matrix: Matrix) -> str:
    weights = (min(255, max(0, round(255 * weight))) for row in matrix for weight in row)
    return base64.b64encode(bytes(weights)).decode("ascii")


def attention_page(maps: Sequence[AttentionMaps], title: str = "Attention") -> str:
    """One self-contained HTML page for a few sentences, as `attn translate --attention` writes."""
    pictures = [picture(found) for found in maps]
    return pages.render("attention.html.j2", title=title, attention=viewer_data(pictures), still=still(pictures))


def still(pictures: Sequence[Picture]) -> Markup:
    """What is shown of the first sentence where scripts do not run."""
    return Markup(matrix_svg(pictures[0], "cross", *sharpest(pictures[0], "cross")) if pictures else "")
