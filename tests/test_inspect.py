"""What `attn data show` knows: it must agree with the corpus that went in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_corpus import HERE, invent, write_corpus, write_vocabulary

from jobs.configs import CleaningConfig, ShardConfig
from jobs.errors import UserError
from jobs.shards import job
from jobs.shards.inspect import as_text, data_facts
from jobs.storage.artifacts import Artifact
from transformer.subwords import Subwords

PAIRS = [*invent(400, seed=3), ("", "nothing"), ("pa " * 150, "lena " * 100)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    directory = tmp_path_factory.mktemp("data")
    corpora = write_corpus(directory / "corpora", PAIRS)
    about = corpora.read_json("about.json") | {"read": 405, "dropped": {"bad utf-8": 3}}
    corpora.write_json("about.json", about | {"corpora": [{"name": "invented", "read": 405, "kept": 402}]})
    corpora.write_json("dropped.json", {"bad utf-8": [["?", "x"]]})
    vocabulary = write_vocabulary(directory / "vocabulary", corpora)
    shards = Artifact(str(directory / "shards"))
    config = ShardConfig(micro_batch_tokens=500, pool_pairs=200, cleaning=CleaningConfig(max_subwords=2000))
    with pytest.MonkeyPatch.context() as patch:  # do the tasks here, one after the other, and not by Ray
        patch.setattr(job, "map_items", lambda items, act, _: map(act, items))
        job.run(config, corpora=corpora, vocabulary=vocabulary, out=shards, on=HERE, log=lambda _: None)
    return {"corpora": corpora, "vocabulary": vocabulary, "shards": shards}


def test_the_facts_agree_with_the_corpus(made: dict[str, Artifact]) -> None:
    facts = data_facts(**made, samples=20)
    subwords = Subwords(made["vocabulary"].read_bytes("subwords.model"))
    kept = [(source, target) for source, target in PAIRS if source]
    lengths = [len(subwords.encode(source)) + 1 for source, _ in kept]
    assert facts["pairs"] == len(kept) == 401
    assert facts["source_tokens"] == sum(lengths)
    assert facts["dropped_from_corpora"] == {"bad utf-8": 3}
    assert facts["dropped_from_shards"] == {"empty": 1}
    assert facts["dropped_samples"] == {"bad utf-8": [["?", "x"]], "empty": [["", "nothing"]]}
    for row in facts["lengths"]:
        assert row["source"] == sum(row["from"] <= length <= row["to"] for length in lengths)
    assert {(pair["source"], pair["target"]) for pair in facts["sample"]} <= set(kept)
    assert len(facts["sample"]) == 20
    assert facts["longest"][0]["subwords"] == max(lengths)
    assert facts["longest"][0]["source"] == ("pa " * 150).strip()
    assert json.loads(json.dumps(facts)) == facts


def test_the_sample_is_drawn_by_the_seed(made: dict[str, Artifact]) -> None:
    first = data_facts(**made, seed=1)["sample"]
    assert first == data_facts(**made, seed=1)["sample"]
    assert first != data_facts(**made, seed=2)["sample"]


def test_the_text_shows_every_kind_of_fact(made: dict[str, Artifact]) -> None:
    facts = data_facts(**made)
    text = as_text(facts)
    for words in ("401 pairs of 405 read", "invented: 402 of 405", "3 bad utf-8", "1 empty", "padding:", "longest"):
        assert words in text
    assert all(pair["source"][:100] in text for pair in facts["sample"])


def test_data_that_is_not_there_yet_is_said_so(made: dict[str, Artifact], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no shards"):
        data_facts(**(made | {"shards": Artifact(str(tmp_path))}))
