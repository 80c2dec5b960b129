"""The files of the stage `shards`: names and columns, for the jobs that write them and those that read them.

shards/<id>/pools/pool-00000.parquet   a row group is a micro-batch: `source`, `target`, lists of subword ids
shards/<id>/index.parquet              a row per micro-batch: where it is, its size, its digest
shards/<id>/about.json                 counts, lengths, padding
shards/<id>/dropped.json               a sample of what was dropped, by reason
shards/<id>/work/encoded/00000.arrow   a piece of the corpus, one record batch per pool; deleted at the end
shards/<id>/work/encoded/00000.json    how many pairs of it were read and dropped
"""

from __future__ import annotations

import pyarrow as pa

INDEX, ABOUT, DROPPED, POOLS = "index.parquet", "about.json", "dropped.json", "pools"
PLACE = ("pool", "row_group")  # index columns: the file and the row group of a micro-batch
SIZES = ("pairs", "source_tokens", "target_tokens", "longest_source", "longest_target")  # tokens, END counted
INDEX_SCHEMA = pa.schema(
    [
        ("pool", pa.int32()),
        ("row_group", pa.int32()),
        ("pairs", pa.int32()),
        ("source_tokens", pa.int64()),
        ("target_tokens", pa.int64()),
        ("longest_source", pa.int32()),
        ("longest_target", pa.int32()),
        ("digest", pa.string()),
    ]
)


def pool_name(pool: int) -> str:
    return f"{POOLS}/pool-{pool:05d}.parquet"


def encoded_name(piece: int) -> str:
    """In the directory `work`."""
    return f"encoded/{piece:05d}.arrow"


def counts_name(piece: int) -> str:
    """In the directory `work`; written when the piece is complete."""
    return f"encoded/{piece:05d}.json"


def id_type(vocabulary_size: int) -> pa.DataType:
    """The narrowest unsigned integer that holds every id."""
    return pa.uint16() if vocabulary_size <= 2**16 else pa.uint32()


def pool_schema(vocabulary_size: int) -> pa.Schema:
    """Of a pool: both sides of a pair as lists of ids, without END."""
    ids = pa.list_(pa.field("element", id_type(vocabulary_size), nullable=False))
    return pa.schema([pa.field("source", ids, nullable=False), pa.field("target", ids, nullable=False)])
