"""Score translations both ways: as sacreBLEU does, and as the paper did (section 6; transformer/bleu.py).

Reads   translations.parquet, about.json of jobs/translate      Writes  scores.json, every figure with its signature
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import ray

from jobs.configs import Resources, ScoreConfig
from jobs.errors import UserError
from jobs.events import Facts, Log, Note
from jobs.score import trees
from jobs.storage.artifacts import RECORD, Artifact
from jobs.storage.object_store import filesystem
from transformer import bleu

# What the translations know of the model and a table of scores wants beside them.
CARRIED = ("perplexity", "parameters")


def run(
    config: ScoreConfig,
    *,
    translations: Artifact,
    out: Artifact,
    on: Resources,
    log: Log,
    treebank: Artifact | None = None,
    well_formed: Artifact | None = None,
) -> Facts:
    """Facts: bleu, bleu_intl, bleu_paper, chrf with their signatures, the interval, the BLEU of each part.

    Of trees: f1 and what belongs to it (trees.py). They come with their treebank and a second, well-formed search.
    """
    if treebank is not None and well_formed is not None:
        return _score_trees(config, translations, well_formed, treebank, out, log)
    files, path = filesystem(translations, "translations.parquet")
    table = pq.read_table(path, filesystem=files, columns=["line", "reference", "hypothesis", "part"])
    table = table.sort_by("line")
    require_lines(table, config.lines)
    language = str(translations.read_json("about.json")["target_language"])
    scores: dict[str, Any] = ray.get(_measured.remote(table, language, config.bootstrap, config.seed))
    carried = _carried(translations)
    out.write_json("scores.json", {"lines": table.num_rows, "target_language": language, **scores, **carried})
    facts = flat(scores) | carried | {"lines": table.num_rows}
    log(Note(f"BLEU {facts['bleu']:.2f} (13a), {facts['bleu_paper']:.2f} (the paper's protocol)"))
    return facts


def _score_trees(
    config: ScoreConfig, translations: Artifact, well_formed: Artifact, treebank: Artifact, out: Artifact, log: Log
) -> Facts:
    found = trees.score(translations, well_formed, treebank, config, out)
    if config.lines is not None and found["lines"] != config.lines:
        raise UserError(
            f"The treebank's set has {found['lines']} trees and is known to have {config.lines}. Check its files, or "
            "set scoring.lines if it is another one."
        )
    out.write_json("scores.json", found)
    log(
        Note(
            f"F1 {found['f1']:.2f}, well-formed {found['f1_well_formed']:.2f}, by EVALB's rule {found['f1_evalb']:.2f}"
        )
    )
    return dict(found) | _carried(translations)


def require_lines(table: pa.Table, lines: int | None) -> None:
    """The whole test set or nothing: a score over a part of it would pass for the score."""
    if table.num_rows == 0:
        raise UserError("The test set has no lines, so there is nothing to score. Check the corpus of the test set.")
    if lines is not None and table.num_rows != lines:
        raise UserError(
            f"The translations have {table.num_rows} lines and the test set is known to have {lines}. "
            f"Check the test set's files, or set score.lines if the set is another one."
        )
    expected = pa.array(range(table.num_rows), pa.int64())
    if not pc.all(pc.equal(table["line"].combine_chunks(), expected)).as_py():
        raise UserError(
            "The translations do not have each line of the test set exactly once. Delete them and translate again."
        )


@ray.remote(num_cpus=1)
def _measured(table: pa.Table, language: str, bootstrap: int, seed: int) -> dict[str, Any]:
    return measured(table, language, bootstrap, seed)


def measured(table: pa.Table, language: str, bootstrap: int, seed: int) -> dict[str, Any]:
    """The content of scores.json: {"scores": {name: score}, "parts": {part: {"lines": n, "scores": {name: score}}}}."""
    parts = sorted(part for part in pc.unique(table["part"]).to_pylist() if part is not None)
    by_part: dict[str, Any] = {}
    for part in parts:
        rows = table.filter(pc.equal(table["part"], part))
        by_part[part] = {"lines": rows.num_rows, "scores": _all_scores(rows, language, 1, seed)}
    return {"scores": _all_scores(table, language, bootstrap, seed), "parts": by_part}


def _all_scores(table: pa.Table, language: str, bootstrap: int, seed: int) -> dict[str, Any]:
    scores = bleu.all_scores(
        table["hypothesis"].to_pylist(),
        table["reference"].to_pylist(),
        language=language,
        bootstrap=bootstrap,
        seed=seed,
    )
    return {name: dataclasses.asdict(score) for name, score in scores.items()}


def flat(scores: Mapping[str, Any]) -> dict[str, int | float | str]:
    """The same figures under one name each, for the record and the tracking server."""
    facts: dict[str, int | float | str] = {}
    for name, score in scores["scores"].items():
        facts[name] = score["value"]
        facts[f"{name}_signature"] = score["signature"]
        if score["low"] is not None:
            facts |= {f"{name}_low": score["low"], f"{name}_high": score["high"]}
    for part, measured_part in scores["parts"].items():
        facts[f"bleu_part_{fact_name(part)}"] = measured_part["scores"]["bleu"]["value"]
    return facts


def fact_name(part: str) -> str:
    """A part's name in the letters that every tracking store takes."""
    return re.sub(r"[^0-9A-Za-z_]+", "_", part).strip("_")


def _carried(translations: Artifact) -> dict[str, int | float | str]:
    facts = translations.facts if translations.exists(RECORD) else {}
    return {name: facts[name] for name in CARRIED if name in facts}
