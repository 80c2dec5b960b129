"""Fetching a corpus, as the runner calls it: on a real Ray, into a directory of results."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sacrebleu.dataset import DATASETS

from jobs.configs import Corpus, DataResources, DemoCorpus, FilesCorpus, Resources, SacrebleuSet
from jobs.corpora import job
from jobs.corpora.demo import language
from jobs.corpora.kinds import demo
from jobs.corpora.kinds.sacrebleu_set import read_test_set
from jobs.errors import UserError
from jobs.events import Event, Note, Progress
from jobs.storage.artifacts import Artifact

pytestmark = pytest.mark.ray


class Fetched:
    """A corpus that has been fetched, and what was said while it was."""

    def __init__(self, config: Corpus, directory: Path, *, tasks: int = 2) -> None:
        self.out = Artifact(str(directory / "corpora" / "0123456789"))
        self.events: list[Event] = []
        self.facts = job.run(
            config, out=self.out, on=Resources(data=DataResources(tasks=tasks)), log=self.events.append
        )
        self.about: dict[str, Any] = self.out.read_json("about.json")

    @property
    def pairs(self) -> list[tuple[str, ...]]:
        names = [name for name in self.out.names("pairs") if name.endswith(".parquet")]
        tables = [pq.read_table(self.out.at(f"pairs/{name}")) for name in names]
        return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def files(directory: Path, source: bytes, target: bytes) -> FilesCorpus:
    (directory / "text.en").write_bytes(source)
    (directory / "text.de").write_bytes(target)
    return FilesCorpus(source=str(directory / "text.en"), target=str(directory / "text.de"))


def test_the_demo_language_is_the_same_on_any_number_of_tasks(
    ray_session: None, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(demo, "PAIRS_PER_TASK", 40)
    config = DemoCorpus(split="train", pairs=100)
    one, two = Fetched(config, tmp_path / "one", tasks=1), Fetched(config, tmp_path / "two", tasks=2)
    assert one.pairs == two.pairs == [pair[:2] for pair in language.pairs(1, "train", 0, 100)]
    assert one.facts["pairs"] == 100
    assert one.about["corpora"] == [{"name": "demo language", "read": 100, "kept": 100, "repaired": 0}]
    assert [event.done for event in one.events if isinstance(event, Progress)][-1] == 100


def test_a_demo_test_set_has_named_parts(ray_session: None, tmp_path: Path) -> None:
    fetched = Fetched(DemoCorpus(split="test", pairs=9), tmp_path)
    assert [part for _, _, part in fetched.pairs] == ["seen", "seen", "novel"] * 3


def test_pairs_stay_pairs_whatever_stands_in_the_lines(ray_session: None, tmp_path: Path) -> None:
    source = (
        b"\xef\xbb\xbfone\r\n\ntwo\xc2\x85two\nthree\xff\nfour\0\nfive\xe2\x80\xa8five\n" + b"x" * 2**20 + b"\nseven"
    )
    target = b"eins\nleer\nzwei\ndrei\nvier\n\x0cf\xc3\xbcnf\x0cf\xc3\xbcnf\nsechs\nsieben\n"
    fetched = Fetched(replace(files(tmp_path, source, target), max_unreadable=0.2), tmp_path)
    assert fetched.pairs == [("one", "eins"), ("two two", "zwei"), ("five five", "fünf fünf"), ("seven", "sieben")]
    assert fetched.about["read"] == 8
    assert fetched.about["dropped"] == {"empty line": 1, "not UTF-8": 1, "NUL character": 1, "line over 64 KiB": 1}
    assert fetched.about["repaired"] == 2
    sample = fetched.out.read_json("dropped.json")["not UTF-8"][0]
    assert (sample["line"], sample["target"]) == (4, "drei")
    lost = [[1, "", "leer"], [3, "", "drei"], [4, "", "vier"], [6, "", "sechs"]]
    assert fetched.out.read_json("unpaired.json") == lost, "so that a test set keeps its line numbers"
    assert [event for event in fetched.events if isinstance(event, Note)]


def test_gzip_is_known_by_its_first_bytes(ray_session: None, tmp_path: Path) -> None:
    fetched = Fetched(files(tmp_path, gzip.compress(b"one\ntwo\n"), b"eins\nzwei\n"), tmp_path)
    assert fetched.pairs == [("one", "eins"), ("two", "zwei")]


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (b"one\ntwo\nthree\n", b"eins\nzwei\n", ["text.en has 3 lines", "text.de has 2"]),
        (b"one\n", b"eins\nzwei\n\n", ["text.en has 1 lines", "text.de has 3"]),
        (b"", b"", ["empty", "text.en and"]),
        (b"\n\n", b"eins\n\n", ["All 2 were dropped: 2 empty line"]),
        (gzip.compress(b"one\n" * 9999)[:-20], b"eins\n" * 9999, ["text.en", "not copied whole"]),
        (b"one\n", b"\xff\xfee\0", ["text.de is UTF-16", "iconv"]),
        (b"one\n" * 9, b"eins\n" * 5 + b"sch\xf6n\n" * 4, ["4 of 9 lines of", "text.de cannot", "iconv -f LATIN1"]),
        (b"PK\3\4 and so on", b"eins\n", ["text.en is a zip archive"]),
    ],
)
def test_what_cannot_be_a_corpus_gets_a_sentence(
    ray_session: None, tmp_path: Path, source: bytes, target: bytes, words: list[str]
) -> None:
    with pytest.raises(UserError) as error:
        Fetched(files(tmp_path, source, target), tmp_path)
    assert type(error.value) is UserError, "Ray's own wrapping would print a stack trace"
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (b"one\ntwo\n", b"one\ntwo\n", "2 of 2 pairs of .*text.en and .*text.de have the same text on both sides"),
        (b"one\rtwo\r", b"eins\rzwei\r", "1 of 1 lines of .*text.en and .*text.de have other line breaks inside"),
        (b"one\r\ntwo\r\n", b"eins\nzwei\n", "text.en ends its lines with CR LF, the other side does not"),
    ],
)
def test_what_is_likely_a_mistake_is_said(
    ray_session: None, tmp_path: Path, source: bytes, target: bytes, words: str
) -> None:
    notes = [
        event.text for event in Fetched(files(tmp_path, source, target), tmp_path).events if isinstance(event, Note)
    ]
    assert any(re.search(words, note) for note in notes)


def test_a_missing_file_is_named(ray_session: None, tmp_path: Path) -> None:
    config = files(tmp_path, b"one\n", b"eins\n")
    (tmp_path / "text.de").unlink()
    with pytest.raises(UserError, match=r"There is no file .*text\.de"):
        Fetched(config, tmp_path)


def test_a_large_corpus_is_cut_into_parts(ray_session: None, tmp_path: Path) -> None:
    count = 210_000
    numbers = "".join(f"line {number}\n" for number in range(count)).encode()
    fetched = Fetched(files(tmp_path, numbers, numbers.replace(b"line", b"Zeile")), tmp_path)
    assert fetched.out.names("pairs") == ["part-00000.parquet", "part-00001.parquet"]
    pairs = fetched.pairs
    assert len(pairs) == count
    assert all(source.split()[1] == target.split()[1] for source, target in pairs)
    assert pq.ParquetFile(fetched.out.at("pairs/part-00000.parquet")).num_row_groups == 20


def sacrebleu_set(directory: Path, lines: int) -> SacrebleuSet:
    """A test set as sacreBLEU keeps it once it has fetched it."""
    for field in DATASETS["wmt14/full"].fieldnames("en-de"):
        content = "".join(f"{field} {number}\n" for number in range(lines))
        (directory / f"wmt14_full.en-de.{field}").write_text(content)
    return SacrebleuSet(name="wmt14/full", lines=3_003, source_language="en", target_language="de")


def test_a_sacrebleu_set_has_its_known_size(ray_session: None, tmp_path: Path, monkeypatch: Any) -> None:
    """Read in this process: what a test changes in sacreBLEU is not changed in a worker."""
    monkeypatch.setattr(DATASETS["wmt14/full"], "_outdir", str(tmp_path))
    out = Artifact(str(tmp_path / "corpora" / "1"))
    said = list(read_test_set(sacrebleu_set(tmp_path, 3_003), out))
    assert said[-1]["tally"]["kept"] == 3_003
    with pytest.raises(UserError, match="has 3,002 lines, and 3,003 were expected"):
        list(read_test_set(sacrebleu_set(tmp_path, 3_002), out))


def test_a_sacrebleu_set_that_does_not_exist_gets_a_sentence(tmp_path: Path) -> None:
    config = SacrebleuSet(name="wmt14/none", lines=1, source_language="en", target_language="de")
    with pytest.raises(UserError, match="No such test set wmt14/none"):
        list(read_test_set(config, Artifact(str(tmp_path))))
