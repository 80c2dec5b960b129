"""Scores of parses: equal to an implementation that we did not write, and EVALB's rules one by one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from random_trees import trees
from tree_pairs import GOLDEN, PAIRS, checksum, pairs

from transformer.parsing.evalb import right_constituents, score, sentence_score
from transformer.parsing.trees import Tree, read_trees

GOLD = "(S (NP (DT the) (NN cat)) (VP (VBZ eats) (NP (NN fish)) (PP (IN with) (NP (NN salt)))) (. .))"


def tree(brackets: str) -> Tree:
    (found,) = read_trees(brackets, "test")
    return found


def counted(gold: str, predicted: str) -> tuple[int, int, int]:
    counts = sentence_score(tree(gold), tree(predicted)).evalb
    return counts.gold, counts.predicted, counts.matched


def test_supar_counts_the_same_in_every_random_pair() -> None:
    lines = GOLDEN.read_text().splitlines()
    assert len(lines) == PAIRS
    for line, (gold, predicted) in zip(lines, pairs(), strict=True):
        made, *theirs = line.split()
        assert made == checksum(gold, predicted), "the pair is not the one that SuPar counted in"
        counts = sentence_score(gold, predicted).evalb
        assert [counts.gold, counts.predicted, counts.matched] == [int(count) for count in theirs]


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        (GOLD, GOLD, (6, 6, 6)),
        (GOLD, GOLD.replace("(PP", "(X"), (6, 6, 5)),
        ("(S (ADVP (RB up)))", "(S (PRT (RB up)))", (2, 2, 2)),  # ADVP = PRT
        ("(TOP (S (X a)))", "(S (X a))", (1, 1, 1)),  # TOP is not counted
        ("(S (NP (X a)) (. .))", "(S (NP (X a) (. .)))", (2, 2, 2)),  # nor is where punctuation hangs
        ("(S (`` q) (NP (X a)) ('' q) (: -))", "(S (NP (`` q) (X a) ('' q) (: -)))", (2, 2, 2)),
        ("(S (X a) (PRN (, ,)))", "(S (X a) (, ,))", (1, 1, 1)),  # an empty constituent goes
        ("(S (S (X a)))", "(S (X a))", (2, 1, 1)),  # each is used once
        ("(S (X a))", "(S (S (S (X a))))", (1, 3, 1)),
        ("(S (X a) (? ?))", "(S (NP (X a)) (? ?))", (1, 2, 1)),  # ? is a word: COLLINS.prm does not delete it
        ("(S (NP (X a)) (-LRB- -LRB-))", "(S (NP (X a) (-LRB- -LRB-)))", (2, 2, 1)),  # a round bracket, too
    ],
)
def test_constituents_are_compared_as_collins_prm_says(
    gold: str, predicted: str, expected: tuple[int, int, int]
) -> None:
    assert counted(gold, predicted) == expected


def test_labels_are_cut() -> None:
    plain = tree(GOLD)
    marked = Tree("S-TPC=1", (Tree("NP-SBJ", plain.children[0].children), *plain.children[1:]))  # type: ignore[union-attr]
    assert sentence_score(marked, plain).evalb.complete == 1


def test_figures_of_a_treebank() -> None:
    wrong = "(S (NP (DT the) (NN cat)) (VP (VBZ eats) (NP (NP (NN fish)) (PP (IN with) (NP (NN salt))))) (. .))"
    crossed = "(S (NP (DT the) (NN cat) (VBZ eats)) (VP (JJ fish) (PP (IN with) (NP (NN salt)))) (. .))"
    found = score([tree(GOLD)] * 3, [tree(GOLD), tree(wrong), tree(crossed)])
    counts = found.evalb.counts
    assert (counts.gold, counts.predicted, counts.matched) == (18, 18, 6 + 6 + 3)
    assert found.evalb.precision == pytest.approx(100 * 15 / 18)
    assert found.evalb.recall == pytest.approx(100 * 15 / 18)
    assert found.evalb.complete == pytest.approx(100 / 3)
    assert counts.crossing == 1  # (NP the cat eats) with VP
    assert found.evalb.crossing == pytest.approx(1 / 3)
    assert found.evalb.without_crossing == pytest.approx(200 / 3)
    assert found.evalb.tag_accuracy == pytest.approx(100 * 17 / 18)
    assert found.strict == found.evalb


def test_a_broken_parse_counts_as_wrong_and_evalb_leaves_it_out() -> None:
    gold = [tree(GOLD)] * 4
    longer = tree(GOLD.replace("(. .)", "(NN fish) (. .)"))
    other = tree(GOLD.replace("fish", "fowl"))
    found = score(gold, [gold[0], gold[0], longer, other])
    assert found.evalb.f1 == 100
    assert found.evalb.errors == found.strict.errors == 2
    assert found.strict.f1 == pytest.approx(50)
    assert found.strict.complete == pytest.approx(50)
    assert found.strict.tag_accuracy == pytest.approx(50)
    nothing = score(gold[:2], [gold[0], None])
    assert (nothing.evalb.f1, nothing.evalb.errors) == (100, 0)  # EVALB skips it
    assert nothing.strict.errors == 1
    assert nothing.strict.recall == pytest.approx(50)
    assert nothing.strict.precision == 100


def test_a_predicted_tag_of_punctuation_removes_a_word_and_gold_tags_bring_it_back() -> None:
    gold, predicted = tree(GOLD), tree(GOLD.replace("(NN fish)", "(. fish)"))
    assert score([gold], [predicted]).strict.f1 == 0
    assert score([gold], [predicted.with_tags(gold.tags)]).strict.f1 == 100


def test_a_sentence_of_punctuation_is_skipped() -> None:
    dots = tree("(NP (. .) (: --))")
    found = score([dots, tree(GOLD)], [dots, tree(GOLD)])
    assert found.strict == found.evalb
    assert (found.strict.complete, found.strict.f1, found.strict.errors) == (100, 100, 0)


def test_short_sentences_and_groups_by_length_count_punctuation() -> None:
    def of(words: int) -> Tree:
        return tree(f"(S (NP {'(NN a) ' * (words - 1)}) (. .))")

    gold = [of(10), of(11), of(40), of(41), of(70)]
    found = score(gold, [*gold[:3], of(42), None])
    assert found.strict_40.counts.sentences == 3
    assert found.strict_40.f1 == 100
    groups = [(group.shortest, group.longest, group.strict.counts.sentences) for group in found.by_length]
    assert groups == [(1, 10, 1), (11, 20, 1), (31, 40, 1), (41, 60, 1), (61, None, 1)]
    assert [group.strict.f1 for group in found.by_length] == [100, 100, 100, 0, 0]


@settings(max_examples=40, deadline=None)
@given(trees)
def test_a_tree_is_right_by_itself(made: Tree) -> None:
    found = sentence_score(made, made)
    assert found.f1 == 100
    assert found.evalb.crossing == 0
    assert all(right in (True, None) for side in right_constituents(made, made) for right in side)


def test_marks_are_the_counts() -> None:
    for gold, predicted in pairs(300, seed=5):
        counts = sentence_score(gold, predicted).evalb
        missing, wrong = right_constituents(gold, predicted)
        assert len(missing) == sum(isinstance(node, Tree) for node in gold.nodes())
        assert (missing.count(True), missing.count(False)) == (counts.matched, counts.gold - counts.matched)
        assert (wrong.count(True), wrong.count(False)) == (counts.matched, counts.predicted - counts.matched)


def test_sides_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="1 parses cannot be scored on 2 gold trees"):
        score([tree(GOLD)] * 2, [None])
