"""Penn brackets: read whatever their layout, refused with file and line where broken, written and read again."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from random_trees import trees

from transformer.parsing.tree_symbols import Derivation, linearise, rebuild
from transformer.parsing.trees import MAX_DEPTH, TOPS, Leaf, Tree, plain_label, read_trees

CAT = "(S (NP (DT The) (NN cat)) (VP (VBZ sleeps)) (. .))"


def read(text: str) -> list[str]:
    return [str(tree) for tree in read_trees(text, "cats.mrg")]


@pytest.mark.parametrize(
    "text",
    [
        CAT,
        f"( {CAT} )",
        f"({CAT})",
        f"(TOP {CAT})",
        f"(ROOT{CAT})",
        f"( (S1 {CAT} ) )",
        "( (S (NP-SBJ-1 (DT The)\n\t(NN cat))\r\n  (VP=2 (VBZ sleeps) (NP (-NONE- *T*-1)))\n\n (. .)))\n",
        "(S (NP (DT The) (NN cat)) (S (NP-SBJ (-NONE- *))) (VP (VBZ sleeps)) (. .))",
        "(S ((NP (DT The) (NN cat)) (VP (VBZ sleeps))) (. .))",
        "() " + CAT + "(NP (-NONE- *))",
    ],
)
def test_a_tree_is_read_whatever_its_layout(text: str) -> None:
    assert read(text) == [CAT]


def test_several_trees_on_a_line() -> None:
    assert read(f"{CAT} ({CAT})({CAT}\n)") == [CAT] * 3
    assert [str(tree) for tree in read_trees([f"{CAT}{CAT}\n", "(S", "(X x))\n"], "lines")] == [CAT, CAT, "(S (X x))"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("( (NN Abstract) )", "(TOP (NN Abstract))"),
        ("(NN Abstract)", "(TOP (NN Abstract))"),
        ("( (NP (NN A)) (. .) )", "(TOP (NP (NN A)) (. .))"),
        ("(TOP (NP (NN A)) (. .))", "(TOP (NP (NN A)) (. .))"),
        ("( (FRAG-TTL (NN A)) )", "(FRAG (NN A))"),
    ],
)
def test_what_is_no_constituent_is_top(text: str, expected: str) -> None:
    assert read(text) == [expected]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("NP-SBJ=3", "NP"),
        ("-LRB-", "-LRB-"),
        ("-NONE-", "-NONE-"),
        ("-", "-"),
        ("=", "="),
        ("PRT|ADVP", "PRT|ADVP"),
        ("PRP$", "PRP$"),
    ],
)
def test_function_tags_and_indices_go(label: str, expected: str) -> None:
    assert plain_label(label) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "(S (X a))\n(S (X a)\n\n",
            "cats.mrg, line 2: the bracket that opens here is never closed: is the file whole?",
        ),
        ("(S (X a)))", "cats.mrg, line 1: a closing bracket outside of any tree."),
        ("(S (X a))\nword", "cats.mrg, line 2: 'word' outside of any tree."),
        ("(S\n(X a b))", "cats.mrg, line 2: 'b' after the word 'a': a bracket holds one tag and one word."),
        ("(S (X a (Y b)))", "cats.mrg, line 1: a bracket after the word 'a': a bracket holds one word or brackets."),
        ("(S (X a) b)", "cats.mrg, line 1: 'b' after a bracket: a word stands in a bracket of its own, with its tag."),
        ("(S\n(NN ))", "cats.mrg, line 2: nothing but 'NN' in a bracket: a word or its tag is missing."),
        (
            "(" * 300,
            f"cats.mrg, line 1: more than {MAX_DEPTH} brackets within each other, opened since line 1.",
        ),
    ],
)
def test_a_broken_file_is_a_sentence_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match="cats") as caught:
        list(read_trees(text, "cats.mrg"))
    assert str(caught.value) == sentence


@pytest.mark.parametrize(("label", "word"), [("", "a"), ("N P", "a"), ("N(", "a"), ("N", ""), ("N", "a b")])
def test_what_could_not_be_read_again_is_no_tree(label: str, word: str) -> None:
    with pytest.raises(ValueError, match="unlike"):
        Leaf(label, word)
    with pytest.raises(ValueError, match="no children"):
        Tree("S", ())


def escaped(node: Tree | Leaf) -> Tree | Leaf:
    """As it comes back from a file: brackets in words are escaped, indices are gone."""
    if isinstance(node, Leaf):
        return Leaf(plain_label(node.tag), node.word.replace("(", "-LRB-").replace(")", "-RRB-"))
    return Tree(plain_label(node.label), tuple([escaped(child) for child in node.children]))


@settings(max_examples=40, deadline=None)
@given(trees)
def test_what_is_written_is_read_again(made: Tree) -> None:
    wrapped = Tree("S", (made, Leaf(".", ".")))
    for text in (str(wrapped), wrapped.pretty(), wrapped.pretty(width=1, indent=1), f"( {wrapped} )"):
        assert list(read_trees(text, "written")) == [escaped(wrapped)]
    if made.label not in TOPS:
        assert list(read_trees(str(made), "written")) == [escaped(made)]


def test_pretty_brackets_fit_where_they_can() -> None:
    (tree,) = read_trees(CAT, "cat")
    assert tree.pretty() == CAT
    assert tree.pretty(width=30) == "(S\n  (NP (DT The) (NN cat))\n  (VP (VBZ sleeps))\n  (. .))"


def test_other_tags_take_their_places() -> None:
    (tree,) = read_trees(CAT, "cat")
    assert tree.with_tags("ABCD").tags == tuple("ABCD")
    assert tree.with_tags("ABCD").with_tags(tree.tags) == tree
    with pytest.raises(ValueError, match="3 tags for the 4 words"):
        tree.with_tags("ABC")


def real_trees(directory: Path) -> Iterator[Tree]:
    for archive in sorted(directory.glob("*/*.tar.gz")):
        with tarfile.open(archive) as files:
            for member in files:
                file = files.extractfile(member) if member.name.endswith((".tree", ".ptb")) else None
                if file is not None:
                    yield from read_trees(file.read().decode(), f"{archive}: {member.name}")


@pytest.mark.parametrize(
    "every", [pytest.param(10, marks=pytest.mark.slow), pytest.param(1, marks=[pytest.mark.soak, pytest.mark.slow])]
)
def test_every_real_tree_comes_back(real_text: Path, every: int) -> None:
    """From its brackets, and from its symbols; and constrained decoding could have written it."""
    count = 0
    for tree in islice(real_trees(real_text), 0, None, every):
        count += 1
        assert list(read_trees(str(tree), "written")) == [tree]
        for tags in ("keep", "XX", "none"):
            symbols = linearise(tree, tags)
            assert rebuild(symbols, tree.words, tree.tags, tags) == (tree, False)
        at = Derivation.start(words=len(tree.words), limit=len(symbols))
        for symbol in symbols:
            allowed = at.next()
            assert {"(": allowed.open, ")": symbol[1:] == allowed.close}.get(symbol[0], allowed.word)
            at = at.after(symbol)
        assert at.next().end
    if not count:
        pytest.skip(f"no archives of trees in {real_text}")
