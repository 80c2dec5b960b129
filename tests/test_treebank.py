"""The treebank of our grammar: the same by its seed, splits apart, and where a phrase belongs takes learning."""

from __future__ import annotations

import subprocess
import sys

from conftest import ROOT

from jobs.corpora.demo.tree_phrases import DONE_WITH
from jobs.corpora.demo.treebank import tree, treebank, trees
from transformer.parsing.evalb import score
from transformer.parsing.tree_symbols import linearise
from transformer.parsing.trees import Leaf, Tree, read_trees

SAMPLE = list(treebank("train", 3_000))


def test_a_tree_is_a_function_of_seed_split_and_place() -> None:
    assert list(trees(1, "train", 40, 50)) == SAMPLE[40:50]
    assert tree(2, "train", 0) != SAMPLE[0]
    code = "from jobs.corpora.demo.treebank import tree; print(tree(1, 'train', 7))"
    other = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(SAMPLE[7])


def test_splits_share_no_sentence() -> None:
    splits = {split: {made.words for made in treebank(split, 1_000)} for split in ("train", "dev", "test")}
    assert all(splits.values())
    assert not splits["train"] & splits["dev"]
    assert not splits["train"] & splits["test"]
    assert not splits["dev"] & splits["test"]


def test_trees_are_penn_trees() -> None:
    for made in SAMPLE:
        assert list(read_trees(str(made), "treebank")) == [made]
        assert made.label in ("S", "SQ", "SBARQ", "SINV", "NP")
    assert score(SAMPLE, SAMPLE).strict.errors == 0


def test_it_is_large_enough_to_be_learnt_and_not_to_be_known_by_heart() -> None:
    words = {word for made in SAMPLE for word in made.words}
    assert 400 <= len(words) <= 900
    assert len({made.words for made in SAMPLE}) > 0.95 * len(SAMPLE)
    symbols = {symbol for made in SAMPLE for symbol in linearise(made, "keep")}
    assert {"(SBAR", "(SQ", "(SINV", "(PRN", "(PRT", "(ADJP", "(WHNP", "(INTJ", "-LRB-", "``", "POS", "VBN"} <= symbols
    assert 8 <= sum(len(made.words) for made in SAMPLE) / len(SAMPLE) <= 20
    assert max(len(made.words) for made in SAMPLE) <= 80


def test_words_have_several_tags_and_a_phrase_several_places() -> None:
    tags: dict[str, set[str]] = {}
    for made in SAMPLE:
        for leaf in made.leaves:
            tags.setdefault(leaf.word, set()).add(leaf.tag)
    assert len(tags["that"]) == 2
    assert len(tags["her"]) == 2
    assert len([word for word, found in tags.items() if len(found) > 1]) > 50
    holders: dict[str, set[str]] = {}
    for made in SAMPLE:
        for node in made.nodes():
            for child in node.children if isinstance(node, Tree) else ():
                if isinstance(child, Tree) and child.label == "PP":
                    holders.setdefault(child.leaves[0].word, set()).add(node.label)
    assert all({"VP", "NP"} <= holders[word] for word in ("with", "in", "on"))


def test_the_words_decide_what_with_belongs_to() -> None:
    count = 0
    for made in SAMPLE:
        for node in made.nodes():
            if not (isinstance(node, Tree) and node.label == "VP"):
                continue
            for child in node.children:
                if isinstance(child, Tree) and child.label == "PP" and child.leaves[0].word == "with":
                    verb = next(part for part in node.children if isinstance(part, Leaf) and part.tag[:2] == "VB")
                    count += 1
                    assert any(verb.word.lower().startswith(word[:2]) for word in DONE_WITH)
    assert count > 50


def test_unary_chains_are_common() -> None:
    unary = sum(
        isinstance(node, Tree) and len(node.children) == 1 and isinstance(node.children[0], Tree)
        for made in SAMPLE
        for node in made.nodes()
    )
    assert unary > 100
