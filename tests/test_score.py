"""The scoring job: every figure with its signature, parts apart, and no score over half a test set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.configs import Resources, ScoreConfig
from jobs.errors import UserError
from jobs.score import job
from jobs.storage.artifacts import Artifact
from transformer import bleu

REFERENCES = [
    "der Hund läuft schnell in den Wald .",
    "die Katze schläft heute sehr lange .",
    "wir sehen das Meer gern .",
]
HYPOTHESES = [
    "der Hund läuft schnell in den Garten .",
    "die Katze schläft heute sehr lang .",
    "wir sehen das Meer gern .",
]


def table(lines: list[int] | None = None) -> pa.Table:
    return pa.table(
        {
            "line": pa.array(lines if lines is not None else range(3), pa.int64()),
            "reference": REFERENCES,
            "hypothesis": HYPOTHESES,
            "part": ["long sentences", None, "short"],
        }
    )


def translations(directory: Path, rows: pa.Table) -> Artifact:
    made = Artifact(str(directory / "translations"))
    with made.writing("translations.parquet") as path:
        pq.write_table(rows, path)
    made.write_json("about.json", {"source_language": "en", "target_language": "de"})
    made.write_json("record.json", {"facts": {"perplexity": 4.5, "parameters": 10, "seconds": 3}})
    return made


@pytest.mark.ray
def test_the_job_writes_every_figure_with_its_signature(ray_session: None, tmp_path: Path) -> None:
    out = Artifact(str(tmp_path / "out"))
    shuffled = table().take([2, 0, 1])
    facts = job.run(
        ScoreConfig(lines=3, bootstrap=50),
        translations=translations(tmp_path, shuffled),
        out=out,
        on=Resources(),
        log=lambda event: None,
    )
    assert facts["bleu"] == bleu.bleu(HYPOTHESES, REFERENCES).value
    assert facts["bleu_paper"] == bleu.bleu_paper(HYPOTHESES, REFERENCES, language="de").value
    assert facts["bleu_low"] <= facts["bleu"] <= facts["bleu_high"]  # type: ignore[operator]
    assert facts["bleu_part_short"] == bleu.bleu(HYPOTHESES[2:], REFERENCES[2:]).value
    assert facts["bleu_part_long_sentences"] == bleu.bleu(HYPOTHESES[:1], REFERENCES[:1]).value
    assert (facts["perplexity"], facts["parameters"], facts["lines"]) == (4.5, 10, 3)
    written: dict[str, Any] = out.read_json("scores.json")
    for name in ("bleu", "bleu_intl", "bleu_paper", "chrf"):
        assert written["scores"][name]["value"] == facts[name]
        assert written["scores"][name]["signature"] == facts[f"{name}_signature"]
    assert written["parts"]["short"]["lines"] == 1


def test_a_missing_line_is_refused() -> None:
    with pytest.raises(UserError, match="3 lines and the test set is known to have 3003"):
        job.require_lines(table(), 3003)


def test_a_line_given_twice_is_refused() -> None:
    with pytest.raises(UserError, match="exactly once"):
        job.require_lines(table([0, 1, 1]), 3)


def test_nothing_to_score_is_refused() -> None:
    with pytest.raises(UserError, match="no lines"):
        job.require_lines(table().slice(0, 0), None)
