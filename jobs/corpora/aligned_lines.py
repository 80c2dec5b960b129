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
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from random import Random
from typing import IO, Any, NoReturn, cast

from jobs.errors import UserError, reason_of

LONGEST_LINE = 2**16  # bytes; a longer one is no sentence
BLOCK = 2**20
SAMPLES = 10  # kept of each reason
SHOWN = 200  # characters of a sample
UNPAIRED = "unpaired.json"  # [[line from 0, source, target], ...]: dropped lines, "" where one cannot be read
UNPAIRED_BYTES = 2**25  # of dropped lines kept with their place; a test set has far fewer
NOT_UTF_8, NUL, EMPTY = "not UTF-8", "NUL character", "empty line"
ENCODINGS = {NOT_UTF_8: "LATIN1", NUL: "UTF-16LE"}  # what a text most likely is that has many such lines

COMPRESSED: Sequence[tuple[re.Pattern[bytes], Callable[..., Any]]] = (
    (re.compile(rb"\x1f\x8b\x08"), gzip.open),
    (re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), bz2.open),  # a block, or the end of an empty file
    (re.compile(rb"\xfd7zXZ\0"), lzma.open),
)
ARCHIVES = {
    "zip": rb"PK(\x03\x04|\x05\x06)",
    "7z": rb"7z\xbc\xaf\x27\x1c",
    "rar": rb"Rar!\x1a\x07",
    "zstd": rb"\x28\xb5\x2f\xfd",
}
UTF_16, UTF_32 = rb"\xff\xfe|\xfe\xff", rb"\xff\xfe\x00\x00|\x00\x00\xfe\xff"
NO_TEXT: Sequence[tuple[re.Pattern[bytes], str]] = (  # by what it begins with; the first that fits
    (re.compile(UTF_32), "UTF-32, not UTF-8. Convert it: iconv -f UTF-32 -t UTF-8."),
    (re.compile(UTF_16), "UTF-16, not UTF-8. Convert it: iconv -f UTF-16 -t UTF-8."),
    (re.compile(rb"%PDF-\d\.\d"), "a PDF, not a text: take its sentences out first."),
    (re.compile(rb"version https://git-lfs"), "a pointer of Git LFS, not the text: `git lfs pull` fetches that."),
    *(
        (re.compile(pattern), f"a {kind} archive, or what is left of one, not a text: unpack it first.")
        for kind, pattern in ARCHIVES.items()
    ),
)
INVISIBLE = re.compile("[\\s\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]*")  # nothing that can be seen
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
    unpaired: list[tuple[int, str, str]] | None = field(default_factory=list)  # None: too many to keep
    unreadable: list[Counter[str]] = field(default_factory=lambda: [Counter(), Counter()])  # by side
    same: int = 0  # kept, with the same text on both sides
    crlf: list[int] = field(default_factory=lambda: [0, 0])  # lines that end in CR LF, by side
    kept_bytes: int = 0  # of `unpaired`

    def drop(self, reason: str, line: int, source: Line, target: Line) -> None:
        """Count it, and keep a fair sample: every dropped pair is as likely to be in it."""
        self.dropped[reason] += 1
        self._keep_place(line, source, target)
        kept = self.samples.setdefault(reason, [])
        place = len(kept)
        if place == SAMPLES:
            place = Random(f"{reason} {self.dropped[reason]}").randrange(self.dropped[reason])
            if place >= SAMPLES:
                return
        sample = {"corpus": self.name, "line": line, "source": shown(source), "target": shown(target)}
        kept[place : place + 1] = [sample]

    def _keep_place(self, line: int, source: Line, target: Line) -> None:
        """A dropped line of a test set still has its number: what can be read of it is kept, up to a limit."""
        if self.unpaired is None:
            return
        texts = readable(source), readable(target)
        self.kept_bytes += 16 + sum(map(len, texts))
        self.unpaired.append((line - 1, texts[0], texts[1]))
        if self.kept_bytes > UNPAIRED_BYTES:
            self.unpaired = None


def shown(line: Line) -> str:
    return "(a very long line)" if line is None else line[: 4 * SHOWN].decode("utf-8", errors="replace")[:SHOWN]


def readable(line: Line) -> str:
    """The line as `text_of` gives it, or nothing where it cannot be read."""
    if line is None or fault(line, b""):
        return ""
    try:
        return BREAKS.sub(" ", text_of(line))
    except UnicodeDecodeError:
        return ""


class Peekable:
    """A stream whose first bytes may be looked at before they are read."""

    def __init__(self, stream: IO[bytes], size: int = 24) -> None:
        self.stream = stream
        self.head = b""
        while len(self.head) < size and (more := stream.read(size - len(self.head))):
            self.head += more

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
    refuse_no_text(peekable.head, name)
    for pattern, opener in COMPRESSED:
        if pattern.match(peekable.head):
            return cast(IO[bytes], opener(peekable, "rb"))
    return cast(IO[bytes], peekable)


def refuse_no_text(head: bytes, name: str) -> None:
    for pattern, sentence in NO_TEXT:
        if pattern.match(head):
            raise UserError(f"{name} is {sentence}")


def refuse_packed(head: bytes, name: str) -> None:
    """What a compressed file holds may be no text either; a tar would lose its first line and keep the others."""
    refuse_no_text(head, name)
    if is_tar(head):
        raise UserError(f"{name} is a tar archive, not a text: unpack it first.")
    if any(pattern.match(head) for pattern, _ in COMPRESSED):
        raise UserError(f"{name} is compressed twice: unpack it once.")


def is_tar(head: bytes) -> bool:
    if head[257:262] == b"ustar":
        return True
    try:  # of before 1988: by its checksum
        tarfile.TarInfo.frombuf(head, "utf-8", "replace")
    except tarfile.HeaderError:
        return False
    return True


@contextlib.contextmanager
def complaining(name: str) -> Iterator[None]:
    """Turn what goes wrong inside a compressed file into a sentence that names it."""
    try:
        yield
    except EOFError as error:
        raise UserError(f"{name} ends in the middle of its compressed data: it was not copied whole.") from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise UserError(f"{name} is damaged: {error}. Fetch it again.") from error
    except OSError as error:
        if error.errno is not None:
            raise UserError(f"{name} cannot be read: {reason_of(error)}.") from error
        raise UserError(f"{name} is damaged: {str(error).lower()}. Fetch it again.") from error  # of bzip2


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
        text = Peekable(plain(stream, name), tarfile.BLOCKSIZE)
        refuse_packed(text.head, name)
        yield from lines(cast(IO[bytes], text))


def text_of(line: bytes) -> str:
    """The line as text on one line. UnicodeDecodeError if it is not UTF-8."""
    return line.decode("utf-8").removeprefix(BYTE_ORDER_MARK).strip()


def fault(source: Line, target: Line) -> str:
    """Why a pair cannot be kept, or ''."""
    if source is None or target is None:
        return "line over 64 KiB"
    if b"\0" in source or b"\0" in target:
        return NUL
    return ""


def decoded(pair: tuple[bytes, bytes]) -> tuple[tuple[str, str], str]:
    """Both sides as text, and why the pair cannot be kept, or ''."""
    try:
        texts = text_of(pair[0]), text_of(pair[1])
    except UnicodeDecodeError:
        return ("", ""), NOT_UTF_8
    return texts, EMPTY if INVISIBLE.fullmatch(texts[0]) or INVISIBLE.fullmatch(texts[1]) else ""


def align(sources: Iterator[Line], targets: Iterator[Line], tally: Tally) -> Iterator[tuple[str, str]]:
    """Every pair that can be kept, in order. `tally` says what became of the others.

    A different number of lines on the two sides is refused when the shorter one ends.
    """
    missing = object()
    pair = "", ""
    for number, (source, target) in enumerate(zip_longest(sources, targets, fillvalue=missing), start=1):
        if source is missing or target is missing:
            refuse_unequal(number, sources, targets, source is missing, tally.sides)
        source, target = cast(Line, source), cast(Line, target)
        tally.read = number
        reason = fault(source, target)
        if not reason:
            pair, reason = decoded((cast(bytes, source), cast(bytes, target)))
        if reason:
            tally.drop(reason, number, source, target)
            note_unreadable(reason, (source, target), tally)
            continue
        for side, line in enumerate((source, target)):
            tally.crlf[side] += cast(bytes, line).endswith(b"\r")
        tally.same += pair[0] == pair[1]
        if len(pair[0].splitlines()) > 1 or len(pair[1].splitlines()) > 1:  # ten times as fast as the pattern
            pair = BREAKS.sub(" ", pair[0]), BREAKS.sub(" ", pair[1])
            tally.repaired += 1
        tally.kept += 1
        yield pair


def note_unreadable(reason: str, pair: tuple[Line, Line], tally: Tally) -> None:
    """Which side it was."""
    if reason in ENCODINGS:
        for side, line in enumerate(pair):
            tally.unreadable[side][reason] += line is not None and line != b"" and readable(line) == ""


def require_readable(tally: Tally, most: float) -> None:
    """Refuse a text of which more than this share cannot be read: it has another encoding, and training would go on
    with what happens to be plain ASCII."""
    for name, faults in zip(tally.sides, tally.unreadable, strict=True):
        for reason, count in faults.items():
            if count > most * tally.read:
                encoding = ENCODINGS[reason]
                raise UserError(
                    f"{count:,} of {tally.read:,} lines of {name} cannot be read ({reason}); more than "
                    f"{100 * most:g} % is refused. If it is {encoding}, convert it: "
                    f"iconv -f {encoding} -t UTF-8 {name} > {name}.utf8"
                )


def refuse_unequal(
    number: int, sources: Iterator[Line], targets: Iterator[Line], source_ended: bool, sides: tuple[str, str]
) -> NoReturn:
    rest = sum(1 for _ in (targets if source_ended else sources))
    counts = (number - 1, number + rest) if source_ended else (number + rest, number - 1)
    raise UserError(
        f"{sides[0]} has {counts[0]:,} lines and {sides[1]} has {counts[1]:,}. Line N of one must translate line N of "
        "the other: look for a line that is missing or cut in two."
    )
