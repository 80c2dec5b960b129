"""Text from the command line, from standard input, or from a file: what is not UTF-8 is refused in a sentence."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable, Iterator, Sequence

from jobs.errors import UserError


def readable_words(words: Sequence[str]) -> list[str]:
    return [readable(text, number) for number, text in enumerate(words, start=1)]


def decoded_lines() -> Iterator[str]:
    """Of standard input."""
    return decoded(sys.stdin.buffer, "standard input")


def readable(text: str, number: int) -> str:
    """A word of the command line; what is no UTF-8 there reaches Python as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(f"Sentence {number} is not UTF-8.") from None
    return text


def decoded(lines: Iterable[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            sentence = f"{name[0].upper()}{name[1:]} is not UTF-8: line {number:,} cannot be read."
            wide = number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            encoding = "UTF-16" if wide else "LATIN1"
            raise UserError(f"{sentence} Convert it: iconv -f {encoding} -t UTF-8.") from None
