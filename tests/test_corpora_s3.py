"""Fetching into a workspace on an object store, against a real S3 protocol server on loopback."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from loopback_mirror import serving

from jobs.configs import Archive, ArchivesCorpus, Corpus, FilesCorpus, Resources
from jobs.corpora import job
from jobs.corpora.download import downloads_of, scratch_of, stored_name
from jobs.storage.artifacts import Artifact
from jobs.storage.object_store import filesystem

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def fetched(config: Corpus, out: Artifact) -> list[tuple[str, str]]:
    job.run(config, out=out, on=Resources(), log=lambda event: None)
    system, path = filesystem(out, "pairs")
    return [(row["source"], row["target"]) for row in pq.read_table(path, filesystem=system).to_pylist()]


def test_archives_and_files_on_s3(ray_session: None, bucket: str, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "news.tgz", "w:gz") as made:
        for name, data in {"news.en": b"one\ntwo\n", "news.de": b"eins\nzwei\n"}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            made.addfile(entry, io.BytesIO(data))
    data = (tmp_path / "news.tgz").read_bytes()
    with serving(tmp_path) as mirror:
        news = Archive(
            name="news",
            urls=(mirror.url("news.tgz", "cuts-once"),),
            source_member="news.en",
            target_member="news.de",
            bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
        )
        corpus = ArchivesCorpus(archives=(news,), source_language="en", target_language="de")
        out = Artifact(bucket).child("corpora/0123")
        assert fetched(corpus, out) == [("one", "eins"), ("two", "zwei")]
        assert out.read_json("about.json")["pairs"] == 2
        store = downloads_of(out)
        assert store.read_bytes(stored_name(news)) == data
        assert [file.name for file in scratch_of(store).iterdir()] == [f"{stored_name(news)}.lock"]
        asked = len(mirror.requests)
        again = dataclasses.replace(corpus, target_language="fr")
        assert len(fetched(again, Artifact(bucket).child("corpora/4567"))) == 2
        assert len(mirror.requests) == asked, "one copy per workspace"

    for name, text in {"my.en": "three\n", "my.de": "drei\n"}.items():
        Artifact(bucket).write_text(f"mine/{name}", text)
    mine = FilesCorpus(source=Artifact(bucket).at("mine/my.en"), target=Artifact(bucket).at("mine/my.de"))
    assert fetched(mine, Artifact(bucket).child("corpora/89ab")) == [("three", "drei")]
