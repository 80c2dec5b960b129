"""Batches: nothing lost, nothing added but START, END and padding at the right."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.batching import collate
from transformer.config import END, PAD, START

SENTENCE = st.lists(st.integers(4, 50), min_size=0, max_size=8)


@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=6))
def test_rows_come_back_from_the_rectangles(pairs: list[tuple[list[int], list[int]]]) -> None:
    sources, targets = [s for s, _ in pairs], [t for _, t in pairs]
    made = collate(sources, targets)
    gold_BT = torch.full(made.target_in_BT.shape, PAD)
    gold_BT.view(-1)[made.target_rows.place_R[: made.target_tokens]] = made.gold_N
    for row, (source, target) in enumerate(pairs):
        assert made.source_BS[row].tolist() == padded([*source, END], made.source_BS.size(1))
        assert made.target_in_BT[row].tolist() == padded([START, *target], made.target_in_BT.size(1))
        assert gold_BT[row].tolist() == padded([*target, END], gold_BT.size(1))
    assert made.source_rows.real == sum(len(s) + 1 for s in sources)
    assert made.target_rows.real == made.target_tokens == sum(len(t) + 1 for t in targets)
    assert made.source_BS.size(1) == max(len(s) + 1 for s in sources)


def padded(row: list[int], width: int) -> list[int]:
    return row + [PAD] * (width - len(row))


def test_the_decoder_is_fed_what_it_said_before() -> None:
    """The gold of a position is the input of the next one."""
    made = collate([[5, 6]], [[7, 8, 9]])
    assert made.target_in_BT[0, 1:].tolist() == made.gold_N[:-1].tolist()
