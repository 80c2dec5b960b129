"""Encode the pairs and lay them out as micro-batches, once, so that training is the same on any number of workers.

Reads   corpora/<id>/pairs/*.parquet, vocabulary/<id>/subwords.model
Writes  shards/<id>/pools/pool-00000.parquet ...   a micro-batch is a row group: `source`, `target`, lists of ids
        shards/<id>/index.parquet                  a row per micro-batch: where it is, its size, its digest
        shards/<id>/about.json, dropped.json       counts, lengths, padding; a sample of what was dropped, by reason

Two passes over the data, both by Ray Data, one task at a time per CPU, neither with more than a piece of it in memory:
pieces of the corpus to pools (encode.py), pools to micro-batches (cut.py). What comes out depends on the pairs and the
config alone: not on workers, blocks, files, or the order of the corpus.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial
from hashlib import sha256
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sentencepiece import SentencePieceProcessor

from jobs.cluster.ray_map import TaskReport, map_items
from jobs.configs import Resources, ShardConfig
from jobs.corpora import pair_files
from jobs.errors import UserError
from jobs.events import Facts, Log, Note, Progress
from jobs.shards.cleaning import Dropped
from jobs.shards.cut import BIN, Pooling, make_pool
from jobs.shards.encode import Encoding, encode_piece, processor
from jobs.shards.language_check import SMALL_WORDS
from jobs.shards.layout import ABOUT, DROPPED, INDEX, INDEX_SCHEMA
from jobs.storage.artifacts import Artifact
from transformer.config import SUBWORDS

PIECE_PAIRS = 20_000  # pairs in one task of the first pass, at least
MOST_PIECES = 256  # more would make the slices that the second pass reads too small


def run(
    config: ShardConfig, *, corpora: Artifact, vocabulary: Artifact, out: Artifact, on: Resources, log: Log
) -> Facts:
    """Encode the pairs and write them as micro-batches. Facts: pairs, tokens, dropped, padding share."""
    started = time.monotonic()
    files = pair_files.files(corpora)
    encoding = plan_encoding(config, corpora, vocabulary, out.child("work"), sum(pairs for _, pairs in files))
    cut = pair_files.cut(files, max(PIECE_PAIRS, -(-sum(pairs for _, pairs in files) // MOST_PIECES)))
    dropped = encode(encoding, cut, on, log)
    subwords = processor(vocabulary, encoding.vocabulary_digest)
    pooling = Pooling(
        encoded=encoding.out,
        pieces=len(cut),
        out=out,
        vocabulary_size=len(subwords),
        micro_batch_tokens=config.micro_batch_tokens,
        seed=config.seed,
        drop_duplicates=config.cleaning.duplicates,
    )
    pools = make_pools(pooling, encoding.pools, on, log)
    dropped.merge(duplicates(pools, subwords))
    index = pa.concat_tables([report["index"] for report in pools])
    if not len(index):
        raise UserError(
            f"No pair of {corpora.uri} is left after cleaning: {in_words(dropped)}. Look at shards.cleaning."
        )
    about = describe(config, pools, index, dropped) | {"vocabulary_size": len(subwords)}
    with out.writing(INDEX) as draft:
        pq.write_table(index, draft)
    out.write_json(ABOUT, about)
    out.write_json(DROPPED, {why: [[s, t] for _, s, t in kept] for why, kept in dropped.samples.items()})
    encoding.out.delete()
    log(Note(f"{about['pairs']:,} pairs in {about['micro_batches']:,} micro-batches; dropped: {in_words(dropped)}"))
    return facts(about, time.monotonic() - started)


def plan_encoding(config: ShardConfig, corpora: Artifact, vocabulary: Artifact, work: Artifact, pairs: int) -> Encoding:
    """How many pools there are depends on the corpus alone."""
    about = corpora.read_json("about.json")
    languages = about["source_language"], about["target_language"]
    if config.cleaning.wrong_language and (unknown := [name for name in languages if name not in SMALL_WORDS]):
        raise UserError(
            f"shards.cleaning.wrong_language knows {', '.join(sorted(SMALL_WORDS))}, and not {unknown[0]}: switch it "
            "off, or add the small words of the language to jobs/shards/language_check.py."
        )
    return Encoding(
        corpora=corpora,
        vocabulary=vocabulary,
        vocabulary_digest=sha256(vocabulary.read_bytes(SUBWORDS)).hexdigest(),
        out=work,
        pools=max(1, round(pairs / config.pool_pairs)),
        seed=config.seed,
        cleaning=config.cleaning,
        source_language=languages[0],
        target_language=languages[1],
    )


def encode(encoding: Encoding, cut: Sequence[pair_files.Piece], on: Resources, log: Log) -> Dropped:
    """First pass: every piece of the corpus to the pools."""
    dropped, done, total = Dropped(), 0, sum(piece.pairs for piece in cut)
    for report in map_items(list(enumerate(cut)), partial(encode_piece, encoding), on.data):
        dropped.merge(Dropped.from_json(report["dropped"]))
        done += report["read"]
        log(Progress(done, total, "pairs", "encoding"))
    return dropped


def make_pools(pooling: Pooling, pools: int, on: Resources, log: Log) -> list[TaskReport]:
    """Second pass: every pool to micro-batches. The reports on the pools, in their order."""
    made: list[TaskReport] = []
    for report in map_items(range(pools), partial(make_pool, pooling), on.data):
        made.append(report | {"index": pa.table(report["index"], schema=INDEX_SCHEMA)})
        log(Progress(len(made), pools, "pools", "sorting and writing"))
    return sorted(made, key=lambda report: int(report["pool"]))


def duplicates(pools: Sequence[TaskReport], subwords: SentencePieceProcessor) -> Dropped:
    """The duplicates that the pools found."""
    found = Dropped()
    for report in pools:
        for pair in report["duplicate_samples"]:
            found.add("duplicate", pair["key"], subwords.decode(pair["source"]), subwords.decode(pair["target"]))
    if found.counts:
        found.counts["duplicate"] = sum(report["duplicates"] for report in pools)
    return found


def describe(config: ShardConfig, pools: Sequence[TaskReport], index: pa.Table, dropped: Dropped) -> dict[str, Any]:
    """What `about.json` says, all but the vocabulary."""
    column = {name: index[name].to_numpy() for name in index.column_names if name != "digest"}
    totals = {name: int(column[name].sum()) for name in ("pairs", "source_tokens", "target_tokens")}
    padded = [int((column["pairs"] * column[f"longest_{side}"]).sum()) for side in pair_files.SIDES]
    tokens = [totals[f"{side}_tokens"] for side in pair_files.SIDES]
    return {
        **totals,
        "micro_batches": len(index),
        "micro_batch_tokens": config.micro_batch_tokens,
        "pools": len(pools),
        "seed": config.seed,
        "padding_share": 1 - sum(tokens) / sum(padded),
        "source_padding_share": 1 - tokens[0] / padded[0],
        "target_padding_share": 1 - tokens[1] / padded[1],
        "longest_source": int(column["longest_source"].max()),
        "longest_target": int(column["longest_target"].max()),
        "dropped": dict(sorted(dropped.counts.items())),
        "lengths": {
            "bin": BIN,
            **{side: added(report[f"{side}_lengths"] for report in pools) for side in pair_files.SIDES},
        },
    }


def added(histograms: Iterable[list[int]]) -> list[int]:
    return [sum(counts) for counts in zip_longest(*histograms, fillvalue=0)]


def in_words(dropped: Dropped) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in dropped.counts.most_common()) or "nothing"


def facts(about: dict[str, Any], seconds: float) -> Facts:
    names = (
        "pairs", "micro_batches", "pools", "source_tokens", "target_tokens", "padding_share", "source_padding_share",
        "target_padding_share", "longest_source", "longest_target", "vocabulary_size",
    )  # fmt: skip
    dropped = about["dropped"]
    return {
        **{name: about[name] for name in names},
        "dropped": sum(dropped.values()),
        **{f"dropped_{reason.replace(' ', '_')}": count for reason, count in dropped.items()},
        "pairs_per_second": round((about["pairs"] + sum(dropped.values())) / seconds),
        "seconds": round(seconds, 1),
    }
