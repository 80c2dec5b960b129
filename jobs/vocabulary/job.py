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
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow.compute as pc
import ray
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from jobs.configs import Resources, VocabularyConfig
from jobs.corpora import pair_files
from jobs.errors import UserError
from jobs.events import Facts, Log, Note, Progress
from jobs.storage.artifacts import Artifact
from jobs.vocabulary.stage import THREADS, VOCABULARY
from transformer.config import END, PAD, START, SUBWORDS, UNKNOWN
from transformer.subwords import BOUNDARY

LISTING = "subwords.vocab"
COVERAGE = 0.99999  # of the text's characters have a subword of their own; the rest is spelt in bytes
TOO_LARGE = re.compile(r"too high \(\d+\)\. Please set it to a value <= (\d+)")
TOO_SMALL = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")


def run(config: VocabularyConfig, *, corpora: Artifact, out: Artifact, on: Resources, log: Log) -> Facts:
    """Learn the subwords from a seeded sample of the pairs."""
    started = time.monotonic()
    largest = max(node["Resources"].get("CPU", 1.0) for node in ray.nodes() if node["Alive"])
    cpus = min(VOCABULARY.demand(on).cpus, max(1.0, largest))  # a cluster may have its nodes yet to come
    learning = ray.remote(learn).options(num_cpus=cpus).remote(config, corpora)
    while not ray.wait([learning], timeout=2)[0]:
        log(Progress(time.monotonic() - started, None, "s", f"learning {config.size:,} subwords"))
    try:
        model, listing, sampled = ray.get(learning)
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, UserError) else error) from None
    out.write_bytes(SUBWORDS, model)
    out.write_text(LISTING, listing)
    log(Note(f"{config.size:,} {config.kind} subwords learned from {sampled:,} pairs"))
    return {
        "vocabulary_size": config.size,
        "sampled_pairs": sampled,
        "kind": config.kind,
        "seconds": round(time.monotonic() - started, 1),
    }


def learn(config: VocabularyConfig, corpora: Artifact) -> tuple[bytes, str, int]:
    """The model, its subwords as text (one per line with its score), and how many pairs it was learned from."""
    counts, about = pair_files.files(corpora), corpora.read_json("about.json")
    trees = about.get("targets") == "trees"
    sides = pair_files.SIDES[:1] if trees else pair_files.SIDES
    symbols = symbols_of(sample(corpora, counts, config, ["target"]), about["tags"]) if trees else []
    words, sentences = count_words(sample(corpora, counts, config, sides))
    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=(f"{word}\t{count}" for word, count in words.items()),
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
    return model.getvalue(), "".join(lines), sentences // len(sides)


def count_words(sentences: Iterable[str]) -> tuple[Counter[str], int]:
    """How often each word occurs, and in how many sentences all of them.

    No subword spans two words, so the counts are all that SentencePiece needs: BPE learns the same from them as from
    the sentences, in memory that grows with the language and not with the text.
    """
    words: Counter[str] = Counter()
    seen = 0
    for sentence in sentences:
        words.update(sentence.split())
        seen += 1
    return words, seen


def symbols_of(targets: Iterable[str], tags: str) -> list[str]:
    """The symbols of trees: each becomes one subword, so that no model has to spell it.

    Where the words themselves stand in the tree, only its brackets are symbols: no word has one.
    """
    found = {symbol for target in targets for symbol in target.split()}
    return sorted(symbol for symbol in found if tags != "none" or symbol[0] in "()")


def sample(
    corpora: Artifact, counts: list[tuple[str, int]], config: VocabularyConfig, sides: Sequence[str] = pair_files.SIDES
) -> Iterator[str]:
    """Both sides of the sampled pairs, or one, in the order of the corpus, with little of it in memory at a time."""
    total = sum(count for _, count in counts)
    share = config.sample_pairs / total
    position, left = 0, config.sample_pairs
    for piece in pair_files.cut(counts, 50_000):
        for table in pair_files.read(corpora, piece, rows=50_000):
            numbers = np.arange(position, position + len(table), dtype=np.uint64)
            position += len(table)
            chosen = np.flatnonzero(uniform_numbers(numbers, config.seed) < share)[: max(left, 0)]
            left -= len(chosen)
            for side in sides:
                yield from pc.take(table[side], chosen).to_pylist()


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
