"""Parsing with a model directory (section 6.3): words in, trees out. Needs no cluster and no tracking.

By hand  Parser.load("model").parse([["The", "cat", "sleeps", "."]])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transformer.config import SearchConfig
from transformer.parsing.tree_symbols import rebuild
from transformer.parsing.trees import Tree, penn_word
from transformer.parsing.well_formed import TreeSymbols
from transformer.translator import Translator

SEARCH = SearchConfig(beam=21, alpha=0.3, extra_length=300, well_formed=True)  # the paper's, and well-formed


@dataclass(frozen=True)
class Parsed:
    """A tree over the words; whether the model's output had to be repaired for that, and the score it was ranked by."""

    tree: Tree
    repaired: bool
    score: float


class Parser:
    """A model that writes trees."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self.tags = TreeSymbols.of(translator.subwords).tags

    @classmethod
    def load(cls, directory: Path | str, device: str = "cpu") -> Parser:
        """ValueError, in a sentence, if the directory is no model's or the model writes no trees."""
        return cls(Translator.load(directory, device))

    def parse(self, sentences: Sequence[Sequence[str]], search: SearchConfig = SEARCH) -> list[Parsed | None]:
        """Each sentence's tree; None where there are no words."""
        sentences = [[penn_word(word) for word in words] for words in sentences]
        found = self.translator.translate([" ".join(words) for words in sentences], replace(search, n_best=1))
        parsed: list[Parsed | None] = []
        for words, output in zip(sentences, found, strict=True):
            if not words:
                parsed.append(None)
                continue
            tree, repaired = rebuild(output.text.split(), words, tags=self.tags)
            parsed.append(Parsed(tree, repaired, output.score))
        return parsed
