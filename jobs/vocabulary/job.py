"""Learn one subword vocabulary for both languages (section 5.1: BPE of 37,000 for En-De, 32,000 for En-Fr).

Reads   corpora/<id>/pairs/*.parquet      Writes  vocabulary/<id>/subwords.model, subwords.vocab

The same corpus, config and seed give the same bytes on any machine: the sample is chosen by the number of the pair,
and SentencePiece always works with `THREADS` threads (its unigram sums, and a note in the model, depend on them).
"""

from __future__ import annotations

import io
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from jobs.cluster.one_task import unwrapped_refusals
from jobs.cluster.ray_map import limit
from jobs.configs import Resources, VocabularyConfig
from jobs.corpora import pair_files
from jobs.corpora.pair_rows import NUMBER, numbered_pairs, numbered_tables
from jobs.errors import UserError
from jobs.events import Facts, Log, Note, Progress
from jobs.storage.artifacts import Artifact
from jobs.vocabulary.stage import THREADS, VOCABULARY
from transformer.config import END, PAD, START, SUBWORDS, UNKNOWN
from transformer.subwords import BOUNDARY

LISTING = "subwords.vocab"
PIECE_PAIRS = 50_000  # pairs whose words one task counts, at least
MOST_PIECES = 256  # more would be as many tables of words to add up
COUNTED = pa.schema([("side", pa.string()), ("word", pa.string()), ("count", pa.int64())])
COVERAGE = 0.99999  # of the text's characters have a subword of their own; the rest is spelt in bytes
TOO_LARGE = re.compile(r"too high \(\d+\)\. Please set it to a value <= (\d+)")
TOO_SMALL = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")


def run(config: VocabularyConfig, *, corpora: Artifact, out: Artifact, on: Resources, log: Log) -> Facts:
    """Learn the subwords from a seeded sample of the pairs."""
    started = time.monotonic()
    files = pair_files.files(corpora)
    sample = draw(config, sum(pairs for _, pairs in files))
    log(Progress(0, sample.pairs, "pairs", "counting words"))
    counted = count_on_cluster(sample, corpora, files, on)
    largest = max(node["Resources"].get("CPU", 1.0) for node in ray.nodes() if node["Alive"])
    cpus = min(VOCABULARY.demand(on).cpus, max(1.0, largest))  # a cluster may have its nodes yet to come
    learning = ray.remote(learn_from_counts).options(num_cpus=cpus).remote(config, corpora, counted)
    while not ray.wait([learning], timeout=2)[0]:
        log(Progress(time.monotonic() - started, None, "s", f"learning {config.size:,} subwords"))
    with unwrapped_refusals():
        model, listing = ray.get(learning)
    out.write_bytes(SUBWORDS, model)
    out.write_text(LISTING, listing)
    log(Note(f"{config.size:,} {config.kind} subwords learned from {sample.pairs:,} pairs"))
    return {
        "vocabulary_size": config.size,
        "sampled_pairs": sample.pairs,
        "kind": config.kind,
        "seconds": round(time.monotonic() - started, 1),
    }


# --- the words of a sample -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Which pairs are sampled: those whose number draws a lot below `share`, up to the number `last`."""

    pairs: int
    seed: int
    share: float
    last: int

    def of(self, table: pa.Table) -> pa.Table:
        """The sampled ones of numbered pairs."""
        numbers = table[NUMBER].to_numpy().astype(np.uint64)
        chosen = (uniform_numbers(numbers, self.seed) < self.share) & (numbers <= self.last)
        return table.filter(pa.array(chosen))


def draw(config: VocabularyConfig, total: int) -> Sample:
    """At most `sample_pairs` of `total` pairs."""
    share, left, last = config.sample_pairs / total, config.sample_pairs, total
    for first in range(0, total, 1_000_000):
        numbers = np.arange(first, min(first + 1_000_000, total), dtype=np.uint64)
        chosen = numbers[uniform_numbers(numbers, config.seed) < share][:left]
        left -= len(chosen)
        if left == 0:
            last = int(chosen[-1])
            break
    return Sample(pairs=config.sample_pairs - left, seed=config.seed, share=share, last=last)


def count_on_cluster(
    sample: Sample, corpora: Artifact, files: Sequence[tuple[str, int]], on: Resources
) -> list[ray.ObjectRef[pa.Table]]:
    """The words of the sample, by Ray Data: a table for each piece of the corpus. No text passes through the driver."""
    pieces = pair_files.cut(files, max(PIECE_PAIRS, -(-sum(pairs for _, pairs in files) // MOST_PIECES)))
    options: Any = {"batch_size": None, "batch_format": "pyarrow", "num_cpus": on.data.cpus_per_task}
    words = (
        numbered_pairs(corpora, pieces, cpus=on.data.cpus_per_task)
        .map_batches(sample.of, **options)
        .map_batches(count_words, **options)
    )
    limit(words, on.data, cpus=max(on.data.cpus_per_task, VOCABULARY.demand(on).cpus))
    counted: list[ray.ObjectRef[pa.Table]] = words.to_arrow_refs()
    return counted


def count_words(table: pa.Table) -> pa.Table:
    """How often each word occurs on each side.

    No subword spans two words, so the counts are all that SentencePiece needs: BPE learns the same from them as from
    the sentences, in memory that grows with the language and not with the text.
    """
    rows = []
    for side in pair_files.SIDES:
        words = Counter(word for sentence in table[side].to_pylist() for word in sentence.split())
        rows += [(side, word, count) for word, count in words.items()]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    return pa.table(columns, schema=COUNTED)


# --- what is learned from them ---------------------------------------------------------------------------------------


def learn(config: VocabularyConfig, corpora: Artifact) -> tuple[bytes, str, int]:
    """The model, its listing and how many pairs it was learned from: here and now, without a cluster."""
    files = pair_files.files(corpora)
    sample, first, counted = draw(config, sum(pairs for _, pairs in files)), 0, []
    for piece in pair_files.cut(files, PIECE_PAIRS):
        counted += [count_words(sample.of(table)) for table in numbered_tables(corpora, piece, first)]
        first += piece.pairs
    return *learn_from_counts(config, corpora, counted), sample.pairs


def learn_from_counts(
    config: VocabularyConfig, corpora: Artifact, counted: Iterable[pa.Table | ray.ObjectRef[pa.Table]]
) -> tuple[bytes, str]:
    """The model, and its subwords as text (one per line with its score)."""
    about = corpora.read_json("about.json")
    trees = about.get("targets") == "trees"
    words = {side: Counter[str]() for side in pair_files.SIDES}
    for each in counted:
        table = ray.get(each) if isinstance(each, ray.ObjectRef) else each
        for side, word, count in zip(*(column.to_pylist() for column in table.columns), strict=True):
            words[side][word] += count
    symbols = symbols_of(words["target"], about["tags"]) if trees else []
    learned_from = words["source"] if trees else words["source"] + words["target"]
    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=(f"{word}\t{count}" for word, count in learned_from.items()),
            input_format="tsv",
            model_writer=model,
            model_type=config.kind,
            vocab_size=config.size,
            byte_fallback=True,
            character_coverage=COVERAGE,
            pad_id=PAD,
            unk_id=UNKNOWN,
            bos_id=START,
            eos_id=END,
            num_threads=THREADS,
            minloglevel=2,
            user_defined_symbols=[BOUNDARY + symbol for symbol in symbols],
        )
    except RuntimeError as error:
        raise UserError(_sentence(config, str(error), corpora)) from None
    processor = SentencePieceProcessor(model_proto=model.getvalue())
    lines = (f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}\n" for i in range(len(processor)))
    return model.getvalue(), "".join(lines)


def symbols_of(found: Iterable[str], tags: str) -> list[str]:
    """The symbols of trees: each becomes one subword, so that no model has to spell it.

    Where the words themselves stand in the tree, only its brackets are symbols: no word has one.
    """
    return sorted(symbol for symbol in found if tags != "none" or symbol[0] in "()")


def uniform_numbers(numbers: np.ndarray, seed: int) -> np.ndarray:
    """A pseudo-random float in [0, 1) for each integer, the same on every machine and NumPy release (SplitMix64)."""
    start = np.uint64(seed * 0x632BE59BD9B4E019 % 2**64)
    mixed = (numbers + start) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53


def _sentence(config: VocabularyConfig, error: str, corpora: Artifact) -> str:
    """An error of SentencePiece as a sentence that says what to change."""
    if found := TOO_LARGE.search(error):
        return (
            f"vocabulary.size={config.size} is more than the text supports: it has at most {found[1]} subwords. "
            f"Set vocabulary.size={found[1]} or less, or give it more text."
        )
    if found := TOO_SMALL.search(error):
        return (
            f"vocabulary.size={config.size} is too small: the letters of the text and the 256 bytes alone are "
            f"{found[1]}. Set vocabulary.size to {found[1]} or more."
        )
    if "sentences_.empty()" in error:
        return f"There is no text to learn from in {corpora.at(pair_files.PAIRS)}: all lines are empty or too long."
    return f"SentencePiece could not learn {config.size} subwords from {corpora.at(pair_files.PAIRS)}: {error}"
