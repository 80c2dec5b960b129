"""Language pairs: what is shipped as data is consistent, and a small WMT14 of our own text takes the real path."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import pickle
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import cast

import pyarrow.parquet as pq
import pytest
from conftest import ROOT
from loopback_mirror import Mirror, serving

from jobs.configs import Archive, ArchivesCorpus, Resources, SacrebleuSet
from jobs.corpora import job
from jobs.corpora.demo import language
from jobs.corpora.download import file_name
from jobs.errors import UserError
from jobs.storage.artifacts import Artifact
from pipelines.recipes.experiment import Experiment, row
from pipelines.recipes.language_pairs import PAIRS, PROFILES, LanguagePair
from pipelines.recipes.settings import apply

SMALL = 40  # pairs of each archive of the small WMT14


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_a_pair_is_whole(pair: LanguagePair) -> None:
    assert PAIRS[pair.name] is pair
    for archive in (*pair.archives, *cast(ArchivesCorpus, pair.dev).archives):
        assert re.fullmatch("[0-9a-f]{64}", archive.sha256 or "")
        assert archive.bytes
        assert archive.lines
        assert len(archive.urls) >= 2
        assert {file_name(dataclasses.replace(archive, urls=(url,))) for url in archive.urls} == {file_name(archive)}
        assert (
            archive.source_member.replace(f".{pair.source}", f".{pair.target}").replace("src", "ref")
            == archive.target_member
        )
    assert isinstance(pair.test, SacrebleuSet)
    assert pair.test.lines == pair.test_lines == 3_003
    assert pair.dev_lines == 3_000
    assert set(pair.expected) == set(PROFILES)
    for expected in pair.expected.values():
        assert expected.pairs <= pair.lines
        assert 0 < expected.within <= 0.1


def test_the_paper_and_the_files_agree_on_english_german() -> None:
    pair = PAIRS["en-de"]
    assert pair.lines == 4_520_620
    assert pair.lines == pytest.approx(pair.pairs_paper, rel=0.01)
    assert (pair.vocabulary_kind, pair.vocabulary_size) == ("bpe", 37_000)


def test_the_files_of_english_french() -> None:
    pair = PAIRS["en-fr"]
    assert pair.lines == 40_842_333
    assert (pair.vocabulary_kind, pair.vocabulary_size) == ("unigram", 32_000)
    assert [archive.name for archive in pair.archives][-2:] == ["un", "giga-fren"]


@pytest.mark.parametrize("name", PAIRS)
def test_the_vocabulary_is_the_pair_s_unless_it_is_set(name: str) -> None:
    def made(*settings: str) -> tuple[str, int]:
        step = row("model", apply(Experiment(), [f"corpus.pair={name}", *settings]), scored_on="test").vocabulary
        return step.config.kind, step.config.size

    assert made() == (PAIRS[name].vocabulary_kind, PAIRS[name].vocabulary_size)
    assert made("vocabulary.size=16000") == (PAIRS[name].vocabulary_kind, 16_000)
    with pytest.raises(UserError, match="at least 300"):
        made("vocabulary.size=0")


def test_a_language_pair_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(UserError, match=r"no language pair 'en-fi'\. Did you mean en-fr\?"):
        apply(Experiment(), ["corpus.pair=en-fi"])


def test_the_paper_drops_nothing_by_default() -> None:
    paper, clean = PROFILES["paper"], PROFILES["clean"]
    assert paper.max_words is None
    assert not paper.duplicates
    assert (clean.min_words, clean.max_words) == (1, 250)
    assert clean.duplicates


# --- WMT14 in small --------------------------------------------------------------------------------------------------


def sgml(lines: list[str]) -> bytes:
    segments = "\n".join(f'<seg id="{number}">{escape(line)}</seg>' for number, line in enumerate(lines, start=1))
    return f'<srcset setid="newstest2013">\n<doc docid="1">\n<p>\n{segments}\n</p>\n</doc>\n</srcset>\n'.encode()


def small_archive(archive: Archive, root: Path, mirror: Mirror, first: int) -> Archive:
    """The same archive with our own text in it: the same name, layout and members; its own size and checksum."""
    pairs = list(language.pairs(1, "train", first, first + SMALL))
    path = archive.urls[0].split("/", 3)[3]
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(root / path, "w" if path.endswith(".tar") else "w:gz") as made:
        for member, side in ((archive.target_member, 1), (archive.source_member, 0)):
            lines = [pair[side] for pair in pairs]
            text = sgml(lines) if member.endswith(".sgm") else "".join(f"{line}\n" for line in lines).encode()
            data = gzip.compress(text) if member.endswith(".gz") else text
            entry = tarfile.TarInfo(member)
            entry.size = len(data)
            made.addfile(entry, io.BytesIO(data))
    data = (root / path).read_bytes()
    return dataclasses.replace(
        archive,
        urls=(mirror.url(path, "missing"), mirror.url(path, "cuts-once")),
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        lines=SMALL,
    )


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as started:
        yield started


def small_corpus(corpus: ArchivesCorpus, mirror: Mirror) -> ArchivesCorpus:
    made = [small_archive(archive, mirror.root, mirror, n * SMALL) for n, archive in enumerate(corpus.archives)]
    return dataclasses.replace(corpus, archives=tuple(made))


def training(pair: LanguagePair) -> ArchivesCorpus:
    return ArchivesCorpus(archives=pair.archives, source_language=pair.source, target_language=pair.target)


def read(out: Artifact) -> list[tuple[str, str]]:
    tables = [pq.read_table(out.at(f"pairs/{name}")) for name in out.names("pairs")]
    return [(row["source"], row["target"]) for table in tables for row in table.to_pylist()]


@pytest.mark.ray
@pytest.mark.parametrize("name", PAIRS)
def test_a_small_wmt14_on_loopback(ray_session: None, tmp_path: Path, mirror: Mirror, name: str) -> None:
    """Real names and layout, by way of a mirror that is gone and one that cuts."""
    pair = PAIRS[name]
    for split, corpus in {"train": training(pair), "dev": cast(ArchivesCorpus, pair.dev)}.items():
        small = small_corpus(corpus, mirror)
        out = Artifact(str(tmp_path / "workspace" / "corpora" / split))
        facts = job.run(small, out=out, on=Resources(), log=lambda event: None)
        count = SMALL * len(corpus.archives)
        assert facts["pairs"] == count
        assert read(out) == [pair[:2] for pair in language.pairs(1, "train", 0, count)]
        about = out.read_json("about.json")
        assert [(each["name"], each["kept"]) for each in about["corpora"]] == [(a.name, SMALL) for a in corpus.archives]
    stored = {
        path.name.split("-", 1)[1]
        for path in (tmp_path / "workspace" / "downloads").glob("*-*")
        if path.suffix in (".tgz", ".tar")
    }
    assert stored == {file_name(archive) for archive in (*pair.archives, *cast(ArchivesCorpus, pair.dev).archives)}


RUN = """
import pickle, sys
from pathlib import Path
from pipelines.recipes import experiment
from pipelines.cli import main
experiment.PAIRS = {**experiment.PAIRS, "en-de": pickle.loads(Path(sys.argv[1]).read_bytes())}
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.ray
@pytest.mark.slow
def test_the_papers_recipe_makes_shards_of_a_small_wmt14(tmp_path: Path, mirror: Mirror) -> None:
    """`attn run base-en-de --until shards`, with nothing changed but what stands in the archives."""
    pair = PAIRS["en-de"]
    small = dataclasses.replace(
        pair,
        archives=small_corpus(training(pair), mirror).archives,
        dev=small_corpus(cast(ArchivesCorpus, pair.dev), mirror),
        dev_lines=SMALL,
    )
    (tmp_path / "pair").write_bytes(pickle.dumps(small))
    workspace = tmp_path / "workspace"
    words = ["run", "base-en-de", "--until", "shards", "--workspace", str(workspace), "--set", "vocabulary.size=450"]
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path / "pair"), *words],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    abouts = [Artifact(str(path.parent)).read_json(path.name) for path in (workspace / "shards").glob("*/about.json")]
    assert sorted(about["pairs"] for about in abouts) == [SMALL, SMALL * len(pair.archives)]
    assert {about["vocabulary_size"] for about in abouts} == {450}
    assert {about["micro_batch_tokens"] for about in abouts} == {3_125}


@pytest.mark.ray
def test_another_number_of_lines_is_refused(ray_session: None, tmp_path: Path, mirror: Mirror) -> None:
    small = small_corpus(training(PAIRS["en-de"]), mirror)
    wrong = dataclasses.replace(small, archives=tuple(dataclasses.replace(a, lines=SMALL + 1) for a in small.archives))
    out = Artifact(str(tmp_path / "workspace" / "corpora" / "train"))
    with pytest.raises(UserError, match=r"has 40 lines in .*, and 41 were expected"):
        job.run(wrong, out=out, on=Resources(), log=lambda event: None)


@pytest.mark.ray
def test_archives_that_are_on_disk_are_not_downloaded(ray_session: None, tmp_path: Path, mirror: Mirror) -> None:
    small = small_corpus(training(PAIRS["en-de"]), mirror)
    mine = tmp_path / "mine"
    mine.mkdir()
    for archive in small.archives:
        (mine / file_name(archive)).write_bytes((mirror.root / archive.urls[0].split("/", 4)[4]).read_bytes())
    out = Artifact(str(tmp_path / "workspace" / "corpora" / "train"))
    job.run(dataclasses.replace(small, from_directory=str(mine)), out=out, on=Resources(), log=lambda event: None)
    assert len(read(out)) == 3 * SMALL
    assert mirror.requests == []
