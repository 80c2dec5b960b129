"""Tokens as rows: all real ones, in order, none twice; and no gradient from padding or spare rows."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.unpadded import ROUND, Rectangle, Unpadded

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=12)


def of(lengths: list[int]) -> Unpadded:
    return Unpadded.of(np.arange(max(lengths))[None, :] < np.array(lengths)[:, None])


@settings(max_examples=60, deadline=None)
@given(lengths=LENGTHS)
def test_rows_are_the_real_tokens_in_order(lengths: list[int]) -> None:
    rows, wide = of(lengths), max(lengths)
    real = [sentence * wide + position for sentence, length in enumerate(lengths) for position in range(length)]
    assert rows.place_R[: rows.real].tolist() == real
    positions_BT = torch.arange(wide).expand(len(lengths), -1)
    assert rows.pack(positions_BT)[: rows.real].tolist() == [place % wide for place in real]
    assert len(rows.place_R) % ROUND == 0
    assert len(rows.place_R) - rows.real < ROUND


@settings(max_examples=60, deadline=None)
@given(lengths=LENGTHS, seed=st.integers(0, 99))
def test_a_rectangle_comes_back(lengths: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    rows = of(lengths)
    x_BTD = torch.randn(len(lengths), max(lengths), 3)
    again_BTD = rows.unpack(rows.pack(x_BTD))
    real_BT = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    assert torch.equal(again_BTD[real_BT], x_BTD[real_BT])


@settings(max_examples=60, deadline=None)
@given(lengths=LENGTHS, seed=st.integers(0, 99))
def test_gradients_go_to_real_tokens_only(lengths: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    rows = of(lengths)
    real_BT = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    x_BTD = torch.randn(len(lengths), max(lengths), 3, requires_grad=True)
    grad_RD = torch.randn(len(rows.place_R), 3)
    (found_BTD,) = torch.autograd.grad(rows.pack(x_BTD), x_BTD, grad_RD)
    assert torch.equal(found_BTD[real_BT], grad_RD[: rows.real])
    assert not found_BTD[~real_BT].any()
    x_RD = torch.randn(len(rows.place_R), 3, requires_grad=True)
    grad_BTD = torch.randn(len(lengths), max(lengths), 3)
    (found_RD,) = torch.autograd.grad(rows.unpack(x_RD), x_RD, grad_BTD)
    assert torch.equal(found_RD[: rows.real], grad_BTD[real_BT])
    assert not found_RD[rows.real :].any()


@settings(max_examples=20, deadline=None)
@given(sentences=st.integers(1, 5), length=st.integers(1, 9))
def test_a_full_rectangle_is_packed_the_same_either_way(sentences: int, length: int) -> None:
    """Where nothing is padded, both kinds of rows are the places in order; a `Rectangle` adds no spare ones."""
    rows, unpadded = Rectangle(sentences, length), of([length] * sentences)
    x_BTD = torch.randn(sentences, length, 3)
    assert torch.equal(rows.pack(x_BTD), unpadded.pack(x_BTD)[: unpadded.real])
    assert torch.equal(rows.unpack(rows.pack(x_BTD)), x_BTD)
    assert rows.pack(x_BTD).data_ptr() == x_BTD.data_ptr()
