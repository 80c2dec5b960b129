"""The corpus in pieces, so that many can work on it at once, each with little in memory.

A piece is a stretch of rows of one `pairs/*.parquet`. How a corpus is cut into pieces decides how fast it is worked
through and how much memory that takes, never what comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.artifacts import Artifact
from jobs.errors import UserError
from jobs.object_store import filesystem

PAIRS = "pairs"
SIDES = ["source", "target"]


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Rows `first` to `first + pairs` of a file."""

    file: str
    first: int
    pairs: int


def files(corpora: Artifact) -> list[tuple[str, int]]:
    """The files of a corpus in order, and how many pairs stand in each."""
    names = [f"{PAIRS}/{name}" for name in corpora.names(PAIRS) if name.endswith(".parquet")]
    counts = []
    for name in names:
        with open_parquet(corpora, name) as file:
            counts.append(file.metadata.num_rows)
    if not sum(counts):
        raise UserError(f"There are no pairs in {corpora.at(PAIRS)}: the corpus is empty.")
    return list(zip(names, counts, strict=True))


def open_parquet(artifact: Artifact, name: str) -> pq.ParquetFile:
    system, path = filesystem(artifact, name)
    return pq.ParquetFile(path, filesystem=system)


def cut(counts: Sequence[tuple[str, int]], pairs: int) -> list[Piece]:
    """Pieces of at most `pairs` pairs, in the order of the corpus."""
    return [
        Piece(file=name, first=first, pairs=min(pairs, count - first))
        for name, count in counts
        for first in range(0, count, pairs)
    ]


def read(corpora: Artifact, piece: Piece, *, rows: int) -> Iterator[pa.Table]:
    """The pairs of a piece in order, at most `rows` at a time."""
    with open_parquet(corpora, piece.file) as file:
        start = 0
        for group in range(file.metadata.num_row_groups):
            stop = start + file.metadata.row_group(group).num_rows
            first, last = max(start, piece.first), min(stop, piece.first + piece.pairs)
            if first < last:
                table = file.read_row_group(group, columns=SIDES, use_threads=False).slice(first - start, last - first)
                for at in range(0, last - first, rows):
                    yield table.slice(at, rows)
            start = stop
