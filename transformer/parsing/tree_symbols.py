"""Trees as sequences of symbols for the decoder (section 6.3; linearised as by Vinyals and Kaiser, 2014), and back.

    (S (NP (DT The) (NN cat)) (VP (VBZ sleeps)))
    keep    (S (NP DT NN )NP (VP VBZ )VP )S              a word's symbol is its tag
    XX      (S (NP XX XX )NP (VP XX )VP )S               every word's symbol is XX
    none    (S (NP The cat )NP (VP sleeps )VP )S         no tags: a word stands for itself, brackets in it escaped

A symbol that begins with ( opens a constituent, one that begins with ) closes it, every other one is a word's: n
words have n symbols, in order, so a tree over the input's words can be built from any output. Without a symbol per word
nothing would say how many words a constituent has; that is why "none" writes the word itself where the tag would be.

`Derivation` says which symbols may come next, so that only whole trees over n words come out. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from transformer.parsing.trees import MAX_DEPTH, TOP, Leaf, Tree, is_label, penn_word

Tags = Literal["keep", "XX", "none"]
NO_TAG: Final = "XX"  # the tag of a word whose tag was not predicted


def opening(label: str) -> str:
    return f"({label}"


def closing(label: str) -> str:
    return f"){label}"


def linearise(tree: Tree, tags: Tags = "XX") -> list[str]:
    """The symbols of a tree, from left to right."""
    symbols: list[str] = []
    waiting: list[Tree | Leaf | str] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            symbols.append(node)
        elif isinstance(node, Leaf):
            symbols.append(word_symbol(node, tags))
        else:
            symbols.append(opening(node.label))
            waiting.append(closing(node.label))
            waiting.extend(reversed(node.children))
    return symbols


def word_symbol(leaf: Leaf, tags: Tags) -> str:
    return {"keep": leaf.tag, "XX": NO_TAG, "none": penn_word(leaf.word)}[tags]


class _Bracket:
    """A constituent under construction."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.children: list[Tree | Leaf] = []


def rebuild(
    symbols: Iterable[str], words: Sequence[str], gold_tags: Sequence[str] | None = None, tags: Tags = "XX"
) -> tuple[Tree, bool]:
    """The tree that the symbols say over exactly these words, and whether it had to be repaired.

    Tags are `gold_tags` where given, else the predicted ones ("keep"), else XX. Repair, from left to right:
    1. a closing symbol closes the innermost open constituent of its label and all within it; without one it is ignored;
    2. word symbols stand for the next word whatever they say; those beyond the last word are ignored;
    3. at the end the missing words go into the innermost constituent still open (the root if none is), then all close;
    4. constituents without a word are left out, as are those deeper than MAX_DEPTH and symbols without a proper label;
    5. if what is left is not one constituent, TOP, which EVALB does not count, holds it all.
    A well-formed sequence comes back exactly: linearise(rebuild(s, ...)) == s.
    """
    if not words:
        raise ValueError("A tree needs at least one word.")
    if gold_tags is not None and len(gold_tags) != len(words):
        raise ValueError(f"{len(gold_tags)} tags for {len(words)} words.")
    building = _Building(words, gold_tags, tags)
    for symbol in symbols:
        building.take(symbol)
    return building.finish(), building.repaired


class _Building:
    def __init__(self, words: Sequence[str], gold_tags: Sequence[str] | None, tags: Tags) -> None:
        self.words, self.gold_tags, self.tags = words, gold_tags, tags
        self.used = 0  # words
        self.stack = [_Bracket(TOP)]  # what holds all, and the open constituents
        self.repaired = False

    def take(self, symbol: str) -> None:
        if symbol[:1] == "(":
            if not is_label(symbol[1:]) or len(self.stack) >= MAX_DEPTH:
                self.repaired = True
            else:
                self.stack.append(_Bracket(symbol[1:]))
        elif symbol[:1] == ")":
            self.close(symbol[1:])
        elif self.used == len(self.words):
            self.repaired = True
        else:
            self.word(symbol)

    def close(self, label: str) -> None:
        found = [depth for depth in range(len(self.stack) - 1, 0, -1) if self.stack[depth].label == label]
        if not found:
            self.repaired = True
            return
        self.repaired |= found[0] != len(self.stack) - 1
        while len(self.stack) > found[0]:
            self.close_innermost()

    def close_innermost(self) -> None:
        bracket = self.stack.pop()
        if bracket.children:
            self.stack[-1].children.append(Tree(bracket.label, tuple(bracket.children)))
        else:
            self.repaired = True

    def word(self, symbol: str | None) -> None:
        """The next word, with its tag; None: the symbol is missing."""
        word = self.words[self.used]
        if self.gold_tags is not None:
            tag = self.gold_tags[self.used]
        else:
            tag = symbol if symbol and is_label(symbol) and self.tags == "keep" else NO_TAG
        expected = {"keep": symbol, "XX": NO_TAG, "none": penn_word(word)}[self.tags]
        self.repaired |= symbol != expected or (self.tags == "keep" and not is_label(symbol or ""))
        self.repaired |= len(self.stack) == 1  # outside of the sentence's constituent
        self.stack[-1].children.append(Leaf(tag, word))
        self.used += 1

    def finish(self) -> Tree:
        outer = self.stack[0].children
        root = outer[0] if len(self.stack) == 1 and len(outer) == 1 else None
        if self.used < len(self.words) and isinstance(root, Tree):  # the root was closed too early: open it again
            outer.clear()
            self.stack.append(_Bracket(root.label))
            self.stack[-1].children += root.children
        while self.used < len(self.words):
            self.word(None)
        while len(self.stack) > 1:
            self.repaired = True
            self.close_innermost()
        if len(outer) == 1 and isinstance(outer[0], Tree):
            return outer[0]
        self.repaired = True
        return Tree(TOP, tuple(outer))


# --- which symbols may come next ---------------------------------------------------------------------------------


class Next(NamedTuple):
    """The symbols that may come next. Equal values allow equal symbols, so a mask made for one can be kept for all."""

    open: bool  # an opening symbol, of any label
    word: bool  # a word's symbol: any tag, XX, or, with tags "none", the next word itself
    close: str | None  # the one label that may be closed
    end: bool  # the tree is whole: nothing else may come


@dataclass(frozen=True)
class Derivation:
    """Where a tree over `n` words stands that is written from left to right, symbol by symbol.

    at = Derivation.start(words=n, limit=n + 300)     `limit`: symbols that the whole tree may have, the end not counted
    at.next()                                         what may come: open, word, close, end
    at = at.after("(NP")                              a new value: beams share their past

    What `next` allows always leads to an end, within `limit`, and every end is a well-formed tree over the n words:
    `rebuild` has nothing to repair. At most `openings` constituents begin at one word, so unary chains are bounded;
    no constituent is empty. A step costs a few comparisons. `after` does not check: it takes what `next` allows.
    """

    words_left: int
    room: int  # symbols that may still come
    openings: int  # constituents that may begin at one word
    opened: int = 0  # constituents that begin at the next word so far
    open_labels: tuple[str, ...] = ()  # of the constituents not yet closed, outermost first
    empty: bool = False  # the innermost of them has no child yet

    @classmethod
    def start(cls, words: int, limit: int, openings: int = 20) -> Derivation:
        if words < 1 or openings < 1 or limit < words + 2:
            raise ValueError(f"No tree over {words} words has at most {limit} symbols, {openings} openings at a word.")
        return cls(words_left=words, room=limit, openings=openings)

    def next(self) -> Next:
        inside = bool(self.open_labels)
        unfinished = self.words_left > 0
        needed = self.words_left + len(self.open_labels)  # symbols without which the tree is not whole
        may_open = unfinished and self.opened < self.openings and len(self.open_labels) < MAX_DEPTH - 1
        may_close = inside and not self.empty and (len(self.open_labels) > 1 or not unfinished)
        return Next(
            open=may_open and needed + 2 <= self.room,
            word=unfinished and inside,
            close=self.open_labels[-1] if may_close else None,
            end=not unfinished and not inside,
        )

    def after(self, symbol: str) -> Derivation:
        room = self.room - 1
        if symbol[:1] == "(":
            labels = (*self.open_labels, symbol[1:])
            return replace(self, room=room, opened=self.opened + 1, open_labels=labels, empty=True)
        if symbol[:1] == ")":
            return replace(self, room=room, open_labels=self.open_labels[:-1], empty=False)
        return replace(self, room=room, words_left=self.words_left - 1, opened=0, empty=False)
