"""Fetching into a workspace on an object store, against a real S3 protocol server on loopback."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from loopback_mirror import serving

from jobs.configs import Archive, ArchivesCorpus, Corpus, FilesCorpus, Resources
from jobs.corpora import job
from jobs.corpora.archives import Member, Place, open_pair
from jobs.corpora.download import downloads_of, scratch_of, stored_name
from jobs.storage.artifacts import Artifact
from jobs.storage.object_store import ObjectStore, filesystem

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


@pytest.mark.parametrize("kind", ["tgz", "zip"])
def test_a_member_of_an_archive_is_read_without_a_copy_of_the_archive(
    kind: str, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / f"news.{kind}"
    for name, text in {"news.en": "one\n", "news.de": "eins\n"}.items():
        (tmp_path / name).write_text(text)
    if kind == "zip":
        with zipfile.ZipFile(file, "w") as zipped:
            for name in ("news.en", "news.de"):
                zipped.write(tmp_path / name, name)
    else:
        with tarfile.open(file, "w:gz") as made:
            for name in ("news.en", "news.de"):
                made.add(tmp_path / name, name)
    Artifact(bucket).publish(file, file.name)

    def refuse(*_: object) -> None:
        raise AssertionError("a copy")

    monkeypatch.setattr(ObjectStore, "fetch", refuse)
    with open_pair(Place(bucket, file.name), (Member("news.en", "en"), Member("news.de", "de"))) as (english, german):
        assert list(zip(english, german, strict=True)) == [(b"one", b"eins")]
