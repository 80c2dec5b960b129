"""Subwords: the fixed first ids, and text that comes back as it went in."""

from __future__ import annotations

import io
import pickle
import random
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.config import END, PAD, START, UNKNOWN
from transformer.subwords import Subwords


def train(pad: int = PAD, unk: int = UNKNOWN, bos: int = START, eos: int = END) -> bytes:
    rng = random.Random(1)
    syllables = ["ka", "lo", "mi", "ter", "sun", "ba", "ri", "no", "el", "dru"]
    lines = [" ".join("".join(rng.choices(syllables, k=rng.randint(1, 3))) for _ in range(6)) for _ in range(300)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=320, model_type="bpe", byte_fallback=True,
        pad_id=pad, unk_id=unk, bos_id=bos, eos_id=eos, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    return model.getvalue()


@pytest.fixture(scope="module")
def model() -> bytes:
    return train()


@pytest.fixture(scope="module")
def subwords(model: bytes) -> Subwords:
    return Subwords(model)


@settings(max_examples=50)
@given(words=st.lists(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1), max_size=8))
def test_nothing_is_unknown(subwords: Subwords, words: list[str]) -> None:
    """Bytes stand in for what the vocabulary has never seen."""
    ids = subwords.encode(" ".join(words))
    assert UNKNOWN not in ids
    assert not {PAD, START, END} & set(ids)
    again = subwords.encode(subwords.decode(ids))
    assert subwords.decode(again) == subwords.decode(ids)


def test_text_comes_back(subwords: Subwords) -> None:
    text = "kalo miter ß 漢 sunba"
    assert subwords.decode(subwords.encode(text)) == text


def test_many_are_each_one_alone(subwords: Subwords) -> None:
    texts = ["kalo", "", "miter sunba rino"]
    assert subwords.encode_all(texts, threads=2) == [subwords.encode(text) for text in texts]
    assert [subwords.decode(ids) for ids in subwords.encode_all(texts)] == texts


def test_an_empty_text_has_no_subwords(subwords: Subwords) -> None:
    assert subwords.encode("") == []
    assert subwords.decode([]) == ""


def test_survives_pickling_and_a_file(model: bytes, subwords: Subwords, tmp_path: Path) -> None:
    (tmp_path / "subwords.model").write_bytes(model)
    text = "dru el kalo"
    for copy in (pickle.loads(pickle.dumps(subwords)), Subwords.load(tmp_path / "subwords.model")):
        assert copy.encode(text) == subwords.encode(text)
        assert len(copy) == len(subwords)


def test_pieces_spell_the_text(subwords: Subwords) -> None:
    assert "".join(subwords.pieces(subwords.encode("kalo miter"))).replace("▁", " ").strip() == "kalo miter"


def test_a_model_with_other_ids_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the ids pad, unk, bos, eos"):
        Subwords(train(pad=3, eos=0))


def test_bytes_that_are_no_model_are_refused() -> None:
    with pytest.raises(ValueError, match="no SentencePiece model"):
        Subwords(b"not a model")
