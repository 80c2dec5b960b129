"""A parser in the service (section 6.3): a sentence is "translated" to its tree in Penn brackets.

So batches, words as they come, n-best, attention and the picture of the search are those of a translation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jobs.report.tree_pictures import tree_svg
from transformer.beam import Trees
from transformer.config import SearchConfig
from transformer.parsing.penn_words import penn_words
from transformer.parsing.tree_symbols import linearise, rebuild
from transformer.parsing.trees import Tree, penn_word, read_trees
from transformer.parsing.well_formed import TreeSymbols, sentences
from transformer.translator import Translation, Translator


class TreeTranslator:
    """Translates sentences to trees with a model that writes trees."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self.symbols = TreeSymbols.of(translator.subwords)

    def read(self, text: str) -> str:
        """What the model reads: the words of a treebank."""
        return " ".join(map(penn_word, penn_words(text)))

    def translate(self, texts: Sequence[str], search: SearchConfig | None = None) -> list[Translation]:
        read = [self.read(text) for text in texts]
        return [
            self.in_brackets(words, found)
            for words, found in zip(read, self.translator.translate(read, search), strict=True)
        ]

    def in_brackets(self, words: str, found: Translation) -> Translation:
        """The same n-best with trees over these words for the model's symbols."""
        if not words:
            return found
        made = [rebuild(each.text.split(), words.split(), tags=self.symbols.tags)[0] for each in found.alternatives]
        return Translation.of(
            [replace(each, text=str(tree)) for each, tree in zip(found.alternatives, made, strict=True)]
        )

    def trees(self, words: str) -> Trees:
        """What a search needs to stay among well-formed trees over these words."""
        return Trees(self.symbols, sentences(self.symbols, [words], self.translator.subwords))

    def written(self, tree: str) -> str:
        """A tree in brackets as the model writes it."""
        return " ".join(linearise(tree_of(tree), self.symbols.tags))


def tree_of(text: str) -> Tree:
    """ValueError, in a sentence, where a text is not one tree in brackets."""
    found = list(read_trees(text, "target"))
    if len(found) != 1:
        raise ValueError(f"target must be one tree in brackets, not {len(found)}.")
    return found[0]


def picture(text: str) -> str:
    """A tree in brackets as SVG."""
    return tree_svg(tree_of(text))
