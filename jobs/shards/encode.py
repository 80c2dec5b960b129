"""Pairs to subword ids, each sent to its pool: the first half of `shards`, one piece of the corpus at a time.

A pool is chosen by a keyed hash of the pair's text. So a pool is a random sample of the corpus, equal pairs meet in
the same pool, and neither the order nor the cutting of the corpus changes what stands in a pool.

Reads   corpora/<id>/pairs/*.parquet
Writes  shards/<id>/work/encoded/<piece>.arrow, one record batch per pool; <piece>.json, its counts
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
from sentencepiece import SentencePieceProcessor

from jobs.configs import CleaningConfig
from jobs.corpora import pair_files
from jobs.shards.cleaning import Dropped, Refuses, refusals, tidy
from jobs.shards.layout import counts_name, encoded_name, id_type, pool_schema
from jobs.storage.artifacts import Artifact
from transformer.config import SUBWORDS

ROWS = 10_000  # pairs as Python objects at a time
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """The parameters of `encode_piece`."""

    corpora: Artifact
    vocabulary: Artifact
    vocabulary_digest: str  # so that a worker's cached model is never that of another run
    out: Artifact
    pools: int
    seed: int
    cleaning: CleaningConfig
    source_language: str
    target_language: str


@lru_cache(maxsize=2)
def processor(vocabulary: Artifact, digest: str) -> SentencePieceProcessor:
    """The subword model, loaded once in each worker process."""
    return SentencePieceProcessor(model_proto=vocabulary.read_bytes(SUBWORDS))


def encode_piece(encoding: Encoding, numbered: tuple[int, pair_files.Piece]) -> dict[str, Any]:
    """Clean, encode and sort by pool the pairs of one piece; returns how many were read, and what was dropped.

    The counts are written after the piece: a run that was stopped goes on with the pieces that have none.
    """
    number, piece = numbered
    if encoding.out.exists(counts_name(number)):
        found: dict[str, Any] = encoding.out.read_json(counts_name(number))
        return found
    dropped = Dropped()
    refuse = refusals(encoding.cleaning, encoding.source_language, encoding.target_language)
    tables = pair_files.read(encoding.corpora, piece, rows=ROWS)
    pairs = pa.concat_batches([encode_rows(encoding, table, refuse, dropped) for table in tables])
    pool = pairs["key"].to_numpy() % np.uint64(encoding.pools)
    pairs = pairs.take(pa.array(np.argsort(pool, kind="stable")))
    ends = np.cumsum(np.bincount(pool.astype(np.int64), minlength=encoding.pools)).tolist()
    with (
        encoding.out.writing(encoded_name(number)) as draft,
        pa.OSFile(str(draft), "wb") as file,
        pa.ipc.new_file(file, pairs.schema) as writer,
    ):
        for first, last in zip([0, *ends], ends, strict=False):
            writer.write_batch(pairs.slice(first, last - first))
    counts = {"read": piece.pairs, "dropped": dropped.as_json()}
    encoding.out.write_json(counts_name(number), counts)
    return counts


def encode_rows(
    encoding: Encoding, table: pa.Table, refuse: list[tuple[str, Refuses]], dropped: Dropped
) -> pa.RecordBatch:
    """The pairs that stay, as ids, with their keys."""
    model = processor(encoding.vocabulary, encoding.vocabulary_digest)
    sources, targets = keep_clean(encoding, table, refuse, dropped)
    keys = pair_keys(sources, targets, encoding.seed)
    ids = (model.encode(side, return_type="numpy", num_threads=1) for side in (sources, targets))
    sides = [lists_of(side, len(model)) for side in ids]
    longest = encoding.cleaning.max_subwords
    lengths = [np.diff(side.offsets.to_numpy()) for side in sides]
    fits = (lengths[0] <= longest) & (lengths[1] <= longest)
    stays = fits & (lengths[0] > 0) & (lengths[1] > 0)
    for at in map(int, np.flatnonzero(~stays)):
        dropped.add("empty" if fits[at] else "too many subwords", int(keys[at]), sources[at], targets[at])
    columns = pool_schema(len(model)).append(pa.field("key", pa.uint64()))
    encoded = pa.record_batch([*sides, pa.array(keys)], schema=columns)
    return encoded if stays.all() else encoded.filter(pa.array(stays))


def keep_clean(
    encoding: Encoding, table: pa.Table, refuse: list[tuple[str, Refuses]], dropped: Dropped
) -> tuple[list[str], list[str]]:
    """Both sides of the pairs that the text itself gives no reason to drop, tidied."""
    sources, targets = [], []
    for raw_source, raw_target in zip(table["source"].to_pylist(), table["target"].to_pylist(), strict=True):
        source, target = tidy(raw_source, encoding.cleaning), tidy(raw_target, encoding.cleaning)
        for reason, refuses in refuse:
            if refuses(source, target):
                dropped.add(reason, pair_key(source, target, encoding.seed), source, target)
                break
        else:
            sources.append(source)
            targets.append(target)
    return sources, targets


def pair_key(source: str, target: str, seed: int) -> int:
    return int(pair_keys([source], [target], seed)[0])


def pair_keys(sources: list[str], targets: list[str], seed: int) -> Array:
    """64 bits for each pair, of its text and the seed alone."""
    hasher = blake2b(digest_size=8, key=str(seed).encode())
    digests = []
    for source, target in zip(sources, targets, strict=True):
        pair = hasher.copy()
        pair.update(f"{source}\0{target}".encode())
        digests.append(pair.digest())
    return np.frombuffer(b"".join(digests), dtype="<u8")


def lists_of(ids: list[Array], vocabulary_size: int) -> pa.ListArray:
    """Arrow lists from flat arrays: far cheaper than from Python's lists."""
    kind = id_type(vocabulary_size)
    offsets = np.zeros(len(ids) + 1, dtype=np.int32)
    np.cumsum([len(one) for one in ids], out=offsets[1:])
    values = np.concatenate(ids) if ids else np.zeros(0, dtype=np.int32)
    flat = pa.array(values.astype(kind.to_pandas_dtype()))
    return pa.ListArray.from_arrays(pa.array(offsets), flat, type=pool_schema(vocabulary_size).field("source").type)
