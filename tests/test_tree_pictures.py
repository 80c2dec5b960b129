"""Pictures of trees: whole, safe, with every error marked, in the colour of the text around."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from random_trees import trees
from tree_pairs import pairs

from jobs.report.tree_pictures import MISSING, WRONG, errors_svg, errors_text, standalone, tree_svg, tree_text
from transformer.parsing.evalb import sentence_score
from transformer.parsing.trees import Leaf, Tree, read_trees

GOLD = "(S (NP (DT the) (NN cat)) (VP (VBZ eats) (NP (NN fish)) (PP (IN with) (NP (NN salt)))) (. .))"
WRONGLY = "(S (NP (DT the) (NN cat)) (VP (VBZ eats) (NP (NP (NN fish)) (PP (IN with) (NP (NN salt))))) (. .))"
SVG = "{http://www.w3.org/2000/svg}"


def tree(brackets: str) -> Tree:
    (found,) = read_trees(brackets, "test")
    return found


def written(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@settings(max_examples=40, deadline=None)
@given(trees)
def test_every_label_tag_and_word_is_drawn(made: Tree) -> None:
    nodes = list(made.nodes())
    said = written(tree_svg(made))
    assert len(said) == len(nodes) + len(made.words)
    if all(word.isprintable() for word in made.words):  # XML has no sign for a control character
        expected = [node.tag if isinstance(node, Leaf) else node.label for node in nodes] + list(made.words)
        assert sorted(said) == sorted(expected)
    assert tree_text(made).count("\n") + 1 == len(nodes)


def test_as_many_marks_as_errors() -> None:
    for gold, predicted in pairs(100, seed=3):
        counts = sentence_score(gold, predicted).strict
        svg, text = errors_svg(predicted, gold), errors_text(predicted, gold)
        assert sum(said.startswith(WRONG[1]) for said in written(svg)) == counts.predicted - counts.matched
        assert sum(said.startswith(MISSING[1]) for said in written(svg)) == counts.gold - counts.matched
        assert text.count(f" {WRONG[1]}") == counts.predicted - counts.matched
        assert text.count(f"{MISSING[1]} missing: ") == counts.gold - counts.matched


def test_a_right_parse_is_drawn_once_and_says_so() -> None:
    svg = errors_svg(tree(GOLD), tree(GOLD))
    assert written(svg) == written(tree_svg(tree(GOLD)))
    assert "every constituent right" in svg
    assert WRONG[0] not in svg


def test_lines_say_what_is_wrong_and_what_is_missing() -> None:
    lines = errors_text(tree(WRONGLY), tree(GOLD)).splitlines()
    assert lines[0] == "F1 92.3: 1 wrong, 0 missing"
    assert "│  ├─ VBZ eats" in lines
    assert "│  └─ NP ✗" in lines
    assert errors_text(tree(GOLD), tree(WRONGLY)).splitlines()[-1] == "+ missing: NP over fish with salt"


@pytest.mark.parametrize("words", [3, 60])
def test_a_picture_is_readable_on_a_phone(words: int) -> None:
    """A long sentence grows downwards, nothing lies outside of the picture, and no two texts lie on each other."""
    made = tree("(S (NP" + " (NN internationalisation)" * words + ") (VP (VBZ is)) (. .))")
    svg = ElementTree.fromstring(tree_svg(made))
    width, height = float(svg.get("width", "0")), float(svg.get("height", "0"))
    assert width <= 640
    for text in svg.iter(f"{SVG}text"):
        assert 0 <= float(text.get("x", "-1")) <= width
        assert 0 <= float(text.get("y", "-1")) <= height
    places = [(text.get("x"), text.get("y")) for text in svg.iter(f"{SVG}text")]
    assert len(set(places)) == len(places)


def test_texts_of_an_upright_tree_lie_beside_each_other() -> None:
    left = "(WHADVP (X a)) (WHADVP (X b)) (SBARQ (WHADVP (X c)))"
    right = "(LONGLABEL (X d) (X e)) (A (B (C (X f)) (X g)) (X h))"
    svg = ElementTree.fromstring(tree_svg(tree(f"(S {left} {right})")))
    rows: dict[str, list[tuple[float, str]]] = {}
    for text in svg.iter(f"{SVG}text"):
        rows.setdefault(text.get("y", ""), []).append((float(text.get("x", "0")), text.text or ""))
    for row in rows.values():
        row.sort()
        for (x, said), (other, beside) in itertools.pairwise(row):
            assert other - x >= 7 * (len(said) + len(beside)) / 2


def test_the_colour_is_that_of_the_text_around_and_nothing_is_asked_of_anybody() -> None:
    svg = errors_svg(tree(WRONGLY), tree(GOLD))
    assert 'fill="currentColor"' in svg
    assert set(re.findall(r"#[0-9a-f]{3,6}", svg)) <= {WRONG[0], MISSING[0]}
    assert "<style" not in svg, "it would be that of the whole page"
    assert not re.search(r"href|url\(|<script", svg)
    alone = standalone(svg)
    assert "prefers-color-scheme:dark" in alone
    ElementTree.fromstring(alone.encode())


def test_no_word_becomes_an_element() -> None:
    made = Tree("S", (Leaf("X&Y", '<script>"'), Leaf("X", "a&b")))
    assert written(tree_svg(made)) == ["S", "X&Y", '<script>"', "X", "a&b"]
    assert "<script>" not in tree_svg(made)
