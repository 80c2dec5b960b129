"""Constituency trees: reading and writing Penn brackets (section 6.3). Their symbols are in tree_symbols.py.

A tree has a label and children; a leaf has a part-of-speech tag and a word. Labels and tags hold no bracket and no
space. A word may be anything without a space: where it is written, its brackets become -LRB- and -RRB-, as in the Penn
Treebank (`penn_word`). A word that was read stays as it was written. Standard library only.

    (tree,) = read_trees("( (S (NP-SBJ (DT The) (NN cat)) (VP (VBZ sleeps)) (. .)) )", "example")
    tree.words, tree.tags, str(tree)       ("The", "cat", "sleeps", "."), (...), "(S (NP (DT The) (NN cat)) ...)"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

TOP: Final = "TOP"  # the label of a root that is no constituent; EVALB does not count it
TOPS: Final = frozenset(("", TOP, "ROOT", "S1", "VROOT"))  # labels of an outermost bracket that is no constituent
TRACE: Final = "-NONE-"  # the tag of what was not said
MAX_DEPTH: Final = 200  # brackets within brackets; natural sentences stay below 60

_TOKEN = re.compile(r"[()]|[^ \t\n\r\f\v()]+")  # other white space (U+00A0, U+0085) may be part of a word
_NOT_IN_LABEL = re.compile(r"[\s()]")
_NOT_IN_WORD = re.compile(r"[ \t\n\r\f\v]")


@dataclass(frozen=True)
class Leaf:
    """A word and its part-of-speech tag."""

    tag: str
    word: str

    def __post_init__(self) -> None:
        _require_label(self.tag)
        if not self.word or _NOT_IN_WORD.search(self.word):
            raise ValueError(f"A word of a tree is not empty and has no space, unlike {self.word!r}.")

    def __str__(self) -> str:
        return f"({self.tag} {penn_word(self.word)})"


@dataclass(frozen=True)
class Tree:
    """A constituent: its label and what it consists of, which is never nothing."""

    label: str
    children: tuple[Tree | Leaf, ...]

    def __post_init__(self) -> None:
        _require_label(self.label)
        if not self.children:
            raise ValueError(f"The constituent {self.label} has no children.")

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        return tuple(node for node in self.nodes() if isinstance(node, Leaf))

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(leaf.word for leaf in self.leaves)

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(leaf.tag for leaf in self.leaves)

    def nodes(self) -> Iterator[Tree | Leaf]:
        """Every constituent and leaf, a parent before its children, from left to right."""
        waiting: list[Tree | Leaf] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            if isinstance(node, Tree):
                waiting.extend(reversed(node.children))

    def with_tags(self, tags: Sequence[str]) -> Tree:
        """The same tree with other part-of-speech tags, one per word."""
        if len(tags) != len(self.leaves):
            raise ValueError(f"{len(tags)} tags for the {len(self.leaves)} words of a tree.")
        rest = iter(tags)

        def again(node: Tree | Leaf) -> Tree | Leaf:
            if isinstance(node, Leaf):
                return Leaf(next(rest), node.word)
            return Tree(node.label, tuple([again(child) for child in node.children]))

        return Tree(self.label, tuple([again(child) for child in self.children]))

    def __str__(self) -> str:
        """Penn brackets on one line."""
        return f"({self.label} {' '.join([str(child) for child in self.children])})"

    def pretty(self, width: int = 100, indent: int = 2) -> str:
        """Penn brackets on lines of at most `width` where that is possible: what fits stays on one line."""
        return "\n".join(_pretty(self, 0, width, indent))


def _pretty(node: Tree | Leaf, depth: int, width: int, indent: int) -> list[str]:
    line = " " * (indent * depth) + str(node)
    if isinstance(node, Leaf) or len(line) <= width:
        return [line]
    lines = [" " * (indent * depth) + f"({node.label}"]
    for child in node.children:
        lines += _pretty(child, depth + 1, width, indent)
    lines[-1] += ")"
    return lines


def penn_word(word: str) -> str:
    """A word as treebanks write it: its round brackets are -LRB- and -RRB-."""
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def plain_label(label: str) -> str:
    """Without function tags and indices: NP-SBJ-1 and NP=2 are NP; -LRB- and the like stay."""
    return re.split("[-=]", label, maxsplit=1)[0] if label[:1] not in ("-", "=") else label


def is_label(text: str) -> bool:
    """Whether a tree may have this label or tag."""
    return bool(text) and not _NOT_IN_LABEL.search(text)


def _require_label(label: str) -> None:
    if not is_label(label):
        raise ValueError(f"A label of a tree is not empty and has no space and no bracket, unlike {label!r}.")


# --- reading -----------------------------------------------------------------------------------------------------


@dataclass
class _Open:
    """A bracket that was opened and not yet closed."""

    line: int
    label: str | None = None
    word: str | None = None
    brackets: int = 0  # in it, those that were removed counted
    children: list[Tree | Leaf] = field(default_factory=list)


def read_trees(text: str | Iterable[str], name: str) -> Iterator[Tree]:
    """The trees of a text, or of its lines, in Penn brackets; `name` is what an error calls it.

    A tree may run over lines, and a line may hold several. An outermost bracket that is no constituent (no label, TOP,
    ROOT, S1) goes where it holds one constituent, and is TOP otherwise; a bracket without label inside a tree goes.
    Function tags and indices, traces, and what traces leave empty go; a tree of traces alone is no tree.
    ValueError with a sentence that names file and line where brackets or words are not as they should be.
    """
    opened: list[_Open] = []
    for number, line in enumerate(text.split("\n") if isinstance(text, str) else text, 1):
        for token in _TOKEN.findall(line):
            where = f"{name}, line {number}:"
            if token == "(":
                _open(opened, number, where)
            elif not opened:
                raise ValueError(f"{where} {'a closing bracket' if token == ')' else repr(token)} outside of any tree.")
            elif token == ")":
                kept = _close(opened.pop(), where)
                if opened:
                    opened[-1].children += kept
                elif kept:
                    yield _rooted(kept)
            else:
                _take(opened[-1], token, where)
    if opened:
        raise ValueError(
            f"{name}, line {opened[0].line}: the bracket that opens here is never closed: is the file whole?"
        )


def _open(opened: list[_Open], line: int, where: str) -> None:
    if len(opened) >= MAX_DEPTH:
        raise ValueError(
            f"{where} more than {MAX_DEPTH} brackets within each other, opened since line {opened[0].line}."
        )
    if opened:
        outer = opened[-1]
        if outer.word is not None:
            raise ValueError(f"{where} a bracket after the word {outer.word!r}: a bracket holds one word or brackets.")
        outer.brackets += 1
    opened.append(_Open(line))


def _take(bracket: _Open, token: str, where: str) -> None:
    """A label where the bracket has none yet, else a word."""
    if bracket.brackets:
        raise ValueError(f"{where} {token!r} after a bracket: a word stands in a bracket of its own, with its tag.")
    if bracket.label is None:
        bracket.label = token
    elif bracket.word is None:
        bracket.word = token
    else:
        raise ValueError(f"{where} {token!r} after the word {bracket.word!r}: a bracket holds one tag and one word.")


def _close(bracket: _Open, where: str) -> list[Tree | Leaf]:
    """What is left of a bracket: a constituent, a leaf, children without their bracket, or nothing."""
    if bracket.label is None:
        return bracket.children
    if bracket.word is not None:
        return [] if bracket.label == TRACE else [Leaf(plain_label(bracket.label), bracket.word)]
    if not bracket.brackets:
        raise ValueError(f"{where} nothing but {bracket.label!r} in a bracket: a word or its tag is missing.")
    return [Tree(plain_label(bracket.label), tuple(bracket.children))] if bracket.children else []


def _rooted(kept: list[Tree | Leaf]) -> Tree:
    """The tree of a sentence: the outermost bracket is a constituent, or TOP."""
    while len(kept) == 1 and isinstance(kept[0], Tree) and kept[0].label in TOPS:
        kept = list(kept[0].children)
    return kept[0] if len(kept) == 1 and isinstance(kept[0], Tree) else Tree(TOP, tuple(kept))
