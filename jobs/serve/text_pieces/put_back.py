"""Placeholders and numbers that a model loses: taken out of a sentence, and put back into its translation.

Where they go is read from the model's attention, as for inline tags: before the words that belong to the word behind
them in the source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from jobs.serve.text_pieces import protected

WORD = re.compile(r"\S+")
PUNCTUATION = ".,;:!?…)\"'”’»"


class Unit(NamedTuple):
    """A word with something that must stay, and how many words of what is left stand before it.

    `last`: nothing but punctuation follows it.
    """

    text: str
    place: int
    last: bool


def taken_out(source: str) -> tuple[str, list[Unit]]:
    """The sentence without its placeholders and numbers, and these."""
    left, units = "", []
    spans = _unit_spans(source)
    begin = 0
    for start, end in spans:
        before = source[begin:start]
        left = _join(left, before)
        rest = source[end:]
        units.append(Unit(source[start:end], len(left.split()), not any(map(str.isalnum, rest))))
        begin = end
    return _join(left, source[begin:]).strip(), units


def _join(left: str, right: str) -> str:
    """Two parts between which something was: one space, and none before punctuation."""
    if right[:1] in PUNCTUATION:
        return left.rstrip() + right
    return left + right.lstrip() if not left or left[-1:].isspace() else left + right


def _unit_spans(source: str) -> list[tuple[int, int]]:
    """Where what must stay stands, widened to whole words; punctuation behind them is left."""
    found: list[tuple[int, int]] = []
    at = 0
    for text, free in protected.parts(source):
        start, end = at, at + len(text)
        at = end
        if free:
            continue
        while start > 0 and not source[start - 1].isspace():
            start -= 1
        closing = end
        while closing < len(source) and not source[closing].isspace():
            closing += 1
        while closing > end and source[closing - 1] in PUNCTUATION:
            closing -= 1
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(closing, found[-1][1]))
        else:
            found.append((start, closing))
    return found


def put_back(translation: str, links: Sequence[int], units: Sequence[Unit]) -> str:
    """The translation with the units. `links`: for each of its words, the word of the source that it belongs to."""
    words = [match.span() for match in WORD.finditer(translation)]
    end = len(translation.rstrip())
    while end > 0 and translation[end - 1] in PUNCTUATION:
        end -= 1
    inserts = sorted(
        ((_offset(unit, words, links, end), number, unit.text) for number, unit in enumerate(units)),
        key=lambda insert: insert[:2],
    )
    out, begin = "", 0
    for offset, _, text in inserts:
        out += translation[begin:offset]
        out += text if not out or out[-1].isspace() else f" {text}"
        begin = offset
        if translation[begin : begin + 1].strip() and translation[begin] not in PUNCTUATION:
            out += " "
    return out + translation[begin:]


def _offset(unit: Unit, words: Sequence[tuple[int, int]], links: Sequence[int], end: int) -> int:
    """Before the words of the word behind it; else behind those of the word before it."""
    if unit.last or not words:
        return end
    behind = [place for place, link in enumerate(links[: len(words)]) if link == unit.place]
    if behind:
        return words[behind[0]][0]
    before = [place for place, link in enumerate(links[: len(words)]) if link == unit.place - 1]
    if before:
        return min(words[before[-1]][1], end)
    return words[0][0] if unit.place == 0 else end
