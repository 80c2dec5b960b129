"""A corpus on disk: pairs in Parquet files of at most 200,000, with row groups small enough to read one at a time.

Writes and reads  pairs/part-00000.parquet ...   columns `source`, `target` and, of a test set in named parts, `part`;
                  of trees also `tree`, in Penn brackets with the tags that the target may lack

A `Piece` is a stretch of rows of one file, so that many tasks can work on a corpus at once, each with little in memory.
How a corpus is cut into pieces decides how fast it is worked through and how much memory that takes, never what comes
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.errors import UserError
from jobs.storage.artifacts import Artifact
from jobs.storage.object_store import filesystem

PAIRS = "pairs"
SIDES = ["source", "target"]
COLUMNS = (*SIDES, "part", "tree")
PART_PAIRS = 200_000
ROW_GROUP_PAIRS = 10_000
PARTS_OF_ONE = 1_000  # the parts of one corpus are numbered together: corpus 2 begins with part-02000

T = TypeVar("T")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


# --- writing -------------------------------------------------------------------------------------------------------


def part_name(corpus: int, part: int) -> str:
    return f"{PAIRS}/part-{corpus * PARTS_OF_ONE + part:05d}.parquet"


def write_parts(
    pairs: Iterator[Sequence[str | None]], out: Artifact, *, corpus: int = 0, columns: int = 2
) -> Iterator[int]:
    """Write the pairs; yields the number of pairs of each row group. A part appears when it is whole."""
    schema = pa.schema([(name, pa.string()) for name in COLUMNS[:columns]])
    groups = batches(pairs, ROW_GROUP_PAIRS)
    for part, first in enumerate(groups):
        with (
            out.writing(part_name(corpus, part)) as draft,
            pq.ParquetWriter(draft, schema, compression="zstd", use_dictionary=columns > 2) as writer,
        ):
            for group in chain([first], islice(groups, PART_PAIRS // ROW_GROUP_PAIRS - 1)):
                writer.write_table(pa.table([list(column) for column in zip(*group, strict=True)], schema=schema))
                yield len(group)


# --- reading -------------------------------------------------------------------------------------------------------


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


def read(corpora: Artifact, piece: Piece, *, rows: int, columns: Sequence[str] = SIDES) -> Iterator[pa.Table]:
    """The pairs of a piece in order, at most `rows` at a time; nulls for a column that the file lacks."""
    with open_parquet(corpora, piece.file) as file:
        start = 0
        there = [name for name in columns if name in file.schema_arrow.names]
        for group in range(file.metadata.num_row_groups):
            stop = start + file.metadata.row_group(group).num_rows
            first, last = max(start, piece.first), min(stop, piece.first + piece.pairs)
            if first < last:
                table = file.read_row_group(group, columns=there, use_threads=False).slice(first - start, last - first)
                for name in columns:
                    if name not in there:
                        table = table.append_column(name, pa.nulls(len(table), pa.string()))
                for at in range(0, last - first, rows):
                    yield table.slice(at, rows)
            start = stop
