"""The same weights in Hugging Face's `transformers`, which we did not write, say the same words."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_model import SHAPE, learned_directory, random_directory, source_lines

from jobs.errors import UserError
from jobs.translate.huggingface import to_huggingface
from transformer.batching import collate
from transformer.config import START, ModelConfig, SearchConfig
from transformer.translator import Translator


def loaded(directory: Path, exported: Path) -> tuple[Any, Any]:
    """MarianMTModel and MarianTokenizer, which take seconds to import: only where a test needs them."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    to_huggingface(directory, exported)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, report = transformers.MarianMTModel.from_pretrained(exported, output_loading_info=True)
        assert not report["unexpected_keys"]
        return model.eval(), transformers.MarianTokenizer.from_pretrained(exported)


def words(texts: list[str], directory: Path, exported: Path, beam: int) -> tuple[list[str], list[str]]:
    search = SearchConfig(beam=beam, alpha=0.0)
    ours = [found.text for found in Translator.load(directory).translate(texts, search)]
    model, tokenizer = loaded(directory, exported)
    theirs: list[str] = []
    for start in range(0, len(texts), 50):
        batch = tokenizer(texts[start : start + 50], return_tensors="pt", padding=True)
        longest = batch["input_ids"].size(1) - 1 + search.extra_length
        with torch.inference_mode():
            found = model.generate(**batch, num_beams=beam, max_new_tokens=longest)
        theirs += tokenizer.batch_decode(found, skip_special_tokens=True)
    return ours, theirs


@pytest.mark.slow
@pytest.mark.parametrize("config", [SHAPE, replace(SHAPE, layers=3, num_heads=2, d_ff=96)])
def test_every_logit_is_the_same(config: ModelConfig, tmp_path: Path) -> None:
    directory = random_directory(tmp_path / "model", config)
    model, _ = loaded(directory, tmp_path / "exported")
    ours = Translator.load(directory)
    pairs = [ours.subwords.encode_all(source_lines(8, seed=seed)) for seed in (5, 6)]
    batch = collate(*pairs)
    with torch.inference_mode():
        expected = ours.model.hidden(batch.source_BS, batch.target_in_BT) @ ours.model.output_weight.T
        found = model(
            input_ids=batch.source_BS, attention_mask=batch.source_BS != 0, decoder_input_ids=batch.target_in_BT
        ).logits
    assert int(batch.target_in_BT[0, 0]) == START
    real = batch.target_in_BT != 0
    torch.testing.assert_close(found[real], expected[real], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_learned_model_says_the_same_words(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    directory = learned_directory(tmp_path_factory.getbasetemp())
    texts = source_lines(200, seed=31, longest=5)
    for beam in (1, 4):
        ours, theirs = words(texts, directory, tmp_path / f"exported-{beam}", beam)
        assert ours == theirs


@pytest.mark.slow
def test_a_model_of_the_users_says_the_same_words_on_1000_sentences(tmp_path: Path) -> None:
    """Set ATTN_TEST_MODEL to a model directory and ATTN_TEST_LINES to a file of its language."""
    if "ATTN_TEST_MODEL" not in os.environ or "ATTN_TEST_LINES" not in os.environ:
        pytest.skip("no trained model: set ATTN_TEST_MODEL to a model directory and ATTN_TEST_LINES to a text file")
    texts = Path(os.environ["ATTN_TEST_LINES"]).read_text(encoding="utf-8").split("\n")[:1000]
    ours, theirs = words(texts, Path(os.environ["ATTN_TEST_MODEL"]), tmp_path / "exported", 4)
    assert sum(one == other for one, other in zip(ours, theirs, strict=True)) >= 999


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (replace(SHAPE, norm="pre"), "norm=pre"),
        (replace(SHAPE, positions="learned"), "positions=learned"),
        (replace(SHAPE, tied_embeddings=False), "tied_embeddings=false"),
        (replace(SHAPE, d_k=8), "d_k=8"),
    ],
)
def test_a_model_that_marian_cannot_hold_is_refused(config: ModelConfig, reason: str, tmp_path: Path) -> None:
    directory = random_directory(tmp_path / "model", config)
    with pytest.raises(UserError, match=reason):
        to_huggingface(directory, tmp_path / "exported")
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_the_tokens_with_a_meaning_of_their_own_are_ours(tmp_path: Path) -> None:
    to_huggingface(random_directory(tmp_path / "model"), tmp_path / "exported")
    vocabulary = json.loads((tmp_path / "exported" / "vocab.json").read_text(encoding="utf-8"))
    config = json.loads((tmp_path / "exported" / "config.json").read_text(encoding="utf-8"))
    tokens = json.loads((tmp_path / "exported" / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert vocabulary[tokens["eos_token"]] == config["eos_token_id"]
    assert vocabulary[tokens["pad_token"]] == config["pad_token_id"]
    assert sorted(vocabulary.values()) == list(range(config["vocab_size"]))
