"""The translating job: the words of the model alone, in the order of the test set, and resumed where it stopped."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_model import random_directory, source_lines, target_line

from jobs.configs import Resources, TranslateConfig, TranslateResources
from jobs.corpora.aligned_lines import UNPAIRED
from jobs.errors import UserError
from jobs.events import Event, Note, Progress
from jobs.storage.artifacts import Artifact
from jobs.translate import job
from transformer.config import SearchConfig
from transformer.subwords import Subwords
from transformer.translator import Translator

SEARCH = SearchConfig(beam=2, extra_length=4, n_best=2)
ON = Resources(translate=TranslateResources(actors=2, cpus_per_actor=1, batch_tokens=30))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return Artifact(str(random_directory(tmp_path_factory.mktemp("model"))))


@pytest.fixture
def testset(tmp_path: Path) -> Artifact:
    """Two files of pairs, a blank line among them, parts named in one file only."""
    made = Artifact(str(tmp_path / "testset"))
    sources = [*source_lines(12, seed=3), "", *source_lines(11, seed=4)]
    references = [target_line(line) for line in sources]
    first = pa.table({"source": sources[:10], "target": references[:10], "part": ["easy"] * 10})
    second = pa.table({"source": sources[10:], "target": references[10:]})
    for number, table in enumerate((first, second)):
        with made.writing(f"pairs/part-{number:05d}.parquet") as path:
            pq.write_table(table, path)
    made.write_json("about.json", {"source_language": "ka", "target_language": "ak", "pairs": 24})
    return made


def run(model: Artifact, testset: Artifact, out: Artifact, on: Resources = ON) -> tuple[Any, list[Event]]:
    events: list[Event] = []
    facts = job.run(TranslateConfig(search=SEARCH), model=model, testset=testset, out=out, on=on, log=events.append)
    return facts, events


@pytest.mark.ray
def test_the_job_says_what_the_model_says_line_by_line(
    ray_session: None, model: Artifact, testset: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the test set, in the driver")

    out = Artifact(str(tmp_path / "out"))
    with monkeypatch.context() as patched:
        patched.setattr(job, "read_pairs", refuse)
        facts, events = run(model, testset, out)
    table = pq.read_table(tmp_path / "out" / "translations.parquet")
    pairs = job.read_pairs(testset)
    translator = Translator.load(Path(model.uri))
    alone = [translator.translate([source], SEARCH)[0] for source in pairs["source"].to_pylist()]
    assert table["line"].to_pylist() == list(range(24))
    assert table["source"].to_pylist() == pairs["source"].to_pylist()
    assert table["part"].to_pylist() == ["easy"] * 10 + [None] * 14
    assert table["hypothesis"].to_pylist() == [t.text for t in alone]
    assert table["tokens"].to_pylist() == [t.tokens for t in alone]
    assert table["score"].to_pylist() == pytest.approx([t.score for t in alone], abs=1e-4)
    assert [[a["text"] for a in several] for several in table["alternatives"].to_pylist()] == [
        [a.text for a in t.alternatives] for t in alone
    ]
    assert table["hypothesis"][12].as_py() == ""
    assert out.read_text("hypotheses.txt").split("\n")[:-1] == [t.text for t in alone]
    assert out.read_json("about.json")["target_language"] == "ak"
    assert out.read_json("about.json")["search"]["beam"] == 2

    whole = [row for row in pairs.to_pylist() if row["source"]]  # a blank line counts for nothing
    forced = translator.forced([row["source"] for row in whole], [row["reference"] for row in whole])
    perplexity = math.exp(-sum(f.log_probability for f in forced) / sum(f.tokens for f in forced))
    assert facts["perplexity"] == pytest.approx(perplexity, rel=1e-4)
    assert facts["sentences"] == 24
    assert facts["target_tokens"] == sum(t.tokens for t in alone)
    assert facts["parameters"] == 12345
    assert facts["tokens_per_second"] > 0
    said = [event for event in events if isinstance(event, Progress)]
    assert (said[-1].done, said[-1].total) == (24, 24)


@pytest.mark.ray
def test_an_interrupted_job_goes_on_where_it_stopped(
    ray_session: None, model: Artifact, testset: Artifact, tmp_path: Path
) -> None:
    """Even with other batches than before; and the result is that of a job that was never interrupted."""
    out = Artifact(str(tmp_path / "out"))
    run(model, testset, out)
    whole = out.read_bytes("hypotheses.txt")
    batches = out.names("work")
    assert len(batches) >= 3
    for name in batches[1:]:
        out.delete(f"work/{name}")
    kept = pq.read_table(tmp_path / "out" / "work" / batches[0])["line"].to_pylist()
    bigger = replace(ON, translate=replace(ON.translate, batch_tokens=500, actors=1))
    facts, events = run(model, testset, out, bigger)
    assert out.read_bytes("hypotheses.txt") == whole
    assert facts["sentences"] == 24
    assert next(e for e in events if isinstance(e, Note)).text.startswith(f"{len(kept)} of 24")
    assert next(e for e in events if isinstance(e, Progress)).done > len(kept)
    again, events = run(model, testset, out)
    assert again == {**facts, "seconds": again["seconds"], "tokens_per_second": again["tokens_per_second"]}
    assert not [e for e in events if isinstance(e, Progress)], "all was there already"


def test_lines_that_could_not_be_paired_are_back_in_their_places(testset: Artifact) -> None:
    before = job.read_pairs(testset).to_pylist()
    testset.write_json(UNPAIRED, [[0, "", "nothing"], [1, "kat", ""], [13, "", ""], [27, "", "last"]])
    after = job.read_pairs(testset).to_pylist()
    assert [row["line"] for row in after] == list(range(28))
    assert [after[line]["source"] for line in (0, 1, 13, 27)] == ["", "kat", "", ""]
    assert [after[line]["reference"] for line in (0, 1, 13, 27)] == ["nothing", "", "", "last"]
    kept = [row for line, row in enumerate(after) if line not in (0, 1, 13, 27)]
    assert [(row["source"], row["part"]) for row in kept] == [(row["source"], row["part"]) for row in before]


def test_a_line_done_twice_counts_once(tmp_path: Path) -> None:
    work = Artifact(str(tmp_path / "work"))
    for name, lines in (("a.parquet", [0, 1]), ("b.parquet", [1, 2])):
        rows: dict[str, list[Any]] = {"line": lines}
        for field in job.DONE:
            if field.name != "line":
                filler: Any = "" if field.type == pa.string() else [] if pa.types.is_list(field.type) else 1
                rows[field.name] = [filler] * 2
        with work.writing(name) as path:
            pq.write_table(pa.table(rows, schema=job.DONE), path)
    assert sorted(job.read_done(work)["line"].to_pylist()) == [0, 1, 2]
    assert job.missing_lines(5, work) == [3, 4]


def test_a_batch_is_named_by_its_lines() -> None:
    assert job.batch_name([3, 1]) == job.batch_name([3, 1])
    assert job.batch_name([3, 1]) != job.batch_name([3, 2])


def test_a_line_without_end_is_refused_before_anything_starts(model: Artifact) -> None:
    pairs = pa.table({"line": [0, 1], "source": ["ka", "kaba " * 5_000], "reference": ["", ""]})
    subwords = Subwords(model.read_bytes("subwords.model"))
    with pytest.raises(UserError, match=r"Line 2 of the test set has \d+,\d+ subwords"):
        job.plan_batches(pairs, [0, 1], subwords, 100)


def test_a_directory_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no config.json, model.safetensors, subwords.model"):
        job.read_model(Artifact(str(tmp_path)))


def test_a_config_that_describes_no_model_is_refused(model: Artifact, tmp_path: Path) -> None:
    broken = Artifact(str(tmp_path / "broken"))
    for name in ("model.safetensors", "subwords.model"):
        broken.write_bytes(name, b"")
    broken.write_json("config.json", {"model": {"leyers": 2}, "vocabulary_size": 3})
    with pytest.raises(UserError, match=r"does not describe a model.*leyers"):
        job.read_model(broken)


def test_a_test_set_without_pairs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no pairs"):
        job.read_pairs(Artifact(str(tmp_path)))
