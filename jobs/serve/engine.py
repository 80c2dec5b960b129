"""A model at work in a replica: batches of sentences, a search shown step by step, and attention. Knows no Ray.

Our own engine is always loaded, because only it shows its attention and its search; where CTranslate2 was chosen, that
translates the batches.

Reads  a model directory (config.json, model.safetensors, subwords.model)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from jobs.average.model_files import require_model_files
from jobs.errors import UserError
from jobs.serve.search_steps import SearchSteps
from jobs.serve.settings import TREES, ServedModel
from jobs.serve.trees import TreeTranslator
from jobs.storage.artifacts import Artifact
from jobs.translate.ctranslate2 import CTranslate2Translator
from transformer import beam
from transformer.config import SUBWORDS, SearchConfig
from transformer.parsing.parser import SEARCH
from transformer.parsing.well_formed import TreeSymbols
from transformer.subwords import Subwords
from transformer.translator import Alternative, TranslatesText, Translator

SMALLEST = 8  # tokens that a sentence counts at least: one word costs a search, too


@dataclass(frozen=True)
class Work:
    """Sentences to translate together, and how; `size` is their source tokens, END counted."""

    sentences: tuple[str, ...]
    search: SearchConfig
    size: int


@dataclass(frozen=True)
class Done:
    """The `n_best` translations of each sentence of a work. The first work of a batch says how large the batch was."""

    alternatives: tuple[tuple[Alternative, ...], ...]
    source_tokens: int
    batch_sentences: int | None


class Engine:
    """One model, loaded. Not for two threads at once."""

    def __init__(self, model: ServedModel, threads: int, batch_tokens: int, device: str = "cpu") -> None:
        torch.set_num_threads(max(1, threads))
        with Artifact(model.directory).directory() as directory:  # a copy, if it lies on an object store
            self.translator = load(directory, device, batch_tokens)
            self.parser = TreeTranslator(self.translator) if model.parses else None
            self.batches: TranslatesText = self.parser or self.translator
            if model.engine != "torch":
                self.batches = load_ctranslate2(directory, model.engine, threads, batch_tokens)

    def size(self, sentences: Sequence[str]) -> int:
        """What sentences count in a batch."""
        return sum(max(SMALLEST, len(ids) + 1) for ids in self.translator.subwords.encode_all(sentences))

    def translate(self, works: Sequence[Work]) -> list[Done]:
        """Works of one batch; those that are searched in the same way are searched together."""
        sentences = sum(len(work.sentences) for work in works)
        by_search: dict[SearchConfig, list[int]] = defaultdict(list)
        for place, work in enumerate(works):
            by_search[work.search].append(place)
        done: list[Done | None] = [None] * len(works)
        for search, places in by_search.items():
            texts = [text for place in places for text in works[place].sentences]
            found = iter(self.batches.translate(texts, search))
            for place in places:
                alternatives = tuple(next(found).alternatives for _ in works[place].sentences)
                done[place] = Done(alternatives, works[place].size, None if place else sentences)
        return [each for each in done if each is not None]

    def searched(
        self, sentence: str, search: SearchConfig, on_words: Callable[[str], None] | None
    ) -> tuple[tuple[Alternative, ...], list[list[dict[str, Any]]]]:
        """The translations of one sentence, and every step of the search for them."""
        text = self.parser.read(sentence) if self.parser else sentence
        ids = self.translator.subwords.encode(text)
        if not ids:
            return (Alternative("", 0.0, 0),), []
        steps = SearchSteps(self.translator.subwords, search.beam, on_words)
        trees = self.parser.trees(text) if self.parser and search.well_formed else None
        (found,) = beam.search(self.translator.model, [ids], search, watch=steps, trees=trees)
        translation = self.translator.translation(found)
        if self.parser:
            translation = self.parser.in_brackets(text, translation)
        return translation.alternatives, steps.steps

    def attention(self, source: str, target: str | None) -> dict[str, Any]:
        """Who looks at whom: tokens, and weights as [layer][head][query][key] in thousandths."""
        if self.parser:
            target = self.parser.written(target or self.parser.translate([source], SEARCH)[0].text)
            source = self.parser.read(source)
        maps = self.translator.attention(source, target)
        kinds = {"encoder": maps.encoder, "decoder": maps.decoder, "cross": maps.cross}
        return {
            "source": maps.source_tokens,
            "target": maps.target_tokens,
            **{name: [(layer * 1000).round().int().tolist() for layer in layers] for name, layers in kinds.items()},
        }


def check(model: ServedModel) -> None:
    """Load a model once where a sentence can still be read: a replica could only fail again and again."""
    with Artifact(model.directory).directory() as directory:
        load(directory)


def with_kind(model: ServedModel) -> ServedModel:
    """The same model; one that writes trees, which its vocabulary says, is a parser, and our engine's."""
    try:
        TreeSymbols.of(Subwords(Artifact(model.directory).read_bytes(SUBWORDS)))
    except ValueError:
        return model
    return replace(model, target=TREES, engine="torch")


def load(directory: Path, device: str = "cpu", batch_tokens: int = 2_000) -> Translator:
    """The model of a directory, or a sentence on what is wrong with it."""
    require_model_files(directory)
    try:
        return Translator.load(directory, device, batch_tokens)
    except (ValueError, RuntimeError, OSError, SafetensorError) as error:
        raise UserError(f"The model in {directory} is damaged: {str(error).splitlines()[0]}") from error


def load_ctranslate2(directory: Path, name: str, threads: int, batch_tokens: int) -> TranslatesText:
    compute_type = "int8" if name == "ctranslate2-int8" else "float32"
    engine = CTranslate2Translator.load(directory, threads=threads, compute_type=compute_type)
    engine.batch_tokens = batch_tokens
    return engine
