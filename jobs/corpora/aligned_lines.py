"""Line N of one text translates line N of the other, whatever stands in the lines. Nothing here may shift them.

A line ends at a line feed and nowhere else: not at U+0085, U+2028, a form feed or a lone carriage return, where
Python's own line splitting and many readers would end it. Both sides of a pair are read together, so what is wrong with
one line costs that pair and no other, and is counted. Memory does not grow with the text, nor with its longest line.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from random import Random
from typing import IO, Any, NoReturn, cast

from jobs.errors import UserError

LONGEST_LINE = 2**16  # bytes; a longer one is no sentence
BLOCK = 2**20
SAMPLES = 10  # kept of each reason
SHOWN = 200  # characters of a sample

COMPRESSED: Mapping[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
BREAKS = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]+")  # where some readers end a line; to us a blank
BYTE_ORDER_MARK = "\ufeff"

Line = bytes | None  # None is a line too long to be kept


@dataclass
class Tally:
    """What became of the pairs of one corpus."""

    name: str
    sides: tuple[str, str] = ("the source", "the target")  # what a complaint calls them
    read: int = 0
    kept: int = 0
    repaired: int = 0  # kept, after a line break of some other kind inside a line was made a blank
    dropped: Counter[str] = field(default_factory=Counter)
    samples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def drop(self, reason: str, line: int, source: Line, target: Line) -> None:
        """Count it, and keep a fair sample: every dropped pair is as likely to be in it."""
        self.dropped[reason] += 1
        kept = self.samples.setdefault(reason, [])
        place = len(kept)
        if place == SAMPLES:
            place = Random(f"{reason} {self.dropped[reason]}").randrange(self.dropped[reason])
            if place >= SAMPLES:
                return
        sample = {"corpus": self.name, "line": line, "source": shown(source), "target": shown(target)}
        kept[place : place + 1] = [sample]


def shown(line: Line) -> str:
    return "(a very long line)" if line is None else line[: 4 * SHOWN].decode("utf-8", errors="replace")[:SHOWN]


class Peekable:
    """A stream whose first bytes may be looked at before they are read."""

    def __init__(self, stream: IO[bytes], size: int = 8) -> None:
        self.stream = stream
        self.head = stream.read(size)

    def read(self, size: int = -1) -> bytes:
        if not self.head:
            return self.stream.read(size)
        if size < 0:
            head, self.head = self.head, b""
            return head + self.stream.read()
        head, self.head = self.head[:size], self.head[size:]
        return head

    def readable(self) -> bool:
        return True


def plain(stream: IO[bytes], name: str) -> IO[bytes]:
    """The text itself, if it is compressed; that is seen from its first bytes, not from its name."""
    peekable = Peekable(stream)
    if peekable.head.startswith(UTF_16):
        raise UserError(f"{name} is UTF-16, not UTF-8. Convert it: iconv -f UTF-16 -t UTF-8.")
    for magic, opener in COMPRESSED.items():
        if peekable.head.startswith(magic):
            return cast(IO[bytes], opener(peekable, "rb"))
    return cast(IO[bytes], peekable)


@contextlib.contextmanager
def complaining(name: str) -> Iterator[None]:
    """Turn what goes wrong inside a compressed file into a sentence that names it."""
    try:
        yield
    except EOFError as error:
        raise UserError(f"{name} ends in the middle of its compressed data: it was not copied whole.") from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise UserError(f"{name} is damaged: {error}. Fetch it again.") from error


def lines(stream: IO[bytes], *, longest: int = LONGEST_LINE) -> Iterator[Line]:
    """The lines of a text, without their line feeds. The last need not have one."""
    begun = b""  # of the line that the next block goes on with
    too_long = False
    while block := stream.read(BLOCK):
        first, *others = block.split(b"\n")
        begun = b"" if too_long else begun + first
        too_long = too_long or len(begun) > longest
        if not others:
            begun = b"" if too_long else begun
            continue
        yield None if too_long else begun
        *whole, begun = others
        for line in whole:
            yield None if len(line) > longest else line
        too_long = len(begun) > longest
    if begun or too_long:
        yield None if too_long else begun


def lines_of(stream: IO[bytes], name: str) -> Iterator[Line]:
    """The lines of a text that may be compressed."""
    with complaining(name):
        yield from lines(plain(stream, name))


def text_of(line: bytes) -> str:
    """The line as text on one line. UnicodeDecodeError if it is not UTF-8."""
    return line.decode("utf-8").removeprefix(BYTE_ORDER_MARK).strip()


def fault(source: Line, target: Line) -> str:
    """Why a pair cannot be kept, or ''."""
    if source is None or target is None:
        return "line over 64 KiB"
    if b"\0" in source or b"\0" in target:
        return "NUL character"
    return ""


def align(sources: Iterator[Line], targets: Iterator[Line], tally: Tally) -> Iterator[tuple[str, str]]:
    """Every pair that can be kept, in order. `tally` says what became of the others.

    A different number of lines on the two sides is refused when the shorter one ends.
    """
    missing = object()
    for number, (source, target) in enumerate(zip_longest(sources, targets, fillvalue=missing), start=1):
        if source is missing or target is missing:
            refuse_unequal(number, sources, targets, source is missing, tally.sides)
        source, target = cast(Line, source), cast(Line, target)
        tally.read = number
        reason = fault(source, target)
        if not reason:
            try:
                pair = text_of(cast(bytes, source)), text_of(cast(bytes, target))
            except UnicodeDecodeError:
                reason = "not UTF-8"
            else:
                reason = "" if pair[0] and pair[1] else "empty line"
        if reason:
            tally.drop(reason, number, source, target)
            continue
        if len(pair[0].splitlines()) > 1 or len(pair[1].splitlines()) > 1:  # ten times as fast as the pattern
            pair = BREAKS.sub(" ", pair[0]), BREAKS.sub(" ", pair[1])
            tally.repaired += 1
        tally.kept += 1
        yield pair


def refuse_unequal(
    number: int, sources: Iterator[Line], targets: Iterator[Line], source_ended: bool, sides: tuple[str, str]
) -> NoReturn:
    rest = sum(1 for _ in (targets if source_ended else sources))
    counts = (number - 1, number + rest) if source_ended else (number + rest, number - 1)
    raise UserError(
        f"{sides[0]} has {counts[0]:,} lines and {sides[1]} has {counts[1]:,}. Line N of one must translate line N of "
        "the other: look for a line that is missing or cut in two."
    )
