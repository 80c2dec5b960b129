"""Trees as symbols and back, the repair of what is malformed, and what may come next (section 6.3)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_trees import labels, trees

from transformer.parsing.tree_symbols import NO_TAG, Derivation, Tags, closing, linearise, opening, rebuild
from transformer.parsing.trees import MAX_DEPTH, Leaf, Tree, penn_word, read_trees

CAT = "(S (NP (DT The) (NN cat)) (VP (VBZ sleeps)) (. .))"
MODES: tuple[Tags, ...] = ("keep", "XX", "none")


def tree(brackets: str) -> Tree:
    (found,) = read_trees(brackets, "test")
    return found


def test_symbols_are_those_of_the_paper_that_the_section_cites() -> None:
    assert " ".join(linearise(tree(CAT), "XX")) == "(S (NP XX XX )NP (VP XX )VP XX )S"
    assert " ".join(linearise(tree(CAT), "keep")) == "(S (NP DT NN )NP (VP VBZ )VP . )S"
    assert " ".join(linearise(tree(CAT), "none")) == "(S (NP The cat )NP (VP sleeps )VP . )S"


@settings(max_examples=40, deadline=None)
@given(trees)
def test_every_tree_comes_back_from_its_symbols(made: Tree) -> None:
    for tags in MODES:
        symbols = linearise(made, tags)
        assert rebuild(symbols, made.words, made.tags, tags) == (made, False)
        again, repaired = rebuild(symbols, made.words, tags=tags)
        assert again.words == made.words
        assert not repaired
        assert again.tags == (made.tags if tags == "keep" else (NO_TAG,) * len(made.words))
        assert linearise(again, tags) == symbols


@given(
    st.lists(st.sampled_from(("(S", "(NP", ")S", ")NP", "XX", "NN", "(", ")", "", "(a b", "x(y", "w")), max_size=40),
    st.integers(1, 8),
    st.sampled_from(MODES),
)
def test_anything_is_repaired_into_a_tree_over_exactly_the_words(symbols: list[str], count: int, tags: Tags) -> None:
    words = ["w"] * count
    made, repaired = rebuild(symbols, words, tags=tags)
    assert list(made.words) == words
    assert repaired == (linearise(made, tags) != symbols)
    assert rebuild(linearise(made, tags), words, tags=tags)[0] == made


@pytest.mark.parametrize(
    ("symbols", "count", "expected"),
    [
        ("(S (NP XX XX )NP (VP XX", 4, "(S (NP (XX a) (XX b)) (VP (XX c) (XX d)))"),  # cut off: the rest goes inside
        ("(S (NP XX )NP )S", 3, "(S (NP (XX a)) (XX b) (XX c))"),  # closed too early: the root takes the rest
        ("(S (NP XX (PP XX )NP XX )S", 3, "(S (NP (XX a) (PP (XX b))) (XX c))"),  # )NP closes PP, too
        ("(S XX )VP XX )S", 2, "(S (XX a) (XX b))"),  # nothing to close
        ("(S XX XX XX )S", 2, "(S (XX a) (XX b))"),  # more words than there are
        ("(S (NP )NP XX )S", 1, "(S (XX a))"),  # a constituent without a word
        ("(S XX )S (S XX )S", 2, "(TOP (S (XX a)) (S (XX b)))"),
        ("", 2, "(TOP (XX a) (XX b))"),
    ],
)
def test_the_rule_of_repair(symbols: str, count: int, expected: str) -> None:
    made, repaired = rebuild(symbols.split(), "abcdefgh"[:count])
    assert (str(made), repaired) == (expected, True)


def test_brackets_without_end_are_a_tree_of_bounded_depth() -> None:
    made, repaired = rebuild([*["(S"] * 5_000, "XX"], ["a"])
    assert repaired
    assert str(made).count("(S") == MAX_DEPTH - 1
    assert linearise(made) == [*["(S"] * (MAX_DEPTH - 1), "XX", *[")S"] * (MAX_DEPTH - 1)]


def test_words_that_are_brackets_stay_words() -> None:
    words = ("(", "a)b", ")NP", "(S")
    made = Tree("S", tuple([Leaf("X", word) for word in words]))
    assert linearise(made, "none") == ["(S", *map(penn_word, words), ")S"]
    for tags in MODES:
        assert rebuild(linearise(made, tags), words, made.tags, tags) == (made, False)


def test_tags_and_words_are_of_one_number() -> None:
    with pytest.raises(ValueError, match="2 tags for 1 words"):
        rebuild(["XX"], ["a"], ["A", "B"])
    with pytest.raises(ValueError, match="at least one word"):
        rebuild(["(S", ")S"], [])


@settings(max_examples=40, deadline=None)
@given(trees)
def test_every_tree_can_be_derived(made: Tree) -> None:
    symbols = linearise(made)
    at = Derivation.start(words=len(made.words), limit=len(symbols), openings=100)
    for symbol in symbols:
        allowed = at.next()
        assert not allowed.end
        if symbol.startswith("("):
            assert allowed.open
        elif symbol.startswith(")"):
            assert symbol == closing(allowed.close or "")
        else:
            assert allowed.word
        at = at.after(symbol)
    assert at.next() == (False, False, None, True)


@given(st.integers(1, 12), st.integers(2, 40), st.integers(1, 5), st.integers(0, 10_000), st.lists(labels, min_size=1))
def test_every_derivation_ends_in_a_whole_tree(
    words: int, extra: int, openings: int, seed: int, names: list[str]
) -> None:
    chance = random.Random(seed)
    greedy = chance.choice((0.3, 0.9, 1.0))  # how willing it is to open
    limit = words + extra
    at = Derivation.start(words=words, limit=limit, openings=openings)
    symbols: list[str] = []
    while not (allowed := at.next()).end:
        choices = [NO_TAG] if allowed.word else []
        choices += [closing(allowed.close)] if allowed.close else []
        if allowed.open and (not choices or chance.random() < greedy):
            choices = [opening(chance.choice(names))]
        symbols.append(chance.choice(choices))
        at = at.after(symbols[-1])
        assert len(symbols) <= limit
    made, repaired = rebuild(symbols, ["w"] * words)
    assert not repaired
    assert linearise(made) == symbols
    assert longest_unary_chain(made) <= openings


def longest_unary_chain(node: Tree | Leaf) -> int:
    if isinstance(node, Leaf):
        return 0
    below = max(longest_unary_chain(child) for child in node.children)
    chain, inner = 1, node
    while len(inner.children) == 1 and isinstance(inner.children[0], Tree):
        chain, inner = chain + 1, inner.children[0]
    return max(chain, below)


@pytest.mark.parametrize(("words", "limit", "openings"), [(0, 9, 3), (3, 4, 3), (3, 9, 0)])
def test_what_no_tree_fits_into_is_refused(words: int, limit: int, openings: int) -> None:
    with pytest.raises(ValueError, match="No tree over"):
        Derivation.start(words=words, limit=limit, openings=openings)
