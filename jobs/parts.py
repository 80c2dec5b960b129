"""A corpus on disk: pairs in Parquet files of at most 200,000, with row groups small enough to read one at a time.

Writes  pairs/part-00000.parquet ...   columns `source`, `target` and, of a test set in named parts, `part`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.artifacts import Artifact

PART_PAIRS = 200_000
ROW_GROUP_PAIRS = 10_000
PARTS_OF_ONE = 1_000  # the parts of one corpus are numbered together: corpus 2 begins with part-02000
COLUMNS = ("source", "target", "part")

T = TypeVar("T")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def part_name(corpus: int, part: int) -> str:
    return f"pairs/part-{corpus * PARTS_OF_ONE + part:05d}.parquet"


def write_parts(pairs: Iterator[Sequence[str]], out: Artifact, *, corpus: int = 0, columns: int = 2) -> Iterator[int]:
    """Write the pairs and say after each row group how many it holds. A part appears when it is whole."""
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
