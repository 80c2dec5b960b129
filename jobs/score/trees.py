"""Score trees (section 6.3, Table 4): labelled F1 by EVALB's rules, of a free search and of one among whole trees.

Reads   translations.parquet of both searches (jobs/translate); pairs/*.parquet of the treebank, column `tree`
Writes  scores.json, every figure; trees.parquet, a row per sentence: the treebank's tree, both of ours, their brackets

Every sentence counts. An output of the free search that is no tree over the words is repaired (`rebuild` of
transformer/tree_symbols.py) and counted as malformed. Beside `f1` stands what says how much that matters:
`f1_unrepaired`, in which a malformed output has no bracket right, and `f1_evalb`, EVALB's own figure of the output as
it is, which leaves out of its totals what it takes for errors, and so rewards them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray

from jobs.configs import ScoreConfig
from jobs.errors import UserError
from jobs.score.brackets import Counts, compare
from jobs.storage.artifacts import Artifact
from jobs.storage.object_store import filesystem
from transformer.tree_symbols import Tags, rebuild
from transformer.trees import Tree, read_trees

SHORT = 40  # words: of EVALB's second set of figures
LENGTHS = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 60), (61, 100_000))  # words, for F1 by length
TREES = "trees.parquet"
SCHEMA = pa.schema(
    [
        ("line", pa.int64()),
        ("words", pa.int32()),
        ("part", pa.string()),
        ("gold", pa.string()),  # Penn brackets, all three
        ("free", pa.string()),
        ("well_formed", pa.string()),
        ("repaired", pa.bool_()),  # the output of the free search
        ("f1", pa.float64()),  # of this sentence
        ("f1_well_formed", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Scored:
    """A sentence: what its treebank says and what ours did."""

    gold: Tree
    part: str | None
    free: Tree
    repaired: bool
    well_formed: Tree
    counts: Counts  # of the free search, repaired
    counts_well_formed: Counts

    @property
    def words(self) -> int:
        return len(self.gold.leaves)


def score(
    translations: Artifact, well_formed: Artifact, treebank: Artifact, config: ScoreConfig, out: Artifact
) -> dict[str, Any]:
    """Write trees.parquet; f1, precision, recall and the like, and the same of the well-formed search."""
    tags: Tags = translations.read_json("about.json")["tags"]
    outputs = [hypotheses(each) for each in (translations, well_formed)]
    golds, parts = gold_trees(treebank)
    if not len(golds) == len(outputs[0]) == len(outputs[1]):
        raise UserError(
            f"There are {len(golds):,} trees and {len(outputs[0]):,} and {len(outputs[1]):,} translations of them. "
            "Delete the translations and translate again."
        )
    found, table = ray.get(_scored.remote(golds, parts, outputs, tags, config))
    with out.writing(TREES) as path:
        pq.write_table(table, path)
    facts: dict[str, Any] = found
    return facts


def hypotheses(translations: Artifact) -> list[str]:
    store, path = filesystem(translations, "translations.parquet")
    table = pq.read_table(path, filesystem=store, columns=["line", "hypothesis"]).sort_by("line")
    return [text or "" for text in table["hypothesis"].to_pylist()]


def gold_trees(treebank: Artifact) -> tuple[list[str], list[str | None]]:
    """The treebank's trees in their order, as text, and the part of the set that each is in."""
    trees: list[str] = []
    parts: list[str | None] = []
    for name in treebank.names("pairs"):
        store, path = filesystem(treebank, f"pairs/{name}")
        table = pq.read_table(path, filesystem=store, columns=["tree", "part"])
        trees += table["tree"].to_pylist()
        parts += table["part"].to_pylist()
    return trees, parts


@ray.remote(num_cpus=1)
def _scored(
    golds: list[str], parts: list[str | None], outputs: list[list[str]], tags: Tags, config: ScoreConfig
) -> tuple[dict[str, Any], pa.Table]:
    scored = [
        score_sentence(gold, part, free, whole, tags)
        for gold, part, free, whole in zip(golds, parts, *outputs, strict=True)
    ]
    return figures_of(scored, config), sentence_table(scored)


def score_sentence(gold_text: str, part: str | None, free: str, whole: str, tags: Tags) -> Scored:
    """Tags that were not predicted are the treebank's own, since EVALB tells punctuation by its tag."""
    (gold,) = read_trees(gold_text, "the treebank")
    given = None if tags == "keep" else gold.tags
    ours, repaired = rebuild(free.split(), gold.words, given, tags)
    constrained, _ = rebuild(whole.split(), gold.words, given, tags)
    return Scored(gold, part, ours, repaired, constrained, compare(gold, ours), compare(gold, constrained))


# --- figures over a set -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Totals:
    """Sums over sentences, as rows: matched, gold, ours, complete, crossing, tags, words, error."""

    rows: np.ndarray[Any, np.dtype[np.int64]]

    @classmethod
    def of(cls, counts: Sequence[Counts]) -> Totals:
        rows = [
            (
                c.matched,
                c.gold,
                c.ours,
                c.matched == c.gold == c.ours and not c.error,
                c.crossing,
                c.tags,
                c.words,
                c.error,
            )
            for c in counts
        ]
        return cls(np.array(rows, dtype=np.int64).reshape(-1, 8))

    def f1(self) -> float:
        matched, gold, ours = self.rows[:, :3].sum(axis=0)
        return f1_of(matched, gold, ours)

    def figures(self) -> dict[str, float]:
        matched, gold, ours, complete, crossing, tags, words, _ = (int(total) for total in self.rows.sum(axis=0))
        sentences = max(1, len(self.rows))
        return {
            "f1": f1_of(matched, gold, ours),
            "precision": percent(matched, ours),
            "recall": percent(matched, gold),
            "complete_match": percent(complete, sentences),
            "crossing": crossing / sentences,  # brackets per sentence
            "tag_accuracy": percent(tags, words),
        }

    def interval(self, resamples: int, seed: int) -> tuple[float, float]:
        """95 % by bootstrap over the sentences."""
        drawn = np.random.default_rng(seed).integers(0, len(self.rows), (resamples, len(self.rows)))
        sums = np.stack([self.rows[some, :3].sum(axis=0) for some in drawn])
        values = np.sort([f1_of(*row) for row in sums])
        low, high = (float(values[int(share * (resamples - 1))]) for share in (0.025, 0.975))
        return low, high


def f1_of(matched: float, gold: float, ours: float) -> float:
    return 200.0 * float(matched) / float(gold + ours) if gold + ours else 0.0


def percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


def figures_of(scored: Sequence[Scored], config: ScoreConfig) -> dict[str, int | float | str]:
    """Every figure under one name, for the record and the tracking server."""
    free, whole = Totals.of([each.counts for each in scored]), Totals.of([each.counts_well_formed for each in scored])
    facts: dict[str, int | float | str] = dict(free.figures())
    if config.bootstrap > 1:
        facts["f1_low"], facts["f1_high"] = free.interval(config.bootstrap, config.seed)
    facts |= {f"{name}_well_formed": value for name, value in whole.figures().items()}
    broken = np.array([each.repaired for each in scored])
    wrong = free.rows.copy()
    wrong[broken, 0] = 0
    errors = broken | (free.rows[:, 7] > 0)
    facts |= {
        "f1_unrepaired": Totals(wrong).f1(),
        "f1_evalb": Totals(free.rows[~errors]).f1(),
        "evalb_errors": int(errors.sum()),
        "malformed_percent": percent(int(broken.sum()), len(scored)),
        "lines": len(scored),
    }
    lengths = np.array([each.words for each in scored])
    for suffix, totals in (("", free), ("_well_formed", whole)):
        facts[f"f1_to_{SHORT}_words{suffix}"] = Totals(totals.rows[lengths <= SHORT]).f1()
        for low, high in LENGTHS:
            rows = totals.rows[(lengths >= low) & (lengths <= high)]
            if len(rows):
                facts[f"f1_{length_name(low, high)}{suffix}"] = Totals(rows).f1()
    return facts | part_figures(scored)


def length_name(low: int, high: int) -> str:
    return f"words_{low}_to_{high}" if high < LENGTHS[-1][1] else f"words_from_{low}"


def part_figures(scored: Sequence[Scored]) -> dict[str, float]:
    """F1 of the named parts of the set, where it has some."""
    parts = sorted({each.part for each in scored if each.part is not None})
    return {f"f1_part_{part}": Totals.of([each.counts for each in scored if each.part == part]).f1() for part in parts}


def sentence_table(scored: Sequence[Scored]) -> pa.Table:
    rows = [
        {
            "line": line,
            "words": each.words,
            "part": each.part,
            "gold": str(each.gold),
            "free": str(each.free),
            "well_formed": str(each.well_formed),
            "repaired": each.repaired,
            "f1": Totals.of([each.counts]).f1(),
            "f1_well_formed": Totals.of([each.counts_well_formed]).f1(),
        }
        for line, each in enumerate(scored)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)
