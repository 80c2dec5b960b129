"""Constituency trees as pictures: SVG text for pages and files, lines for terminals; errors marked against a gold tree.

A small tree stands upright, the root above; a wide one is an outline, a line to a constituent or word, so that it can
be read on a phone. Lines and text have the colour of the text around (currentColor), light or dark. A wrong constituent
is red and has a cross; one that is missing is shown in the gold tree, blue with a plus: no mark is colour alone.

    tree_svg(parse)   errors_svg(parse, gold)   standalone(svg)      tree_text(parse)   errors_text(parse, gold)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from transformer.parsing.evalb import right_constituents, sentence_score
from transformer.parsing.trees import Leaf, Tree

UPRIGHT = 620  # pixels: a tree that is wider is an outline
LEVEL, LETTER, CAPITAL, GAP = 38, 7.6, 10.0, 12  # pixels: from a constituent to its parts, of a letter, between texts
LINE, INDENT = 20, 16  # pixels of an outline
WRONG, MISSING = ("#d1453b", "✗"), ("#2f7fd6", "+")  # colour and sign; both can be read on white and on black
STYLE = "svg{color:#1c2530;background:#fff}@media(prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}"
Mark = tuple[str, str] | None

_NOT_IN_XML = re.compile("[\x00-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass
class _Spot:
    """A constituent or a leaf and its place: `along` the words, how deep, its parts, and how it is marked."""

    text: str
    depth: int
    parts: list[_Spot]
    word: str = ""
    mark: Mark = None
    along: float = 0.0

    @property
    def label(self) -> str:
        return f"{self.mark[1]}{self.text}" if self.mark else self.text

    def spots(self) -> Iterator[_Spot]:
        yield self
        for part in self.parts:
            yield from part.spots()

    def leaves(self) -> list[_Spot]:
        return [spot for spot in self.spots() if not spot.parts]


def _spots(tree: Tree, marks: Sequence[Mark]) -> _Spot:
    """The spots of a tree; `marks` are those of its constituents in the order of `nodes`."""
    rest = iter(marks)

    def spot(node: Tree | Leaf, depth: int) -> _Spot:
        if isinstance(node, Leaf):
            return _Spot(node.tag, depth, [], word=node.word)
        made = _Spot(node.label, depth, [], mark=next(rest, None))
        made.parts += [spot(child, depth + 1) for child in node.children]
        return made

    return spot(tree, 0)


# --- SVG ---------------------------------------------------------------------------------------------------------


def tree_svg(tree: Tree) -> str:
    """A tree without marks."""
    return _svg([("", _spots(tree, ()))], " ".join(tree.words))


def errors_svg(predicted: Tree, gold: Tree) -> str:
    """A parse with its wrong constituents marked; where there are errors, the gold tree below, with what is missing."""
    ours, theirs = _marked(predicted, gold)
    drawn = [("", ours)] if predicted == gold else [("parse", ours), ("gold tree", theirs)]
    return _svg(drawn, f"{' '.join(gold.words)} ({_verdict(predicted, gold)})")


def standalone(svg: str) -> str:
    """The same picture as a file of its own, light or dark as its viewer is."""
    head, _, body = svg.partition(">")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}><style>{STYLE}</style>{body}\n'


def _marked(predicted: Tree, gold: Tree) -> tuple[_Spot, _Spot]:
    in_gold, in_parse = right_constituents(gold, predicted)
    wrong: list[Mark] = [WRONG if right is False else None for right in in_parse]
    missing: list[Mark] = [MISSING if right is False else None for right in in_gold]
    return _spots(predicted, wrong), _spots(gold, missing)


def _verdict(predicted: Tree, gold: Tree) -> str:
    found = sentence_score(gold, predicted)
    counts = found.strict
    wrong, missing = counts.predicted - counts.matched, counts.gold - counts.matched
    if not wrong and not missing and not counts.errors:
        return "every constituent right"
    return f"F1 {found.f1:.1f}: {wrong} wrong, {missing} missing"


def _svg(drawn: Sequence[tuple[str, _Spot]], title: str) -> str:
    parts: list[str] = []
    width = height = 0.0
    upright = all(_place_upright(root) <= UPRIGHT for _, root in drawn)
    for name, root in drawn:
        if name:
            parts.append(_text(6, height + 16, name, anchor="start", faint=True))
            height += 24
        across, down, made = (_upright if upright else _outline)(root, height)
        parts += made
        width, height = max(width, across), height + down
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return (
        f'<svg class="tree" xmlns="http://www.w3.org/2000/svg" {size} style="max-width:100%;height:auto" role="img" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="currentColor"><title>{_escaped(title)}</title>'
        f"{''.join(parts)}</svg>"
    )


def _place_upright(root: _Spot) -> float:
    """Give every spot its place along the words, each as wide as what is written; returns the width of all."""
    right = 0.0

    def place(spot: _Spot) -> float:
        """Returns where the spot begins."""
        nonlocal right
        own = max(_width(spot.label), _width(spot.word))
        if not spot.parts:
            spot.along = right + own / 2
            right += own
            return right - own
        begin = min([place(part) for part in spot.parts])
        middle = (spot.parts[0].along + spot.parts[-1].along) / 2
        short = max(0.0, begin + own / 2 - middle)  # the label would begin before its parts
        for part in spot.parts:
            _shift(part, short)
        spot.along = middle + short
        right = max(right + short, spot.along + own / 2)
        return begin

    place(root)
    return right


def _width(text: str) -> float:
    """About what a text takes, bold, with the gap to the next one."""
    return GAP + sum(CAPITAL if letter.isupper() else LETTER for letter in text)


def _shift(spot: _Spot, by: float) -> None:
    for each in spot.spots():
        each.along += by


def _upright(root: _Spot, top: float) -> tuple[float, float, list[str]]:
    """The root above, the words below: width, height and elements."""
    width = _place_upright(root)
    deepest = max(leaf.depth for leaf in root.leaves())
    parts = []
    for spot in root.spots():
        y = top + 18 + LEVEL * spot.depth
        for part in spot.parts:
            parts.append(_line(spot.along, y + 5, part.along, y + LEVEL - 13, part.mark))
        parts.append(_text(spot.along, y, spot.label, mark=spot.mark, faint=bool(spot.word)))
        if spot.word:
            parts.append(_text(spot.along, y + 16, spot.word, strong=True))
    return width, 18 + LEVEL * deepest + 30, parts


def _outline(root: _Spot, top: float) -> tuple[float, float, list[str]]:
    """A line to a constituent or word, with a rule down to the end of each constituent: width, height and elements."""
    spots = list(root.spots())
    rows = {id(spot): top + 16 + LINE * number for number, spot in enumerate(spots)}
    parts, width = [], 0.0
    for spot in spots:
        x, y = 6.0 + INDENT * spot.depth, rows[id(spot)]
        parts.append(_text(x, y, spot.label, anchor="start", mark=spot.mark, faint=bool(spot.word)))
        end = x + _width(spot.label)
        if spot.word:
            parts.append(_text(end, y, spot.word, anchor="start", strong=True))
            end += _width(spot.word)
        else:
            parts.append(_line(x + 3, y + 5, x + 3, rows[id(spot.leaves()[-1])] + 3, spot.mark))
        width = max(width, end)
    return width, LINE * len(spots) + 14, parts


def _line(x1: float, y1: float, x2: float, y2: float, mark: Mark) -> str:
    look = f'stroke="{mark[0]}" stroke-width="2.5"' if mark else 'stroke="currentColor" stroke-opacity="0.45"'
    return f'<line x1="{x1:.5g}" y1="{y1:.5g}" x2="{x2:.5g}" y2="{y2:.5g}" {look}/>'


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "middle",
    mark: Mark = None,
    faint: bool = False,
    strong: bool = False,
) -> str:
    look = f' fill="{mark[0]}" font-weight="700"' if mark else ' fill-opacity="0.65"' if faint else ""
    look += ' font-weight="600"' if strong else ""
    return f'<text x="{x:.5g}" y="{y:.5g}" text-anchor="{anchor}"{look}>{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    """As XML, which has no sign for control characters."""
    return escape(_NOT_IN_XML.sub("\ufffd", text))


# --- lines for a terminal ----------------------------------------------------------------------------------------


def tree_text(tree: Tree) -> str:
    """A tree as lines, a constituent or a word on each."""
    return "\n".join(_lines(_spots(tree, ())))


def errors_text(predicted: Tree, gold: Tree) -> str:
    """A parse as lines, wrong constituents marked, and below what is missing of the gold tree."""
    ours, theirs = _marked(predicted, gold)
    lines = [_verdict(predicted, gold), *_lines(ours)]
    for spot in theirs.spots():
        if spot.mark:
            lines.append(f"{spot.mark[1]} missing: {spot.text} over {' '.join(leaf.word for leaf in spot.leaves())}")
    return "\n".join(lines)


def _lines(spot: _Spot, first: str = "", rest: str = "") -> list[str]:
    mark = f" {spot.mark[1]}" if spot.mark else ""
    lines = [f"{first}{spot.text}{mark}{' ' + spot.word if spot.word else ''}"]
    for number, part in enumerate(spot.parts, 1):
        last = number == len(spot.parts)
        lines += _lines(part, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))
    return lines
