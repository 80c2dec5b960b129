"""The same weights in CTranslate2, an engine we did not write, say the same words."""

from __future__ import annotations

import gzip
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_model import SHAPE, learned_directory, random_directory, source_lines

from jobs.errors import UserError
from jobs.translate import ctranslate2
from transformer.config import ModelConfig, SearchConfig
from transformer.translator import Translator

pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")


def words(texts: list[str], directory: Path, search: SearchConfig) -> tuple[list[str], list[str]]:
    ours = Translator.load(directory).translate(texts, search)
    theirs = ctranslate2.CTranslate2Translator.load(directory, threads=1).translate(texts, search)
    for text, one, other in zip(texts, ours, theirs, strict=True):
        limit = len(text.split()) + search.extra_length
        if one.tokens < limit:  # at the limit the two are known to differ
            assert one.score == pytest.approx(other.score, abs=2e-3)
    return [found.text for found in ours], [found.text for found in theirs]


@pytest.mark.parametrize(
    "config",
    [SHAPE, replace(SHAPE, norm="pre", tied_embeddings=False), replace(SHAPE, positions="learned", num_heads=2)],
    ids=["paper", "pre-norm, three embeddings", "learned positions"],
)
def test_forced_through_the_same_words_both_engines_give_the_same_probabilities(
    config: ModelConfig, tmp_path: Path
) -> None:
    """Of every part of the model: the probability that each engine gives to each of our subwords."""
    directory = random_directory(tmp_path / "model", config)
    translator = Translator.load(directory)
    engine = ctranslate2.CTranslate2Translator.load(directory, threads=1).engine
    sources, targets = source_lines(8, seed=5), source_lines(8, seed=6)
    pieces = [[translator.subwords.pieces(translator.subwords.encode(t)) for t in side] for side in (sources, targets)]
    theirs = engine.score_batch(*pieces)
    ours = translator.forced(sources, targets)
    for score, result in zip(ours, theirs, strict=True):
        assert len(result.log_probs) == score.tokens
        assert sum(result.log_probs) == pytest.approx(score.log_probability, rel=1e-4)


def test_a_translation_does_not_depend_on_its_neighbours(tmp_path: Path) -> None:
    """Random weights hardly ever say END, so the limit of length decides, and it is each sentence's own."""
    engine = ctranslate2.CTranslate2Translator.load(random_directory(tmp_path / "model"), threads=1)
    texts, search = source_lines(30, seed=7, longest=12), SearchConfig(beam=3, extra_length=3)
    together = [found.text for found in engine.translate(texts, search)]
    assert together == [engine.translate([text], search)[0].text for text in texts]


@pytest.mark.parametrize("engine", [Translator, ctranslate2.CTranslate2Translator])
def test_a_text_without_end_is_refused_in_words(engine: Any, tmp_path: Path) -> None:
    translator = engine.load(random_directory(tmp_path / "model"))
    with pytest.raises(
        ValueError, match=r"'kaba kaba .*has \d,\d+ subwords, and at most 4,095 .* cut it into sentences"
    ):
        translator.translate(["kaba", "kaba " * 5_000])


def test_an_exported_directory_needs_nothing_else(tmp_path: Path) -> None:
    model = random_directory(tmp_path / "model")
    ctranslate2.to_ctranslate2(model, tmp_path / "exported")
    assert not [file for file in tmp_path.iterdir() if file.name not in ("model", "exported")], "no draft is left"
    texts, search = ["kaba lori minono", ""], SearchConfig(beam=2, extra_length=5)
    exported = ctranslate2.CTranslate2Translator.load(tmp_path / "exported", threads=1).translate(texts, search)
    direct = ctranslate2.CTranslate2Translator.load(model, threads=1).translate(texts, search)
    assert exported == direct
    assert exported[1].text == ""


def test_a_model_that_ctranslate2_cannot_hold_is_refused(tmp_path: Path) -> None:
    narrow = random_directory(tmp_path / "model", replace(SHAPE, d_k=8, d_v=16))
    with pytest.raises(UserError, match=r"d_k=8.*cannot be exported"):
        ctranslate2.to_ctranslate2(narrow, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_a_directory_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a model directory"):
        ctranslate2.to_ctranslate2(tmp_path, tmp_path / "exported")


def test_without_ctranslate2_a_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctranslate2, "ctranslate2", None)
    with pytest.raises(UserError, match="CTranslate2 is not installed"):
        ctranslate2.CTranslate2Translator.load(tmp_path)


@pytest.mark.slow
def test_a_learned_model_says_the_same_words_in_both_engines(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = learned_directory(tmp_path_factory.getbasetemp())
    texts = source_lines(200, seed=31, longest=5)
    for search in (SearchConfig(extra_length=10), SearchConfig(beam=1, extra_length=10)):
        ours, theirs = words(texts, directory, search)
        different = [i for i, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
        translator = Translator.load(directory)
        at_limit = [i for i in different if translator.translate([texts[i]], search)[0].tokens >= 8]
        assert different == at_limit, "only a translation at the limit of its length may differ"
        assert len(at_limit) <= 2


@pytest.mark.slow
def test_a_real_model_says_the_same_words_in_both_engines(real_text: Path) -> None:
    """Set ATTN_TEST_MODEL to a model directory trained on real English-German text to try it on 1,000 sentences."""
    if "ATTN_TEST_MODEL" not in os.environ:
        pytest.skip("no real model: set ATTN_TEST_MODEL to a model directory to try it")
    with gzip.open(real_text / "multi30k" / "test_2016_flickr.en.gz", "rt", encoding="utf-8", newline="\n") as file:
        texts = file.read().split("\n")[:1000]
    ours, theirs = words(texts, Path(os.environ["ATTN_TEST_MODEL"]), SearchConfig())
    assert sum(one == other for one, other in zip(ours, theirs, strict=True)) >= 999
