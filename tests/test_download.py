"""Downloads, against a real server on loopback that cuts, stalls, lies, serves the wrong file and returns errors."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
import re
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from loopback_mirror import Mirror, serving
from survival_cluster import wait_for

from jobs.configs import Archive
from jobs.corpora.download import Download, RetryPolicy, download, downloads_of, fetch_archives, stored_name
from jobs.corpora.download_nodes import Room, choose, download_on_cluster
from jobs.corpora.reading import TaskReport
from jobs.errors import UserError
from jobs.events import Event, Note, Progress
from jobs.storage.artifacts import Artifact

DATA = Random(1).randbytes(100_000)
HASTY = RetryPolicy(stalled=1.0, tries=2, pause=0.01)


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    root = tmp_path / "served"
    root.mkdir()
    (root / "news.tgz").write_bytes(DATA)
    with serving(root) as started:
        yield started


def archive(mirror: Mirror, *hows: str, **changes: Any) -> Archive:
    whole = Archive(
        name="news",
        urls=tuple(mirror.url("news.tgz", how) for how in hows or ("good",)),
        source_member="news.en",
        target_member="news.de",
        bytes=len(DATA),
        sha256=hashlib.sha256(DATA).hexdigest(),
    )
    return dataclasses.replace(whole, **changes)


def get(wanted: Archive, directory: Path) -> bytes:
    return download(wanted, directory / "news.part", lambda have: None, HASTY).read_bytes()


@pytest.mark.parametrize(
    "hows",
    [
        ["good"],
        ["cuts"],  # every answer ends in the middle: forward by halves
        ["cuts-once"],
        ["broken-once"],
        ["no-ranges"],
        ["missing", "good"],
        ["broken", "good"],
        ["wrong-file", "good"],
        ["lies-short", "good"],
        ["lies-long", "good"],
        ["stalls", "good"],
        ["drips", "good"],
        ["cuts-once", "wrong-range", "good"],
        ["cuts-once", "wrong-file", "good"],  # two mirrors' halves make no whole: begun again
    ],
    ids="+".join,
)
def test_the_whole_file_comes_in_the_end(mirror: Mirror, tmp_path: Path, hows: list[str]) -> None:
    assert get(archive(mirror, *hows), tmp_path) == DATA


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("missing", "status 404"),
        ("broken", "status 503"),
        ("wrong-file", "sha256 is"),
        ("lies-short", "offers 99,000 bytes and 100,000 were expected"),
        ("lies-long", "offers 101,000 bytes"),
    ],
)
def test_what_no_mirror_can_give_gets_a_sentence(mirror: Mirror, tmp_path: Path, how: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        get(archive(mirror, how), tmp_path)
    for word in (words, "news could not be downloaded", mirror.url("news.tgz", how), "corpora.from=DIRECTORY"):
        assert word in str(error.value)


def test_nobody_listens(tmp_path: Path, mirror: Mirror) -> None:
    with pytest.raises(UserError, match="refused"):
        get(archive(mirror, urls=("http://127.0.0.1:9/news.tgz",)), tmp_path)
    with pytest.raises(UserError, match="not http"):
        get(archive(mirror, urls=("file:///etc/passwd",)), tmp_path)


def test_a_cut_download_goes_on_where_it_stopped(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "news.part").write_bytes(DATA[:60_000])  # of a run that was killed
    assert get(archive(mirror), tmp_path) == DATA
    assert mirror.requests == [("/good/news.tgz", "bytes=60000-")]


def test_a_part_that_is_not_of_this_file_is_begun_again(mirror: Mirror, tmp_path: Path) -> None:
    for strange in (b"x" * 60_000, b"x" * 100_000, b"x" * 200_000):
        (tmp_path / "news.part").write_bytes(strange)
        assert get(archive(mirror), tmp_path) == DATA


def test_without_a_checksum_the_length_that_is_served_counts(mirror: Mirror, tmp_path: Path) -> None:
    unknown = {"bytes": None, "sha256": None}
    assert get(archive(mirror, "cuts-once", **unknown), tmp_path) == DATA
    assert get(archive(mirror, **unknown), tmp_path) == DATA
    with pytest.raises(UserError, match="cut after 100,000 of 101,000"):
        get(archive(mirror, "lies-long", **unknown), tmp_path / "..")


def test_md5_is_checked_too(mirror: Mirror, tmp_path: Path) -> None:
    right = hashlib.md5(DATA).hexdigest()
    assert get(archive(mirror, bytes=None, sha256=None, md5=right), tmp_path) == DATA
    with pytest.raises(UserError, match="md5"):
        get(archive(mirror, bytes=None, sha256=None, md5="0" * 32), tmp_path)


def one_by_one(downloads: Sequence[Download]) -> Iterator[tuple[int, TaskReport]]:
    """In this process, without a cluster."""
    for number, wanted in enumerate(downloads):
        for said in wanted():
            yield number, said


class Corpus:
    """Archives fetched for a result in a workspace."""

    def __init__(
        self, workspace: Path, archives: list[Archive], directory: Path | None = None, run: Any = one_by_one
    ) -> None:
        self.out = Artifact(str(workspace / "corpora" / "0123"))
        self.events: list[Event] = []
        where = str(directory) if directory else None
        self.places = fetch_archives(archives, self.out, where, run=run, log=self.events.append, retry=HASTY)


def test_one_copy_per_workspace(mirror: Mirror, tmp_path: Path) -> None:
    wanted = archive(mirror)
    twice = Corpus(tmp_path / "w", [wanted, dataclasses.replace(wanted, name="again", source_member="x")])
    assert len(mirror.requests) == 1
    assert twice.places[0] == twice.places[1]
    Corpus(tmp_path / "w", [wanted])
    assert len(mirror.requests) == 1, "a second recipe finds it"
    stored = tmp_path / "w" / "downloads" / stored_name(wanted)
    assert stored.read_bytes() == DATA
    assert stored.name == f"{wanted.sha256[:12] if wanted.sha256 else ''}-news.tgz"


def test_two_runs_at_once_download_once(mirror: Mirror, tmp_path: Path) -> None:
    wanted = archive(mirror, "slow")
    threads = [threading.Thread(target=Corpus, args=(tmp_path / "w", [wanted])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(mirror.requests) == 1
    assert (tmp_path / "w" / "downloads" / stored_name(wanted)).read_bytes() == DATA


def several(mirror: Mirror, count: int) -> list[Archive]:
    for number in range(count):
        (mirror.root / f"{number}.tgz").write_bytes(DATA)
    return [
        archive(mirror, name=f"{number}", urls=(mirror.url(f"{number}.tgz", "slow"),), sha256=None, md5=None)
        for number in range(count)
    ]


def test_progress_is_told_in_one_sum(mirror: Mirror, tmp_path: Path) -> None:
    events = Corpus(tmp_path / "w", several(mirror, 3)).events
    told = [event for event in events if isinstance(event, Progress)]
    assert told
    assert all(event.total == pytest.approx(0.3) for event in told)
    assert all(event.done <= 0.3 for event in told)


def test_who_is_not_listened_to_any_more_stops(mirror: Mirror, tmp_path: Path) -> None:
    slow = archive(mirror, "drips", name="slow", sha256="1" * 64)
    said = Download(slow, Artifact(str(tmp_path)), None, RetryPolicy(stalled=30))()
    assert "have" in next(said)
    said.close()  # type: ignore[attr-defined]
    wait_for(lambda: not any(thread.name == "download" for thread in threading.enumerate()), "the download to end")


def test_a_failure_leaves_nothing_that_looks_whole(mirror: Mirror, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        Corpus(tmp_path / "w", [archive(mirror, "wrong-file")])
    left = [file.name for file in (tmp_path / "w" / "downloads").iterdir()]
    assert all(name.endswith((".part", ".lock")) for name in left)


def test_files_already_on_disk_are_looked_at_first(mirror: Mirror, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "news.tgz").write_bytes(DATA)
    corpus = Corpus(tmp_path / "w", [archive(mirror)], mine)
    assert corpus.places[0] == (str(mine), "news.tgz")
    assert mirror.requests == []
    (mine / "news.tgz").write_bytes(DATA[:-1])
    with pytest.raises(UserError, match=r"99,999 bytes instead of 100,000.*Remove it"):
        Corpus(tmp_path / "w", [archive(mirror)], mine)
    (mine / "news.tgz").unlink()
    Corpus(tmp_path / "w", [archive(mirror)], mine)
    assert len(mirror.requests) == 1, "what is not there is downloaded"
    (mine / "news.en").write_text("one\n")
    (mine / "news.de").write_text("eins\n")
    assert Corpus(tmp_path / "v", [archive(mirror)], mine).places[0] == (str(mine), "")
    with pytest.raises(UserError, match="There is no directory"):
        Corpus(tmp_path / "w", [archive(mirror)], tmp_path / "nowhere")


def test_a_full_disk_is_said_so(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "w" / "downloads").mkdir(parents=True)
    (tmp_path / "w" / "downloads" / f"{stored_name(archive(mirror))}.part").symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"disk under .* is full: news\.tgz needs 0\.0 GB"):
        Corpus(tmp_path / "w", [archive(mirror)])


def test_what_the_disk_has_no_room_for_is_refused_before_it_is_asked_for(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "w" / "downloads").mkdir(parents=True)
    with pytest.raises(UserError, match=rf"of {re.escape(platform.node())} is full: news\.tgz needs 1000000\.0 GB"):
        Corpus(tmp_path / "w", [archive(mirror, bytes=10**15)])
    assert mirror.requests == []


def test_a_node_is_chosen_by_what_it_has_of_it_and_by_its_room() -> None:
    store = Artifact("s3://bucket/downloads")
    wanted = [
        Download(Archive(name=name, urls=(f"http://x/{name}",), source_member="a", target_member="b", bytes=size),
                 store, None)
        for name, size in (("half", 10), ("large", 60), ("small", 30), ("last", 5))
    ]  # fmt: skip
    parts = {download.name: 0 for download in wanted}
    rooms = {"a": Room(20, {**parts, wanted[0].name: 5}), "b": Room(100, parts), "c": Room(50, parts)}
    assert choose(wanted, rooms) == ["a", "b", "c", "b"]
    assert choose(wanted, {}) == [None] * 4, "of a cluster whose nodes are yet to come"


# --- on Ray ----------------------------------------------------------------------------------------------------------


@pytest.mark.ray
def test_downloads_are_tasks_as_many_at_once_as_allowed_and_none_in_the_driver(
    ray_session: None, mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("in the driver")

    monkeypatch.setattr("jobs.corpora.download.download", refuse)
    wanted = several(mirror, 4)
    corpus = Corpus(tmp_path / "w", wanted, run=partial(download_on_cluster, at_once=2))
    assert mirror.most_at_once == 2
    assert [(tmp_path / "w" / "downloads" / place.name).read_bytes() for place in corpus.places] == [DATA] * 4
    assert {event.text for event in corpus.events if isinstance(event, Note)} == {
        f"{n}: {n}.tgz is whole" for n in range(4)
    }


@pytest.mark.ray
def test_one_failure_stops_the_others(ray_session: None, mirror: Mirror, tmp_path: Path) -> None:
    """A wrong checksum of the first is not told only when the last of 6 GB has come."""
    slow = archive(mirror, "drips", name="slow", sha256="1" * 64)
    with pytest.raises(UserError, match="status 404"):
        fetch_archives(
            [slow, archive(mirror, "missing")],
            Artifact(str(tmp_path / "w" / "corpora" / "0")),
            None,
            run=partial(download_on_cluster, at_once=2),
            log=lambda event: None,
            retry=RetryPolicy(stalled=30),
        )
    wait_for(lambda: mirror.at_once == 0, "the other to end, which would go on for minutes")


@pytest.mark.ray
def test_on_an_object_store_a_node_with_room_downloads(
    ray_session: None, mirror: Mirror, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Artifact(bucket).child("corpora/0123")
    (place,) = fetch_archives([archive(mirror)], out, None, run=partial(download_on_cluster, at_once=2), log=print)
    assert downloads_of(out).read_bytes(place.name) == DATA


def test_the_workspace_is_found_from_the_result() -> None:
    assert downloads_of(Artifact("/data/work/corpora/0123")).uri == "/data/work/downloads"
    assert downloads_of(Artifact("s3://b/w/corpora/01?region=x")).uri == "s3://b/w/downloads?region=x"
