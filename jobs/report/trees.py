"""The trees of a parsing report: worst and best drawn with their errors, F1 by length, what was no tree.

Reads   trees.parquet of a row's scores (jobs/score/trees.py)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq
from markupsafe import Markup

from jobs.report import figures
from jobs.report.row_results import Row, choose
from jobs.report.tables import number
from jobs.report.tree_pictures import errors_svg
from jobs.storage.artifacts import Artifact
from jobs.storage.object_store import filesystem
from transformer.parsing.evalb import BINS
from transformer.parsing.trees import Tree, read_trees

TREES = "trees.parquet"
MOST_WORDS = 40  # of a sentence that is drawn, unless all are longer
GROUPS = tuple(zip((1, *[end + 1 for end in BINS]), (*BINS, None), strict=True))  # by words
SEARCHES = {"": "free search", "_well_formed": "well-formed search"}


@dataclass(frozen=True)
class TreeSample:
    """One sentence of the scored set: the parse of the free search, repaired where it had to be, and the gold tree."""

    line: int
    words: int
    f1: float
    f1_well_formed: float
    repaired: bool
    parse: Tree
    gold: Tree


def has_trees(scores: Artifact) -> bool:
    return scores.exists(TREES)


def read_samples(scores: Artifact, most: int) -> dict[str, list[TreeSample]]:
    """By F1, of equal ones the longest; only sentences that fit on a page where there are any."""
    store, path = filesystem(scores, TREES)
    rows = pq.read_table(path, filesystem=store).to_pylist()
    rows = [row for row in rows if row["words"] <= MOST_WORDS] or rows
    worst = sorted(rows, key=lambda row: (row["f1"], -row["words"], row["line"]))
    best = sorted(rows, key=lambda row: (-row["f1"], -row["words"], row["line"]))
    chosen = choose(worst, best, lambda row: int(row["line"]), most)
    return {kind: [sample_of(row) for row in found] for kind, found in chosen.items()}


def sample_of(row: Mapping[str, Any]) -> TreeSample:
    (parse,), (gold,) = read_trees(row["free"], "a parse"), read_trees(row["gold"], "the treebank")
    return TreeSample(row["line"], row["words"], row["f1"], row["f1_well_formed"], row["repaired"], parse, gold)


def section(samples: Mapping[str, Sequence[TreeSample]], row: Row) -> dict[str, Any] | None:
    """What the page says of trees."""
    if not samples:
        return None
    groups = [{"name": name, "sentences": [shown(sample) for sample in found]} for name, found in samples.items()]
    return {
        "text": "Parses of the free search beside the treebank's trees: the worst, the best and some at random, of "
        f"sentences of at most {MOST_WORDS} words. A wrong constituent is red with a cross, one that is missing blue "
        "with a plus in the gold tree.",
        "table": summary(row),
        "by_length": Markup(by_length(row)),
        "groups": groups,
    }


def shown(sample: TreeSample) -> dict[str, Any]:
    return {
        "line": sample.line + 1,
        "f1": number(sample.f1, 1),
        "f1_well_formed": number(sample.f1_well_formed, 1),
        "repaired": sample.repaired,
        "text": " ".join(sample.gold.words),
        "svg": Markup(errors_svg(sample.parse, sample.gold)),
    }


def summary(row: Row) -> dict[str, Any]:
    """Both searches side by side, as text."""
    lines = []
    for name, label in (
        ("f1", "F1, every sentence"),
        ("precision", "precision"),
        ("recall", "recall"),
        ("f1_to_40_words", "F1 to 40 words"),
        ("complete_match", "complete match, %"),
        ("crossing", "crossing brackets per sentence"),
        ("tag_accuracy", "tags right, %"),
    ):
        lines.append([label, *[number(row.fact(f"{name}{search}", "scores")) for search in SEARCHES]])
    for name, label in (
        ("f1_unrepaired", "F1, malformed output all wrong"),
        ("f1_gold_tags", "F1 with the treebank's tags put back"),
        ("f1_evalb", "F1 by EVALB's rule, its errors left out"),
        ("evalb_errors", "EVALB's errors, sentences"),
        ("malformed_percent", "no tree over the words, %"),
    ):
        if name == "f1_gold_tags" and row.fact(name, "scores") is None:  # no tags were predicted
            continue
        digits = 0 if name == "evalb_errors" else 2
        lines.append([label, *[number(row.fact(f"{name}{search}", "scores"), digits) for search in SEARCHES]])
    for shortest, longest in GROUPS:
        name = f"f1_words_{shortest}_to_{longest}" if longest else f"f1_words_from_{shortest}"
        cells = [row.fact(f"{name}{search}", "scores") for search in SEARCHES]
        if any(cell is not None for cell in cells):
            label = f"F1, {shortest} to {longest} words" if longest else f"F1, {shortest} words and more"
            lines.append([label, *map(number, cells)])
    return {"header": ["", *SEARCHES.values()], "lines": lines}


def by_length(row: Row) -> str:
    """F1 by the length of the sentence, both searches."""
    lines = []
    for search, label in SEARCHES.items():
        points = []
        for shortest, longest in GROUPS:
            name = f"f1_words_{shortest}_to_{longest}" if longest else f"f1_words_from_{shortest}"
            value = row.fact(f"{name}{search}", "scores")
            if value is not None:
                points.append((float(longest or 1.5 * shortest), value))
        lines.append(figures.Line(label, points))
    if not all(len(line.points) > 1 for line in lines):
        return ""
    return figures.line_chart(lines, x_label="words, at most", y_label="F1")
