"""Micro-batches: a permutation of the corpus, the same for any cutting and any workers, with little padding."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_corpus import HERE, SMALL, invent, read_pairs, write_corpus, write_vocabulary

from jobs.configs import CleaningConfig, DataResources, Resources, ShardConfig
from jobs.corpora import pair_files
from jobs.errors import UserError
from jobs.shards import cut, encode, job, layout
from jobs.shards.encode import pair_keys
from jobs.storage.artifacts import Artifact
from transformer.config import ModelConfig
from transformer.flops import training_flops
from transformer.subwords import Subwords

SHARDS = ShardConfig(micro_batch_tokens=500, pool_pairs=250)
Pair = tuple[str, str]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    directory = tmp_path_factory.mktemp("vocabulary")
    return write_vocabulary(directory / "v", write_corpus(directory / "c", invent(600)))


def make(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    vocabulary: Artifact,
    pairs: Sequence[Pair],
    config: ShardConfig = SHARDS,
    **layout: int,
) -> Artifact:
    """The whole job, its tasks done here one after the other and not by Ray."""
    monkeypatch.setattr(job, "map_items", lambda items, act, _: map(act, items))
    corpora = write_corpus(directory / "corpora", list(pairs), **layout)
    out = Artifact(str(directory / "out"))
    job.run(config, corpora=corpora, vocabulary=vocabulary, out=out, on=HERE, log=lambda _: None)
    return out


def pairs_of(shards: Artifact, vocabulary: Artifact) -> list[Pair]:
    subwords = Subwords(vocabulary.read_bytes("subwords.model"))
    tables = [pq.read_table(shards.at(f"pools/{name}")) for name in shards.names("pools")]
    return [
        (subwords.decode(source), subwords.decode(target))
        for table in tables
        for source, target in zip(table["source"].to_pylist(), table["target"].to_pylist(), strict=True)
    ]


def content(shards: Artifact) -> dict[str, bytes]:
    return {name: shards.read_bytes(name) for name in shards.names()}


def test_the_shards_are_a_permutation_of_the_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: Artifact
) -> None:
    pairs = invent(1000, seed=3)
    shards = make(tmp_path, monkeypatch, vocabulary, pairs)
    found = pairs_of(shards, vocabulary)
    assert Counter(found) == Counter(pairs)
    assert found != pairs
    assert shards.read_json("about.json")["pools"] == 4
    assert shards.names() == ["about.json", "dropped.json", "index.parquet", *(layout.pool_name(i) for i in range(4))]


def test_the_index_says_what_stands_in_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: Artifact
) -> None:
    shards = make(tmp_path, monkeypatch, vocabulary, invent(1000, seed=3))
    index = pq.read_table(shards.at("index.parquet")).to_pylist()
    assert [(row["pool"], row["row_group"]) for row in index] == sorted((r["pool"], r["row_group"]) for r in index)
    for row in index:
        file = pq.ParquetFile(shards.at(layout.pool_name(row["pool"])))
        batch = file.read_row_group(row["row_group"]).to_pydict()
        lengths = {side: [len(ids) + 1 for ids in batch[side]] for side in pair_files.SIDES}
        assert row["pairs"] == len(batch["source"])
        for side in pair_files.SIDES:
            assert (row[f"{side}_tokens"], row[f"longest_{side}"]) == (sum(lengths[side]), max(lengths[side]))
    assert len(index) == sum(
        pq.ParquetFile(shards.at(layout.pool_name(pool))).num_row_groups for pool in {row["pool"] for row in index}
    )
    about = shards.read_json("about.json")
    assert about["micro_batches"] == len(index)
    assert about["target_tokens"] == sum(row["target_tokens"] for row in index)
    assert sum(about["lengths"]["source"]) == sum(about["lengths"]["target"]) == about["pairs"] == 1000
    assert len({row["digest"] for row in index}) == len(index)


def test_micro_batches_stand_in_a_random_order_that_the_seed_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: Artifact
) -> None:
    config = replace(SHARDS, micro_batch_tokens=100, pool_pairs=1000)
    shards = make(tmp_path, monkeypatch, vocabulary, invent(1000, seed=3), config)
    longest = pq.read_table(shards.at("index.parquet"))["longest_target"].to_numpy()
    assert len(longest) > 200
    assert abs(np.corrcoef(longest[1:], longest[:-1])[0, 1]) < 0.25
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.25
    names = [f"{number:032x}" for number in range(9)]
    assert sorted(names, key=lambda name: cut.random_order(name, 1)) != sorted(
        names, key=lambda n: cut.random_order(n, 2)
    )


def test_neither_order_nor_files_nor_pieces_change_a_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: Artifact
) -> None:
    pairs = [*invent(600, seed=3), *invent(50, seed=3)]
    shuffled = random.Random(9).sample(pairs, k=len(pairs))
    once = make(tmp_path / "a", monkeypatch, vocabulary, pairs, files=1)
    monkeypatch.setattr(job, "PIECE_PAIRS", 37)
    monkeypatch.setattr("jobs.shards.encode.ROWS", 10)
    again = make(tmp_path / "b", monkeypatch, vocabulary, shuffled, files=3, row_group=100)
    assert content(once) == content(again)
    other = make(tmp_path / "c", monkeypatch, vocabulary, pairs, replace(SHARDS, seed=2))
    assert Counter(pairs_of(other, vocabulary)) == Counter(pairs)
    assert content(other) != content(once)


def test_equal_pairs_meet_and_only_one_stays_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: Artifact
) -> None:
    pairs = invent(500, seed=3)
    doubled = [*pairs, *pairs[:100], *pairs[:40], (pairs[0][0], pairs[1][1])]
    kept = make(tmp_path / "kept", monkeypatch, vocabulary, doubled)
    assert Counter(pairs_of(kept, vocabulary)) == Counter(doubled)
    config = replace(SHARDS, cleaning=CleaningConfig(duplicates=True))
    shards = make(tmp_path / "once", monkeypatch, vocabulary, doubled, config)
    assert Counter(pairs_of(shards, vocabulary)) == Counter(set(doubled))
    assert shards.read_json("about.json")["dropped"] == {"duplicate": 140}
    assert {tuple(pair) for pair in shards.read_json("dropped.json")["duplicate"]} <= set(pairs[:100])


def test_pairs_with_equal_keys_are_only_dropped_if_they_are_equal(vocabulary: Artifact) -> None:
    ids = pa.array([[5, 6], [5, 6], [5, 7]], type=layout.pool_schema(400).field("source").type)
    same = pa.record_batch([ids, ids, pa.array([1, 1, 1], type="uint64")], names=["source", "target", "key"])
    assert cut.distinct(same).tolist() == [True, False, True]


def test_a_stopped_run_goes_on_with_the_pieces_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: Artifact
) -> None:
    pairs = [*invent(600, seed=3), ("", "x")]
    encoded, original, stop_at = list[int](), encode.encode_rows, [0]

    def encode_rows(*arguments: Any) -> Any:
        encoded.append(1)
        if len(encoded) == stop_at[0]:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(job, "PIECE_PAIRS", 100)
    monkeypatch.setattr("jobs.shards.encode.encode_rows", encode_rows)
    whole = make(tmp_path / "whole", monkeypatch, vocabulary, pairs)
    stop_at[0] = len(encoded) + 5
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "stopped", monkeypatch, vocabulary, pairs)
    stopped, corpora = Artifact(str(tmp_path / "stopped/out")), Artifact(str(tmp_path / "stopped/corpora"))
    job.run(SHARDS, corpora=corpora, vocabulary=vocabulary, out=stopped, on=HERE, log=lambda _: None)
    assert stop_at[0] < len(encoded) < stop_at[0] + (stop_at[0] - 5), "what was whole is not encoded again"
    assert content(stopped) == content(whole)


def test_what_cannot_be_trained_on_is_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: Artifact
) -> None:
    good = invent(100, seed=3, longest=10)
    bad = [("", "x"), ("x", " \u2003 "), ("pa " * 300, "x"), ("x", "pa " * 300), ("x", "\u200b")]
    config = replace(SHARDS, cleaning=CleaningConfig(max_subwords=200))
    shards = make(tmp_path, monkeypatch, vocabulary, [*bad, *good], config)
    assert Counter(pairs_of(shards, vocabulary)) == Counter(good)
    assert shards.read_json("about.json")["dropped"] == {"empty": 3, "too many subwords": 2}
    samples = shards.read_json("dropped.json")
    assert sorted(map(len, samples["too many subwords"])) == [2, 2]
    assert ["", "x"] in samples["empty"]


def test_a_corpus_of_which_nothing_is_left_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: Artifact
) -> None:
    with pytest.raises(UserError, match=r"No pair of .* is left after cleaning: 7 empty\."):
        make(tmp_path, monkeypatch, vocabulary, [("", "x")] * 7)
    with pytest.raises(UserError, match="There are no pairs"):
        make(tmp_path / "b", monkeypatch, vocabulary, [])


def test_ids_are_as_narrow_as_the_vocabulary_allows() -> None:
    assert str(layout.pool_schema(65_536).field("source").type) == "list<element: uint16 not null>"
    assert str(layout.pool_schema(65_537).field("source").type) == "list<element: uint32 not null>"


def test_keys_are_of_the_text_and_the_seed_and_the_same_for_ever() -> None:
    keys = pair_keys(["a", "a", "ab", "a"], ["b", "b", "", "bc"], seed=1)
    assert keys[0] == keys[1]
    assert len(set(keys.tolist())) == 3
    assert pair_keys(["a"], ["b"], seed=2)[0] != keys[0]
    assert keys[0] == 8696853814743002077


# --- cutting a pool ----------------------------------------------------------------------------------------------


def lengths_like_translations(pairs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Log-normal, and correlated as those of a real corpus are."""
    draw = np.random.default_rng(seed)
    source = np.exp(draw.normal(3.2, 0.6, pairs))
    target = source * np.exp(draw.normal(0.0, 0.2, pairs))
    return tuple(np.clip(side.round().astype(np.int64), 2, 257) for side in (source, target))  # type: ignore[return-value]


def padding(side: np.ndarray, batches: Sequence[np.ndarray]) -> float:
    return 1 - side.sum() / sum(len(batch) * side[batch].max() for batch in batches)


def test_micro_batches_are_of_one_size_and_hardly_padded() -> None:
    source, target = lengths_like_translations(100_000)
    batches = cut.micro_batches(source, target, 3125)
    assert abs(target.sum() / len(batches) / 3125 - 1) < 0.02
    both = np.array([source[batch].sum() + target[batch].sum() for batch in batches])
    assert np.percentile(both, 5) > 0.9 * both.mean()
    assert both.max() < 1.1 * both.mean()
    assert padding(source, batches) < 0.05
    assert padding(target, batches) < 0.05


def test_the_slowest_of_eight_workers_is_hardly_slower_than_the_mean() -> None:
    source, target = lengths_like_translations(100_000)
    batches = cut.micro_batches(source, target, 3125)
    work = np.array(
        [
            len(batch) * training_flops(ModelConfig(), 37_000, source=source[batch].max(), target=target[batch].max())
            for batch in batches
        ]
    )
    drawn = np.random.default_rng(1).permutation(work)[: len(work) // 8 * 8].reshape(-1, 8)
    assert drawn.max(axis=1).mean() < 1.1 * work.mean()


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(2, 300), st.integers(2, 300)), min_size=1, max_size=200),
    tokens=st.integers(16, 1000),
)
def test_every_pair_is_in_one_micro_batch_and_none_is_huge(lengths: list[tuple[int, int]], tokens: int) -> None:
    source, target = (np.array(side) for side in zip(*lengths, strict=True))
    batches = cut.micro_batches(source, target, tokens)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    share = max(1.0, source.sum() / target.sum())
    for batch in batches:
        assert len(batch) == 1 or len(batch) * target[batch].max() <= cut.PADDED * tokens
        assert len(batch) == 1 or len(batch) * source[batch].max() <= cut.PADDED * tokens * share


def test_a_pair_longer_than_a_micro_batch_stands_alone() -> None:
    batches = cut.micro_batches(np.array([5, 5, 200]), np.array([5, 5, 200]), 16)
    assert sorted(map(sorted, (batch.tolist() for batch in batches))) == [[0, 1], [2]]


# --- on Ray ------------------------------------------------------------------------------------------------------


@pytest.mark.ray
def test_one_worker_or_two_write_the_same_bytes_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: Artifact, ray_session: None
) -> None:
    pairs = invent(1000, seed=3)
    here = make(tmp_path / "here", monkeypatch, vocabulary, pairs)
    monkeypatch.undo()
    monkeypatch.setattr(job, "PIECE_PAIRS", 111)
    corpora = write_corpus(tmp_path / "corpora", pairs, files=3)
    for tasks in (1, 2):
        out, said = Artifact(str(tmp_path / f"out-{tasks}")), []
        on = Resources(data=DataResources(tasks=tasks))
        facts = job.run(SHARDS, corpora=corpora, vocabulary=vocabulary, out=out, on=on, log=said.append)
        assert content(out) == content(here)
        assert facts["pairs"] == 1000
        assert [event.done for event in said if getattr(event, "unit", "") == "pools"] == [1, 2, 3, 4]


@pytest.mark.slow
def test_shards_on_an_object_store_are_the_same_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: Artifact, bucket: str
) -> None:
    here = make(tmp_path, monkeypatch, vocabulary, invent(600, seed=3))
    inputs = {"corpora": Artifact(str(tmp_path / "corpora")), "vocabulary": vocabulary}
    there = {name: Artifact(bucket).child(name) for name in inputs}
    for name, artifact in inputs.items():
        for file in artifact.names():
            there[name].write_bytes(file, artifact.read_bytes(file))
    out = Artifact(bucket).child("shards")
    job.run(SHARDS, **there, out=out, on=HERE, log=lambda _: None)
    assert content(out) == content(here)


@pytest.mark.ray
@pytest.mark.slow
def test_real_text_is_hardly_padded(tmp_path: Path, real_text: Path, ray_session: None) -> None:
    corpora = write_corpus(tmp_path / "corpora", read_pairs(real_text / "multi30k" / "train", "en", "de"))
    vocabulary = write_vocabulary(tmp_path / "vocabulary", corpora, replace(SMALL, size=8000))
    out = Artifact(str(tmp_path / "out"))
    facts = job.run(ShardConfig(), corpora=corpora, vocabulary=vocabulary, out=out, on=HERE, log=lambda _: None)
    assert facts["pairs"] == 29_000
    assert float(facts["source_padding_share"]) < 0.05
    assert float(facts["target_padding_share"]) < 0.05
