"""Labelled brackets of two trees, compared by EVALB's rules with the parameters of COLLINS.prm.

TOP goes, and so do the words whose tag is -NONE- , : `` '' or a full stop, before spans are numbered; PRT counts as
ADVP; brackets are matched one to one, with multiplicity.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from transformer.trees import Leaf, Tree

DELETED = frozenset(("TOP", "S1", "-NONE-", ",", ":", "``", "''", "."))
EQUAL = {"PRT": "ADVP"}


@dataclass(frozen=True)
class Counts:
    """One sentence. `error`: the words that are left are not the same, and nothing can be matched."""

    gold: int
    ours: int
    matched: int
    crossing: int
    words: int
    tags: int  # that are right
    error: bool = False


def compare(gold: Tree, ours: Tree) -> Counts:
    (golden, golden_leaves), (brackets, leaves) = brackets_of(gold), brackets_of(ours)
    if [leaf.word for leaf in golden_leaves] != [leaf.word for leaf in leaves]:
        return Counts(golden.total(), brackets.total(), 0, 0, len(golden_leaves), 0, error=True)
    crossing = sum(
        count
        for (_, start, end), count in brackets.items()
        if any(start < low < end < high or low < start < high < end for _, low, high in golden)
    )
    tags = sum(theirs.tag == own.tag for theirs, own in zip(golden_leaves, leaves, strict=True))
    return Counts(golden.total(), brackets.total(), (golden & brackets).total(), crossing, len(leaves), tags)


def brackets_of(tree: Tree) -> tuple[Counter[tuple[str, int, int]], list[Leaf]]:
    """Label, first word and end of every bracket, and the words that count."""
    found: Counter[tuple[str, int, int]] = Counter()
    leaves: list[Leaf] = []

    def walk(node: Tree | Leaf) -> None:
        if isinstance(node, Leaf):
            if node.tag not in DELETED:
                leaves.append(node)
            return
        start = len(leaves)
        for child in node.children:
            walk(child)
        if len(leaves) > start and node.label not in DELETED:
            found[EQUAL.get(node.label, node.label), start, len(leaves)] += 1

    walk(tree)
    return found, leaves
