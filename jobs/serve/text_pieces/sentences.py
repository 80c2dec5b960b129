"""Long text into sentences and back. What is between the sentences (spaces, line breaks, empty lines) is kept as it is.

`pieces` is exact: joining the texts of all pieces gives the input again, character for character. A model was trained
on single sentences; a paragraph given to it whole comes back short.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LONGEST = 400  # characters: longer sentences are cut at a clause or a space
ABBREVIATIONS = frozenset(  # without their last full stop
    """
    mr mrs ms dr prof st jr sr vs etc inc ltd co corp no vol fig eq sec ca approx dept est gen gov hon rep sen
    e.g i.e a.m p.m u.s u.k d.h z.b u.a usw bzw vgl nr bspw evtl ggf hr fr str ing dipl jan feb mar apr jun jul aug
    sep sept oct nov dec abs art bd hrsg mio mrd tel u.s.w o.ä m.e p.ex cf av mme mlle
    """.split()  # noqa: SIM905
)
LINE_BREAK = re.compile(r"(\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])")
END_OF_SENTENCE = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？]+[」』”’）]*")
LAST_WORD = re.compile(r"[^\s(\[\"'“„«]+$")
CLAUSE = re.compile(r"[;:,–—]\s|[，；：、]")
LETTER = re.compile(r"[^\W\d_]")


class Piece(NamedTuple):
    """Some of the text: a sentence to translate, or what is kept as it is."""

    text: str
    translate: bool


def pieces(text: str, longest: int = LONGEST) -> list[Piece]:
    """The text in order, sentences apart from what stands between them."""
    found: list[Piece] = []
    for place, line in enumerate(LINE_BREAK.split(text)):
        if place % 2:
            found.append(Piece(line, False))
        else:
            found.extend(_pieces_of_line(line, longest))
    return found


def _pieces_of_line(line: str, longest: int) -> Iterator[Piece]:
    for sentence in _sentences(line):
        for part in _parts(sentence, longest):
            bare = part.strip()
            if not LETTER.search(bare):  # numbers, rules and emoji say the same in every language
                yield Piece(part, False)
                continue
            start = part.index(bare)
            for text, translate in ((part[:start], False), (bare, True), (part[start + len(bare) :], False)):
                if text:
                    yield Piece(text, translate)


def _sentences(line: str) -> Iterator[str]:
    """The sentences of a line, each with the space behind its predecessor in front."""
    begin = 0
    for match in END_OF_SENTENCE.finditer(line):
        if _ends(line, match):
            yield line[begin : match.end()]
            begin = match.end()
    if begin < len(line):
        yield line[begin:]


def _ends(line: str, match: re.Match[str]) -> bool:
    """Whether a full stop ends a sentence: not behind an abbreviation, an initial or a German ordinal."""
    if match.group()[0] != "." or match.group().startswith(".."):
        following = line[match.end() :].lstrip()
        return not (match.group().startswith((".", "…")) and following[:1].islower())
    following = line[match.end() :].lstrip()
    if following[:1].islower():
        return False
    word = LAST_WORD.search(line, 0, match.start())
    last = word.group().lower() if word else ""
    return not (last in ABBREVIATIONS or (len(last) == 1 and last.isalpha()) or (last.isdigit() and len(last) <= 2))


def _parts(sentence: str, longest: int) -> Iterator[str]:
    """A sentence that is too long in parts: behind the last clause that fits, else at a space, else anywhere."""
    while len(sentence) > longest:
        clauses = [match.end() for match in CLAUSE.finditer(sentence, longest // 3, longest)]
        cut = clauses[-1] if clauses else sentence.rfind(" ", 1, longest) + 1 or longest
        yield sentence[:cut]
        sentence = sentence[cut:]
    yield sentence
