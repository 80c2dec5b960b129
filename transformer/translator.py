"""Translation with a model directory: text in, text out, and its attention weights. Needs no cluster and no tracking.

Reads  config.json, model.safetensors, subwords.model      By hand  Translator.load("model").translate(["A sentence."])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from transformer import beam
from transformer.beam import Forced, Hypothesis, Trees
from transformer.config import END, START, UNKNOWN, SearchConfig
from transformer.loading import load_model, load_subwords
from transformer.model import Transformer, attention_maps
from transformer.parsing.well_formed import TreeSymbols, sentences
from transformer.subwords import Subwords

BATCH_TOKENS = 2_000
LONGEST = 4_096  # subwords of a text, END counted: attention over more would take gigabytes


@dataclass(frozen=True)
class Alternative:
    """One translation: its text, the score it was ranked by, its number of subwords."""

    text: str
    score: float
    tokens: int


@dataclass(frozen=True)
class Translation:
    """The best translation of a text, and the `n_best` of the search: `alternatives[0]` is the best one again."""

    text: str
    score: float
    tokens: int
    alternatives: tuple[Alternative, ...]

    @classmethod
    def of(cls, alternatives: Sequence[Alternative]) -> Translation:
        best = alternatives[0]
        return cls(best.text, best.score, best.tokens, tuple(alternatives))


EMPTY = Translation.of([Alternative("", 0.0, 0)])  # the translation of a blank text


class TranslatesText(Protocol):
    """What every engine does, ours and CTranslate2's."""

    def translate(self, texts: Sequence[str], search: SearchConfig | None = None) -> list[Translation]: ...


@dataclass(frozen=True)
class AttentionMaps:
    """Attention weights of one sentence pair. Rows are queries and sum to one, columns are keys.

    The source's tokens end with END. The target's are what the decoder reads: START, then the translation.
    """

    source_tokens: list[str]
    target_tokens: list[str]
    encoder: list[Tensor]  # for each layer (H, S, S)
    decoder: list[Tensor]  # (H, T, T)
    cross: list[Tensor]  # (H, T, S)


def length_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Indices of sentences to batch: of similar length, at most `batch_tokens` with padding; longest first."""
    batches: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda place: (-lengths[place], place)):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= batch_tokens:
            batches[-1].append(place)
        else:
            batches.append([place])
    return batches


def require_length(texts: Sequence[str], sources: Sequence[Sequence[int]]) -> None:
    """Refuse a text that is longer than a sentence, or even a page, can be."""
    for text, ids in zip(texts, sources, strict=True):
        if len(ids) + 1 > LONGEST:
            raise ValueError(
                f"The text that begins {text[:30]!r} has {len(ids):,} subwords, and at most {LONGEST - 1:,} are "
                f"translated at once: cut it into sentences, one a line"
            )


class Translator:
    """A trained model with its subwords. A text's translation does not depend on the texts beside it."""

    def __init__(self, model: Transformer, subwords: Subwords, batch_tokens: int = BATCH_TOKENS) -> None:
        if model.vocabulary_size < len(subwords):
            raise ValueError(
                f"The model knows {model.vocabulary_size} subwords and its vocabulary has {len(subwords)}: "
                f"they do not belong together"
            )
        self.model = model.eval()
        self.subwords = subwords
        self.batch_tokens = batch_tokens

    @classmethod
    def load(cls, directory: Path | str, device: str = "cpu", batch_tokens: int = BATCH_TOKENS) -> Translator:
        """ValueError, in a sentence, if anything is wrong with the directory."""
        directory = Path(directory)
        return cls(load_model(directory).to(device), load_subwords(directory), batch_tokens)

    def translate(self, texts: Sequence[str], search: SearchConfig | None = None) -> list[Translation]:
        """Each text's translation, in the order of the texts. A blank text stays blank."""
        sources = self.subwords.encode_all(texts)
        require_length(texts, sources)
        full = [text for text, ids in zip(texts, sources, strict=True) if ids]
        found = self.search([ids for ids in sources if ids], search or SearchConfig(), full)
        results = iter(found)
        return [self.translation(next(results)) if ids else EMPTY for ids in sources]

    def search(
        self, sources: Sequence[Sequence[int]], search: SearchConfig, texts: Sequence[str] = ()
    ) -> list[list[Hypothesis]]:
        """The `n_best` hypotheses of each source, as subword ids; well-formed trees need its text, too."""
        symbols = TreeSymbols.of(self.subwords) if search.well_formed else None
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for places in length_batches([len(ids) + 1 for ids in sources], self.batch_tokens):
            trees = None
            if symbols is not None:
                trees = Trees(symbols, sentences(symbols, [texts[place] for place in places], self.subwords))
            chosen = [sources[place] for place in places]
            for place, hypotheses in zip(places, beam.search(self.model, chosen, search, trees=trees), strict=True):
                found[place] = hypotheses
        return found

    def translation(self, hypotheses: Sequence[Hypothesis]) -> Translation:
        return Translation.of([Alternative(self.text(h.ids), h.score, len(h.ids)) for h in hypotheses])

    def text(self, ids: Sequence[int]) -> str:
        """One line, whatever the bytes of a vocabulary with byte fallback may spell."""
        known = [i if i < len(self.subwords) else UNKNOWN for i in ids]  # a table may have more rows than subwords
        return self.subwords.decode(known).replace("\r", " ").replace("\n", " ")

    def forced(self, sources: Sequence[str], targets: Sequence[str]) -> list[Forced]:
        """The model's probability of given translations; tokens count END."""
        source_ids, target_ids = self.subwords.encode_all(sources), self.subwords.encode_all(targets)
        scored: list[Forced] = [Forced(0.0, 0)] * len(source_ids)
        lengths = [max(len(s), len(t)) + 1 for s, t in zip(source_ids, target_ids, strict=True)]
        for places in length_batches(lengths, self.batch_tokens):
            chosen = beam.forced(self.model, [source_ids[p] for p in places], [target_ids[p] for p in places])
            for place, score in zip(places, chosen, strict=True):
                scored[place] = score
        return scored

    def attention(self, text: str, target_text: str | None = None) -> AttentionMaps:
        """Attention weights on `text` with `target_text`, or with the model's own translation if none is given."""
        source = [*self.subwords.encode(text), END]
        if target_text is None:
            (hypotheses,) = beam.search(self.model, [source[:-1]], SearchConfig())
            target_ids = list(hypotheses[0].ids)
        else:
            target_ids = self.subwords.encode(target_text)
        target = [START, *target_ids]
        device = self.model.output_weight.device
        maps = attention_maps(self.model, torch.tensor([source], device=device), torch.tensor([target], device=device))
        encoder, decoder, cross = ([layer[0].cpu() for layer in side] for side in maps)
        return AttentionMaps(self.subwords.pieces(source), self.subwords.pieces(target), encoder, decoder, cross)
