"""The pairs of a corpus as rows of a Ray Data dataset, each with its number: what `read_parquet` cannot give.

A pair's number is its place in the corpus, from 0. It is what a sample is drawn by, and what a line of a test set is
known by. So the rows come from a source of our own that reads a piece of a file in each task (pair_files.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import ray.data
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from jobs.corpora import pair_files
from jobs.storage.artifacts import Artifact

NUMBER = "number"
ROWS = 10_000  # in a block that a task hands on


def numbered_pairs(
    corpora: Artifact, pieces: Sequence[pair_files.Piece], *, columns: Sequence[str] = pair_files.SIDES, cpus: float = 1
) -> ray.data.Dataset:
    """All pairs, a task for each piece: `number` and `columns` (null where a file has no such column)."""
    source: Any = PairsSource(corpora, pieces, columns)
    pairs: ray.data.Dataset = ray.data.read_datasource(source, override_num_blocks=len(pieces), num_cpus=cpus)
    return pairs


class PairsSource(Datasource):
    """A read task for each piece."""

    def __init__(self, corpora: Artifact, pieces: Sequence[pair_files.Piece], columns: Sequence[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.corpora, self.pieces, self.columns = corpora, pieces, columns

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        tasks, first = [], 0
        for piece in self.pieces:
            read: Any = partial(numbered_tables, self.corpora, piece, first, self.columns)
            about = BlockMetadata(num_rows=piece.pairs, size_bytes=None, input_files=(piece.file,), exec_stats=None)
            tasks.append(ReadTask(read, about, per_task_row_limit=per_task_row_limit))
            first += piece.pairs
        return tasks


def numbered_tables(
    corpora: Artifact, piece: pair_files.Piece, first: int, columns: Sequence[str] = pair_files.SIDES
) -> Iterator[pa.Table]:
    """The pairs of one piece, whose first one has the number `first`."""
    for table in pair_files.read(corpora, piece, rows=ROWS, columns=columns):
        numbers = pa.array(range(first, first + len(table)), pa.int64())
        first += len(table)
        yield table.add_column(0, NUMBER, numbers)
