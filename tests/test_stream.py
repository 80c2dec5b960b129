"""The stream of micro-batches: every pair once an epoch, in a seeded order that does not depend on the workers."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs
from slow_store import SlowStore
from small_shards import small_shards

from jobs.errors import UserError
from jobs.shards.layout import pool_name
from jobs.storage import artifacts
from jobs.storage.artifacts import Artifact
from jobs.train import local_copies, pool_files
from jobs.train.local_copies import LocalCopies
from jobs.train.plan import Plan, assign_by_cost, micro_batches_per_update
from jobs.train.stream import STORE_READERS, Reader, Stream, prefetch, ragged, read_ahead, read_index
from jobs.train.worker import refuse_too_long
from transformer.config import ModelConfig, TrainingConfig


@pytest.fixture
def shards(tmp_path: Path) -> Artifact:
    return small_shards(tmp_path / "shards", pools=4)


def test_an_epoch_is_a_permutation_and_the_next_is_another(shards: Artifact) -> None:
    stream = Stream(read_index(shards), seed=1, per_update=5)
    first, second = ([stream.row(p) for p in range(start, start + 12)] for start in (0, 12))
    assert sorted(first) == sorted(second) == list(range(12))
    assert first != second
    assert first != [Stream(stream.index, seed=2, per_update=5).row(p) for p in range(12)]


def test_updates_follow_each_other_without_gap_or_overlap(shards: Artifact) -> None:
    stream = Stream(read_index(shards), seed=1, per_update=5)
    taken = [position for update in range(1, 8) for position in stream.positions(update)]
    assert taken == list(range(35))
    assert stream.rows(3).tolist() == [stream.row(p) for p in range(10, 15)]


def test_a_micro_batch_is_what_the_file_holds(shards: Artifact) -> None:
    index = read_index(shards)
    reader = Reader(shards, index)
    for row in range(len(index)):
        made = reader.read(row)
        assert made.source_BS.shape == (index.pairs[row], index.longest_source[row])
        assert made.target_in_BT.shape == (index.pairs[row], index.longest_target[row])
        assert made.target_tokens == index.target_tokens[row]
        assert made.source_rows.real == index.source_tokens[row]
        assert made.gold_N[: int(index.longest_target[row])].min() >= 3
    reader.close()


def test_few_footers_are_kept_parsed_and_all_pools_are_read(shards: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_files, "PARSED_FOOTERS", 1)
    index = read_index(shards)
    reader = Reader(shards, index)
    tokens = [reader.read(row).target_tokens for row in (0, 11, 1, 10)]
    assert tokens == index.target_tokens[[0, 11, 1, 10]].tolist()
    assert reader.files._parsed.cache_info().currsize == 1


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, shards: Artifact) -> SlowStore:
    """The shards of these tests, at s3://bucket/shards, where requests are counted."""
    made = SlowStore()
    system = fs.PyFileSystem(made)
    monkeypatch.setattr(pool_files, "filesystem", lambda artifact, name: (system, f"{shards.uri}/{name}"))
    return made


def test_a_micro_batch_is_one_request_to_the_store(store: SlowStore, shards: Artifact) -> None:
    index, rows = read_index(shards), [row for _ in range(10) for row in range(12)]
    at_store = Artifact("s3://bucket/shards")
    found = list(read_ahead(at_store, index, rows))
    assert store.requests == len(rows) + 2 * 4, "and two for every pool: its size, and its footer"
    here = list(read_ahead(shards, index, rows))
    assert all(torch.equal(a.source_BS, b.source_BS) for a, b in zip(found, here, strict=True))
    assert all(torch.equal(a.gold_N, b.gold_N) for a, b in zip(found, here, strict=True))


def test_a_store_is_read_by_several_at_once_and_no_more_than_is_bounded(store: SlowStore, shards: Artifact) -> None:
    store.seconds = 0.01
    index, taken = read_index(shards), []
    rows = (taken.append(row) or row for row in itertools.cycle(range(12)))  # type: ignore[func-returns-value]
    with closing(read_ahead(Artifact("s3://bucket/shards"), index, rows, depth=2)) as batches:
        found = [batch.target_tokens for batch in islice(batches, 60)]
    assert found == [int(index.target_tokens[row]) for row in taken[:60]]
    assert 3 <= store.most_at_once <= STORE_READERS
    assert len(taken) <= 60 + 2 * STORE_READERS + 2 + 2
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("prefetch", "reader"))]


def test_footers_larger_than_the_first_read_are_read_whole(
    store: SlowStore, shards: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_files, "TAIL", 16)
    index = read_index(shards)
    assert Reader(Artifact("s3://bucket/shards"), index).read(5).target_tokens == index.target_tokens[5]
    assert store.requests == 4


def test_what_was_copied_is_not_asked_of_the_store(
    store: SlowStore, shards: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, copies = read_index(shards), LocalCopies(shards, tmp_path)
    names = [pool_name(pool) for pool in (0, 1)]
    copies.copy(names[:1], threading.Event())
    reader = Reader(Artifact("s3://bucket/shards"), index, copies)
    in_first, in_second = index.pool.tolist().index(0), index.pool.tolist().index(1)
    assert reader.read(in_first).target_tokens == index.target_tokens[in_first]
    assert store.requests == 0
    assert reader.read(in_second).target_tokens == index.target_tokens[in_second]
    assert store.requests == 3
    monkeypatch.setattr(local_copies, "FREE_SHARE", 1.0)
    copies.copy(names, threading.Event())
    assert copies.find(names[1]) is None, "the disk has no room"
    monkeypatch.setattr(local_copies, "FREE_SHARE", 0.0)
    held = artifacts.store("").try_lock(str(copies.directory / "lock"))
    assert held is not None
    copies.copy(names, threading.Event())
    assert copies.find(names[1]) is None, "another process copies"
    held.release()
    copies.copy(names, threading.Event())
    assert reader.read(in_second).target_tokens == index.target_tokens[in_second]
    assert store.requests == 3


def test_slices_of_an_arrow_list_keep_their_own_rows() -> None:
    column = pa.chunked_array([pa.array([[1], [2, 3], [], [4]], pa.list_(pa.uint16())).slice(1)])
    made = ragged(column)
    assert made.values.tolist() == [2, 3, 4]
    assert made.offsets.tolist() == [0, 2, 2, 3]


def test_reading_ahead_keeps_the_order_and_stops_when_told(shards: Artifact) -> None:
    index = read_index(shards)
    rows = [3, 1, 7, 7, 0]
    found = [batch.target_tokens for batch in read_ahead(shards, index, rows)]
    assert found == index.target_tokens[rows].tolist()
    endless = read_ahead(shards, index, (0 for _ in iter(int, 1)), depth=2)
    next(endless)
    endless.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "prefetch"]


def test_what_goes_wrong_ahead_is_said_in_its_place() -> None:
    def make() -> Generator[int]:
        yield 1
        raise ValueError("torn file")

    items = prefetch(make, depth=4)
    assert next(items) == 1
    with pytest.raises(ValueError, match="torn file"):
        next(items)


@given(st.lists(st.floats(1, 10), min_size=1, max_size=40), st.integers(1, 9))
def test_workers_share_an_update_without_gap_or_overlap(work: list[float], workers: int) -> None:
    hands = assign_by_cost(work, workers)
    assert sorted(place for hand in hands for place in hand) == list(range(len(work)))
    assert all(hand == sorted(hand) for hand in hands)
    loads = [sum(work[place] for place in hand) for hand in hands]
    assert max(loads) - min(loads) <= max(work) + 1e-9  # nobody could hand one on and be better off
    assert len(work) < workers or all(hands)


def test_like_work_is_dealt_in_like_numbers_and_evened_out() -> None:
    work = np.random.default_rng(1).normal(1, 0.04, (500, 8))
    dealt = [assign_by_cost(update.tolist(), 2) for update in work]
    assert all(len(hand) == 4 for hands in dealt for hand in hands)
    slowest = [max(update[hand].sum() for hand in hands) for update, hands in zip(work, dealt, strict=True)]
    in_turn = [max(update[0::2].sum(), update[1::2].sum()) for update in work]
    assert np.mean(slowest) < 1.004 * work.sum(axis=1).mean() / 2
    assert np.mean(in_turn) > 1.01 * work.sum(axis=1).mean() / 2


def test_tokens_of_an_update_in_whole_micro_batches() -> None:
    assert micro_batches_per_update(25_000, 3_125) == 8
    assert micro_batches_per_update(2_048, 1_024) == 2
    assert micro_batches_per_update(100, 3_125) == 1


def test_missing_and_empty_shards_are_refused_with_a_sentence(tmp_path: Path, shards: Artifact) -> None:
    with pytest.raises(UserError, match=r"no shards at .*nowhere"):
        read_index(Artifact(str(tmp_path / "nowhere")))
    store = Path(shards.uri) / "index.parquet"
    pq.write_table(pq.read_table(store).slice(0, 0), store)
    with pytest.raises(UserError, match="empty"):
        read_index(shards)


def test_sentences_longer_than_a_learned_table_are_refused(shards: Artifact) -> None:
    plan = Plan(
        model=ModelConfig(positions="learned", max_positions=4), training=TrainingConfig(), vocabulary_size=24,
        per_update=1, shards=shards, dev=shards, run=shards, threads=1, precision="fp32",
        compile=False,
    )  # fmt: skip
    longest = read_index(shards).longest
    assert longest > 4
    with pytest.raises(UserError, match=rf"longest sentence has {longest} subwords and model.max_positions=4"):
        refuse_too_long(plan, longest)
    refuse_too_long(replace(plan, model=ModelConfig(max_positions=4)), longest)


def test_padding_counts_both_rectangles(shards: Artifact) -> None:
    index = read_index(shards)
    assert (index.padded_tokens >= index.source_tokens + index.target_tokens).all()
    assert np.array_equal(index.padded_tokens, index.pairs * (index.longest_source + index.longest_target))
