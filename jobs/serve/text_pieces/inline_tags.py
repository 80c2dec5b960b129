"""Tags inside a sentence (<b>, <a href=...>) put back into its translation, around the words that they were around.

The sentence is translated without its tags. Which words of the translation belong to which of the source is read from
the model's attention: each word of the translation belongs to the word of the source that it attends to most.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

INLINE = frozenset(
    """
    a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q s small span strike strong sub sup time
    tt u var
    """.split()  # noqa: SIM905
)
NAME = re.compile(r"</?([A-Za-z][A-Za-z0-9-]*)")
WORD = re.compile(r"\S+")
MARK = "▁"  # SentencePiece's mark of a word's beginning


class Tag(NamedTuple):
    """A tag as it is written, and the place in the sentence's text before which it stands."""

    written: str
    place: int


class Element(NamedTuple):
    """An opening and a closing tag with what is between them: text[start:end]."""

    opening: str
    closing: str
    start: int
    end: int


def is_inline(tag: str) -> bool:
    found = NAME.match(tag)
    return found is not None and found[1].lower() in INLINE and not tag.rstrip().endswith("/>")


def elements(tags: Sequence[Tag]) -> tuple[list[Element], list[Tag]]:
    """The elements that begin and end in the sentence, and the tags whose other half is elsewhere."""
    found: list[Element] = []
    waiting: list[Tag] = []
    alone: list[Tag] = []
    for tag in tags:
        if not tag.written.startswith("</"):
            waiting.append(tag)
        elif waiting and _name(waiting[-1].written) == _name(tag.written):
            opening = waiting.pop()
            found.append(Element(opening.written, tag.written, opening.place, tag.place))
        else:
            alone.append(tag)
    return found, [*alone, *waiting]


def _name(tag: str) -> str:
    found = NAME.match(tag)
    return found[1].lower() if found else ""


def word_links(maps: dict[str, Any]) -> list[int]:
    """For each word of the translation the word of the source that it attends to most (mean of layers and heads)."""
    target, source = [*maps["target"][1:], "</s>"], maps["source"]
    rows, columns = _word_of(target), _word_of(source)
    weights = [[0.0] * (max(columns) + 1) for _ in range(max(rows) + 1)]
    for layer in maps["cross"]:
        for head in layer:
            for row, line in zip(rows, head, strict=True):
                for column, weight in zip(columns, line, strict=True):
                    weights[row][column] += weight
    words, last = max(rows), max(columns)  # the last of each is END
    return [max(range(last), key=line.__getitem__) if last else 0 for line in weights[:words]]


def _word_of(pieces: Sequence[str]) -> list[int]:
    """The number of the word that each subword belongs to; END is a word of its own."""
    numbers, word = [], -1
    for place, piece in enumerate(pieces):
        if place == 0 or piece.startswith(MARK) or piece == "</s>":
            word += 1
        numbers.append(word)
    return numbers


def with_tags(
    source: str, tags: Sequence[Tag], translation: str, links: Sequence[int], written: Callable[[str], str]
) -> str | None:
    """The translation with the source's tags, or None where they would cross. `written`: text as a document has it."""
    around, alone = elements(tags)
    places = [_place(source, element, translation, links) for element in around]
    if _cross(around, places):
        return None
    inserts: list[tuple[int, int, str]] = []  # place, order, tag: what closes stands before what opens
    for depth, (element, (start, end)) in enumerate(zip(around, places, strict=True)):  # inner ones come first
        if start == end:
            inserts.append((start, 0, element.opening + element.closing))
        else:
            inserts += [(start, 1000 - depth, element.opening), (end, depth - 1000, element.closing)]
    for tag in alone:
        inserts.append((0, 0, tag.written) if tag.place == 0 else (len(translation), 0, tag.written))
    out, begin = [], 0
    for place, _, written_tag in sorted(inserts, key=lambda insert: insert[:2]):
        out += [written(translation[begin:place]), written_tag]
        begin = place
    return "".join([*out, written(translation[begin:])])


def _place(source: str, element: Element, translation: str, links: Sequence[int]) -> tuple[int, int]:
    """Where an element goes: around the longest run of words that belong to its words in the source."""
    words = [match.span() for match in WORD.finditer(translation)]
    covered = {
        number
        for number, match in enumerate(WORD.finditer(source))
        if match.start() < element.end and match.end() > element.start
    }
    if not source[element.start : element.end].strip() or not words:
        return len(translation), len(translation)
    if not source[: element.start].strip() and not source[element.end :].strip():
        return 0, len(translation)
    run = _longest_run([link in covered for link in links[: len(words)]])
    if run is None:  # no word attends there: the place that it had in the source
        at = min(len(words) - 1, min(covered) * len(words) // max(1, len(source.split())))
        run = (at, at)
    start, end = words[run[0]][0], words[run[1]][1]
    if source[element.start : element.end].rstrip()[-1].isalnum():  # the full stop was outside, and stays there
        while end > start + 1 and not translation[end - 1].isalnum():
            end -= 1
    return start, end


def _longest_run(chosen: Sequence[bool]) -> tuple[int, int] | None:
    best, begin = None, None
    for place, inside in enumerate([*chosen, False]):
        if inside and begin is None:
            begin = place
        elif not inside and begin is not None:
            if best is None or place - begin > best[1] - best[0] + 1:
                best = (begin, place - 1)
            begin = None
    return best


def _cross(around: Sequence[Element], places: Sequence[tuple[int, int]]) -> bool:
    """Whether some elements would no longer stand beside or inside one another as they did."""
    for inner, (start, end) in enumerate(places):
        for outer in range(inner + 1, len(places)):
            contains = around[outer].start <= around[inner].start and around[inner].end <= around[outer].end
            left, right = places[outer]
            inside = left <= start and end <= right
            apart = end <= left or right <= start
            if not (inside if contains else apart):
                return True
    return False
