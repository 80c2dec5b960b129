"""Line N stays with line N: laws over thousands of hostile corpora, and each kind of hostility by name."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import tarfile
import tracemalloc
import zipfile
from collections import Counter
from collections.abc import Callable
from typing import IO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.corpora import aligned_lines
from jobs.corpora.aligned_lines import SAMPLES, Line, Tally, align, lines, lines_of
from jobs.errors import UserError

LONGEST = 60
PIECES = [
    *(
        b"",
        b" ",
        b"\t",
        b"word",
        b"x" * 70,
        b"<seg>",
        b"&lt;",
        b"\0",
        b"\r",
        b"\x0b",
        b"\x0c",
        b"\x1c",
        b"\x1d",
        b"\x1e",
    ),
    *(b"\xff", b"\xc3", b"\xed\xa0\x80"),  # not UTF-8: never, cut short, half a surrogate pair
    *(text.encode() for text in ("\ufeff", "\x85", "\u2028", "\u2029", "\u200b", "\xa0", "ä", "e\u0301", "\U0001f600")),
]


class Dripping(io.RawIOBase):
    """A stream that gives a few bytes at a time, however many are asked for."""

    def __init__(self, data: bytes, most: int) -> None:
        self.data, self.most, self.at = data, most, 0

    def read(self, size: int = -1) -> bytes:
        until = self.at + (self.most if size < 0 else min(size, self.most))
        block, self.at = self.data[self.at : until], min(until, len(self.data))
        return block


def expected(source: bytes, target: bytes) -> tuple[str, str] | str:
    """What should become of one pair, alone: the oracle has no file and so nothing to shift."""
    if len(source) > LONGEST or len(target) > LONGEST:
        return "line over 64 KiB"
    if b"\0" in source or b"\0" in target:
        return "NUL character"
    try:
        sides = [side.decode().removeprefix("\ufeff").strip() for side in (source, target)]
    except UnicodeDecodeError:
        return "not UTF-8"
    if not all(re.sub("[\u200b\u200c\u200d\u2060\ufeff\u00ad]", "", side).strip() for side in sides):
        return "empty line"
    breaks = re.compile("[\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]+")
    return breaks.sub(" ", sides[0]), breaks.sub(" ", sides[1])


hostile = st.lists(st.sampled_from(PIECES), max_size=4).map(b"".join)
corpora = st.lists(st.tuples(hostile, hostile), max_size=25)


ways_to_read = (st.booleans(), st.booleans(), st.sampled_from([1, 3, 64, 2**20]))


@settings(max_examples=200, deadline=None)
@given(corpora, *ways_to_read)
def test_every_surviving_pair_is_an_original_pair(
    corpus: list[tuple[bytes, bytes]], numbered: bool, last_feed: bool, most: int
) -> None:
    survivors_are_original(corpus, numbered, last_feed, most)


@pytest.mark.slow
@settings(max_examples=3_000, deadline=None)
@given(corpora, *ways_to_read)
def test_every_surviving_pair_is_an_original_pair_at_length(
    corpus: list[tuple[bytes, bytes]], numbered: bool, last_feed: bool, most: int
) -> None:
    survivors_are_original(corpus, numbered, last_feed, most)


def survivors_are_original(corpus: list[tuple[bytes, bytes]], numbered: bool, last_feed: bool, most: int) -> None:
    if numbered:  # so that a shift by one could not hide among equal lines
        corpus = [(b"%d %s" % (n, source), b"%d %s" % (n, target)) for n, (source, target) in enumerate(corpus)]
    sides: list[IO[bytes]] = []
    for side in zip(*corpus, strict=True) if corpus else ((), ()):
        text = b"".join(line + b"\n" for line in side)
        bare = not last_feed and side and side[-1]  # an empty line is one by its line feed alone
        sides.append(cast(IO[bytes], Dripping(text[:-1] if bare else text, most)))
    tally = Tally("fuzz")
    kept = list(align(lines(sides[0], longest=LONGEST), lines(sides[1], longest=LONGEST), tally))

    outcomes = [expected(*pair) for pair in corpus]
    assert kept == [pair for pair in outcomes if isinstance(pair, tuple)]
    assert tally.dropped == Counter(reason for reason in outcomes if isinstance(reason, str))
    assert tally.read == len(corpus)
    assert tally.kept + sum(tally.dropped.values()) == tally.read
    for source, target in kept:
        assert len(source.splitlines()) == len(target.splitlines()) == 1


@settings(max_examples=50, deadline=None)
@given(corpora, st.lists(hostile, min_size=1, max_size=5), st.booleans())
def test_unequal_sides_are_always_refused(corpus: list[tuple[bytes, bytes]], more: list[bytes], swap: bool) -> None:
    sides = [pair[0] for pair in corpus], [pair[1] for pair in corpus] + more
    source, target = sides[::-1] if swap else sides
    texts = [io.BytesIO(b"".join(line + b"\n" for line in side)) for side in (source, target)]
    with pytest.raises(UserError, match=f"has {len(source):,} lines and the target has {len(target):,}"):
        list(align(lines(texts[0]), lines(texts[1]), Tally("fuzz")))


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_compressed_text_is_read(compress: Callable[[bytes], bytes]) -> None:
    packed = compress(b"one\ntwo\n")
    assert list(lines_of(io.BytesIO(packed), "text")) == [b"one", b"two"]
    assert list(lines_of(io.BytesIO(packed * 2), "text")) == [b"one", b"two"] * 2  # files that were concatenated
    with pytest.raises(UserError, match=r"text .*(not copied whole|damaged)"):
        list(lines_of(io.BytesIO(compress(b"one\n" * 100_000)[:-9]), "text"))


def test_damaged_gzip_is_named() -> None:
    packed = bytearray(gzip.compress(b"one two three\n" * 1_000))
    packed[len(packed) // 2] ^= 0xFF
    with pytest.raises(UserError, match=r"news\.gz is damaged"):
        list(lines_of(io.BytesIO(bytes(packed)), "news.gz"))


def test_a_line_of_any_length_takes_little_memory() -> None:
    class Endless(io.RawIOBase):
        def __init__(self) -> None:
            self.blocks = 200  # megabytes, without a line feed

        def read(self, size: int = -1) -> bytes:
            self.blocks -= 1
            return b"x" * 2**20 if self.blocks > 0 else b"\nend\n" if self.blocks == 0 else b""

    tracemalloc.start()
    found: list[Line] = list(lines(cast(IO[bytes], Endless())))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [None, b"end"]
    assert peak < 8 * 2**20


def test_samples_are_few_and_fair() -> None:
    tally = Tally("corpus")
    for line in range(1, 5_001):
        tally.drop("empty line", line, b"source", b"")
    kept = [sample["line"] for sample in tally.samples["empty line"]]
    assert len(kept) == SAMPLES
    assert max(kept) > 1_000, "not just the first ones"
    assert tally.dropped["empty line"] == 5_000


def test_a_sample_shows_what_can_be_shown() -> None:
    tally = Tally("corpus")
    tally.drop("not UTF-8", 7, b"caf\xe9 " + b"x" * 999, None)
    sample = tally.samples["not UTF-8"][0]
    assert sample["source"].startswith("caf\ufffd ")
    assert len(sample["source"]) == aligned_lines.SHOWN
    assert sample["target"] == "(a very long line)"


@pytest.mark.parametrize("text", [b"BZh is a typo\nof a word\n", b"BZh9 and so on\n", b"\x1f\x8b odd\n"])
def test_text_that_begins_like_a_compressed_file_is_text(text: bytes) -> None:
    assert list(lines_of(io.BytesIO(text), "text")) == text.splitlines()


def packed_text(form: str) -> bytes:
    """Lines of text in a tar of this form, or in a zip."""
    packed, text = io.BytesIO(), b"one\ntwo\n" * 100
    if form == "zip":
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("a.en", text)
        return packed.getvalue()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo("a.en")
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))
    if form == "v7":  # without the mark at byte 257: the checksum alone tells
        header = bytearray(packed.getvalue()[:257] + bytes(255))
        header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * 32 + sum(header[156:]))
        return bytes(header) + packed.getvalue()[512:]
    return packed.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (packed_text("zip"), "zip archive"),
        (packed_text("zip")[:50], "zip archive"),
        (packed_text("tar"), "tar archive"),
        (packed_text("v7"), "tar archive"),
        (gzip.compress(packed_text("tar")), "tar archive"),
        (gzip.compress(packed_text("zip")), "zip archive"),
        (gzip.compress(gzip.compress(b"one\n")), "compressed twice"),
        (b"\x28\xb5\x2f\xfd\x04\x58and so on", "zstd archive"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "PDF"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
        ("one\n".encode("utf-32"), "iconv -f UTF-32"),
    ],
    ids=["zip", "cut zip", "tar", "v7", "tar.gz", "zip.gz", "gz.gz", "zstd", "pdf", "lfs", "utf-32"],
)
def test_an_archive_is_no_text(data: bytes, words: str) -> None:
    """A tar would be read with its first line lost and all others kept."""
    with pytest.raises(UserError, match=words):
        list(lines_of(io.BytesIO(data), "text.en"))


def test_bzip2_damage_is_a_sentence() -> None:
    packed = bytearray(bz2.compress(b"one two three\n" * 10_000))
    packed[40] ^= 0xFF
    with pytest.raises(UserError, match="damaged"):
        list(lines_of(io.BytesIO(bytes(packed)), "text.bz2"))


def tally_of(source: bytes, target: bytes) -> Tally:
    tally = Tally("text", sides=("text.en", "text.de"))
    list(align(lines(io.BytesIO(source)), lines(io.BytesIO(target)), tally))
    return tally


def test_a_text_in_another_encoding_is_refused_with_what_to_type() -> None:
    english, german = b"a cat\n" * 100, "eine Katze schläft\n".encode() * 94
    aligned_lines.require_readable(tally_of(english, german + "schläft\n".encode("latin-1") * 5 + b"\n"), 0.05)
    with pytest.raises(UserError, match=r"6 of 100 lines of text.de .*iconv -f LATIN1 -t UTF-8 text.de > text.de.utf8"):
        aligned_lines.require_readable(tally_of(english, german + "schläft\n".encode("latin-1") * 6), 0.05)
    wide = "a cat\n".encode("utf-16-le") * 100
    with pytest.raises(UserError, match=r"text.en .*iconv -f UTF-16LE"):
        aligned_lines.require_readable(tally_of(wide + b"\n", german + b"x\n" * 7), 0.05)


def test_a_dropped_line_keeps_its_place() -> None:
    tally = tally_of(b"a\n\nc\n\xff\n\xe2\x80\x8b\nf\n", b"A\nB\n\nD\nE\nF\n")
    assert tally.kept == 2
    assert tally.unpaired == [(1, "", "B"), (2, "c", ""), (3, "", "D"), (4, "\u200b", "E")]


def test_places_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aligned_lines, "UNPAIRED_BYTES", 100)
    assert tally_of(b"\n" * 50, b"x\n" * 50).unpaired is None


def test_same_text_and_line_ends_are_counted_by_side() -> None:
    tally = tally_of(b"a\r\nb\r\nsame\r\n", b"A\nB\nsame\n")
    assert (tally.same, tally.crlf, tally.repaired) == (1, [3, 0], 0)
