"""A model directory put to use: lines stay lines, neighbours do not matter, and attention maps are distributions."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_model import learned_directory, random_directory, source_lines, target_line

from transformer.config import MODEL_FILES, SearchConfig
from transformer.translator import Translator, length_batches

QUICK = SearchConfig(beam=2, extra_length=4)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_directory(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def translator(directory: Path) -> Translator:
    return Translator.load(directory)


@given(lengths=st.lists(st.integers(1, 40)), batch_tokens=st.integers(1, 100))
def test_batches_hold_every_sentence_once_and_no_more_than_their_tokens(lengths: list[int], batch_tokens: int) -> None:
    batches = length_batches(lengths, batch_tokens)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) * max(lengths[place] for place in batch) <= batch_tokens or len(batch) == 1
    order = [lengths[place] for batch in batches for place in batch]
    assert order == sorted(order, reverse=True)


def test_translations_come_in_the_order_of_the_texts_and_blank_stays_blank(translator: Translator) -> None:
    texts = ["kaba lori", "", "minono terel sundru kaba", "  "]
    found = translator.translate(texts, QUICK)
    assert [translation.text for translation in found][1::2] == ["", ""]
    assert found[1].tokens == 0
    for text, translation in zip(texts, found, strict=True):
        (alone,) = translator.translate([text], QUICK)
        assert (alone.text, alone.tokens) == (translation.text, translation.tokens)


def test_alternatives_are_as_many_as_asked_for_best_first(translator: Translator) -> None:
    (found,) = translator.translate(["kaba lori"], SearchConfig(beam=4, n_best=3, extra_length=4))
    assert len(found.alternatives) == 3
    assert (found.text, found.score) == (found.alternatives[0].text, found.alternatives[0].score)
    scores = [alternative.score for alternative in found.alternatives]
    assert scores == sorted(scores, reverse=True)


def test_a_translation_is_one_line(translator: Translator) -> None:
    newline = translator.subwords.encode("kaba\u2028")[:-1]
    ids = [*newline, *(i for i in range(len(translator.subwords)) if translator.subwords.pieces([i]) == ["<0x0A>"])]
    assert "\n" in translator.subwords.decode(ids)
    assert "\n" not in translator.text(ids)


def test_forced_scores_give_perplexity(translator: Translator) -> None:
    sources = source_lines(5)
    targets = [target_line(line) for line in sources]
    scores = translator.forced(sources, targets)
    assert [score.tokens for score in scores] == [len(translator.subwords.encode(line)) + 1 for line in targets]
    assert all(math.isfinite(score.log_probability) and score.log_probability < 0 for score in scores)


@pytest.mark.parametrize("target_text", [None, "abak irol"])
def test_attention_maps_are_distributions(translator: Translator, target_text: str | None) -> None:
    maps = translator.attention("kaba lori", target_text)
    source, target = len(maps.source_tokens), len(maps.target_tokens)
    assert maps.source_tokens[-1] == "</s>"
    assert maps.target_tokens[0] == "<s>"
    for layers, shape in ((maps.encoder, (4, source, source)), (maps.decoder, (4, target, target)),
                          (maps.cross, (4, target, source))):  # fmt: skip
        assert len(layers) == 2
        for layer in layers:
            assert layer.shape == shape
            torch.testing.assert_close(layer.sum(dim=-1), torch.ones(shape[:2]))
    assert all(float(layer.triu(1).abs().max()) == 0 for layer in maps.decoder), "no target position sees its future"
    if target_text is not None:
        assert translator.subwords.text_of(maps.target_tokens[1:]) == target_text


def test_weights_of_another_model_are_refused(directory: Path, tmp_path: Path) -> None:
    for name in MODEL_FILES:
        (tmp_path / name).write_bytes((directory / name).read_bytes())
    about = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    about["model"]["layers"] = 3
    (tmp_path / "config.json").write_text(json.dumps(about), encoding="utf-8")
    with pytest.raises(ValueError, match="another model"):
        Translator.load(tmp_path)


def test_a_vocabulary_that_does_not_fit_is_refused(translator: Translator) -> None:
    model = type(translator.model)(translator.model.config, 7)
    with pytest.raises(ValueError, match="do not belong together"):
        Translator(model, translator.subwords)


@pytest.mark.slow
def test_a_learned_model_says_the_same_in_any_company(tmp_path_factory: pytest.TempPathFactory) -> None:
    """It has learned its task, and no batch size, order or padding changes a word of what it says."""
    translator = Translator.load(learned_directory(tmp_path_factory.getbasetemp()))
    texts = source_lines(120, seed=21, longest=6)
    alone = [translator.translate([text])[0] for text in texts]
    right = sum(found.text == target_line(text) for text, found in zip(texts, alone, strict=True))
    assert right > 60
    rng = random.Random(1)
    for batch_tokens in (15, 100, 10_000):
        translator.batch_tokens = batch_tokens
        order = rng.sample(range(len(texts)), len(texts))
        together = translator.translate([texts[i] for i in order])
        assert [found.text for found in together] == [alone[i].text for i in order]
        assert [found.score for found in together] == pytest.approx([alone[i].score for i in order], abs=1e-4)
