"""Score trees (section 6.3, Table 4): labelled F1 by EVALB's rules, of a free search and of one among whole trees.

Reads   translations.parquet of both searches (jobs/translate); pairs/*.parquet of the treebank, column `tree`
Writes  scores.json, every figure; trees.parquet, a row per sentence: the treebank's tree, both of ours, their brackets

Every sentence counts: `f1` is the strict figure of transformer/parsing/evalb.py. An output of the free search that is
no tree over the words is repaired (`rebuild` of transformer/parsing/tree_symbols.py) and counted as malformed. Beside
`f1` stands what says how much that matters: `f1_unrepaired`, in which a malformed output has no bracket right, and
`f1_evalb`, EVALB's own figure of the output as it is, which leaves out of its totals what it takes for errors, and so
rewards them.

Where tags are predicted, too ("keep"), one wrong tag of punctuation makes the whole sentence wrong, as it makes it an
error to EVALB. `f1_gold_tags` says what the constituents are worth: the same trees with the treebank's tags put back.
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
from jobs.storage.artifacts import Artifact
from jobs.storage.object_store import filesystem
from transformer.parsing.evalb import (
    SIGNATURE_OWN_TAGS,
    SIGNATURE_STRICT,
    LengthGroup,
    ParseScores,
    SentenceScore,
    sentence_score,
    total,
)
from transformer.parsing.tree_symbols import Tags, rebuild
from transformer.parsing.trees import Tree, read_trees

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
    score: SentenceScore  # of the free search, repaired
    well_formed_score: SentenceScore


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
    return figures_of(scored, config, tags), sentence_table(scored)


def score_sentence(gold_text: str, part: str | None, free: str, whole: str, tags: Tags) -> Scored:
    """Tags that were not predicted are the treebank's own, since EVALB tells punctuation by its tag."""
    (gold,) = read_trees(gold_text, "the treebank")
    given = None if tags == "keep" else gold.tags
    ours, repaired = rebuild(free.split(), gold.words, given, tags)
    constrained, _ = rebuild(whole.split(), gold.words, given, tags)
    scores = sentence_score(gold, ours), sentence_score(gold, constrained)
    return Scored(gold, part, ours, repaired, constrained, *scores)


# --- figures over a set -------------------------------------------------------------------------------------------


def figures_of(scored: Sequence[Scored], config: ScoreConfig, tags: Tags) -> dict[str, int | float | str]:
    """Every figure under one name, for the record and the tracking server."""
    free, whole = total([each.score for each in scored]), total([each.well_formed_score for each in scored])
    as_written = [sentence_score(each.gold, None if each.repaired else each.free) for each in scored]
    broken = sum(each.repaired for each in scored)
    evalb = total([score for score, each in zip(as_written, scored, strict=True) if not each.repaired]).evalb
    facts: dict[str, int | float | str] = {
        **search_figures(free),
        **{f"{name}_well_formed": value for name, value in search_figures(whole).items()},
        "f1_unrepaired": total(as_written).strict.f1,
        "f1_evalb": evalb.f1,
        "evalb_errors": broken + evalb.errors,
        "f1_evalb_well_formed": whole.evalb.f1,  # no tree is malformed, but a tag of punctuation may be wrong ("keep")
        "evalb_errors_well_formed": whole.evalb.errors,
        "malformed_percent": 100.0 * broken / len(scored),
        "lines": len(scored),
        "f1_signature": SIGNATURE_OWN_TAGS if tags == "keep" else SIGNATURE_STRICT,
    }
    if tags == "keep":
        facts["f1_gold_tags"] = with_gold_tags([(each.gold, each.free) for each in scored])
        facts["f1_gold_tags_well_formed"] = with_gold_tags([(each.gold, each.well_formed) for each in scored])
    if config.bootstrap > 1:
        facts["f1_low"], facts["f1_high"] = interval([each.score for each in scored], config)
    return facts | part_figures(scored)


def with_gold_tags(pairs: Sequence[tuple[Tree, Tree]]) -> float:
    """Strict F1 of the parses with the treebank's tags in the place of their own."""
    return total([sentence_score(gold, parse.with_tags(gold.tags)) for gold, parse in pairs]).strict.f1


def search_figures(scores: ParseScores) -> dict[str, float]:
    """Of one search."""
    strict = scores.strict
    return {
        "f1": strict.f1,
        "precision": strict.precision,
        "recall": strict.recall,
        "complete_match": strict.complete,
        "crossing": strict.crossing,
        "tag_accuracy": strict.tag_accuracy,
        "f1_to_40_words": scores.strict_40.f1,
        **{length_name(group): group.strict.f1 for group in scores.by_length},
    }


def length_name(group: LengthGroup) -> str:
    if group.longest is None:
        return f"f1_words_from_{group.shortest}"
    return f"f1_words_{group.shortest}_to_{group.longest}"


def interval(scores: Sequence[SentenceScore], config: ScoreConfig) -> tuple[float, float]:
    """95 % by bootstrap over the sentences."""
    counts = np.array([(2 * s.strict.matched, s.strict.gold + s.strict.predicted) for s in scores])
    draw = np.random.default_rng(config.seed)
    sums = np.stack([counts[draw.integers(0, len(counts), len(counts))].sum(axis=0) for _ in range(config.bootstrap)])
    values = np.sort(100.0 * sums[:, 0] / np.maximum(sums[:, 1], 1))
    low, high = (float(values[int(share * (config.bootstrap - 1))]) for share in (0.025, 0.975))
    return low, high


def part_figures(scored: Sequence[Scored]) -> dict[str, float]:
    """F1 of the named parts of the set, where it has some."""
    parts = sorted({each.part for each in scored if each.part is not None})
    return {f"f1_part_{part}": total([each.score for each in scored if each.part == part]).strict.f1 for part in parts}


def sentence_table(scored: Sequence[Scored]) -> pa.Table:
    rows = [
        {
            "line": line,
            "words": each.score.length,
            "part": each.part,
            "gold": str(each.gold),
            "free": str(each.free),
            "well_formed": str(each.well_formed),
            "repaired": each.repaired,
            "f1": each.score.f1,
            "f1_well_formed": each.well_formed_score.f1,
        }
        for line, each in enumerate(scored)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)
