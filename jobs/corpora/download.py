"""Fetch the archives of a corpus: in parallel, resumed after a cut, from mirrors in turn, checked by size and checksum.

Writes  <workspace>/downloads/<checksum>-<name>     one copy, however many recipes want it

A download appears under its name when it is whole and checked; before that it is a `.part` beside it, which the next
attempt goes on with. A workspace on an object store has its parts on a node's disk until they are whole
(download_nodes.py says on whose).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import http.client
import os
import platform
import shutil
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from queue import Empty, SimpleQueue
from threading import Event, Thread

from jobs.configs import Archive
from jobs.corpora.archives import Place, unpacked
from jobs.corpora.reading import TaskReport
from jobs.errors import UserError, reason_of
from jobs.events import Log, Note, Progress
from jobs.storage.artifacts import Artifact

BLOCK = 2**18
STALLED = 30.0  # seconds without a kilobyte a second
TRIES = 3  # rounds over all mirrors in which nothing is gained
PAUSE = 1.0  # seconds, doubled from round to round
NEVER = (401, 403, 404, 410, 451)  # statuses that another try does not change


class NotServed(Exception):
    """A mirror did not give us the file. `final`: it never will."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


@dataclass(frozen=True)
class RetryPolicy:
    """Limits of waiting for a mirror, in seconds, and of rounds over all mirrors."""

    stalled: float = STALLED
    tries: int = TRIES
    pause: float = PAUSE


RETRY_POLICY = RetryPolicy()


def downloads_of(out: Artifact) -> Artifact:
    """<workspace>/downloads, for a result at <workspace>/<stage>/<hash>."""
    address, mark, query = out.uri.partition("?")
    workspace = address.rstrip("/").rsplit("/", 2)[0]
    return Artifact(f"{workspace}/downloads{mark}{query}")


def file_name(archive: Archive) -> str:
    """The last part of its address."""
    return PurePosixPath(urllib.parse.urlparse(archive.urls[0]).path).name if archive.urls else archive.name


def stored_name(archive: Archive) -> str:
    checksum = archive.sha256 or archive.md5 or hashlib.sha256("\n".join(archive.urls).encode()).hexdigest()
    return f"{checksum[:12]}-{file_name(archive)}"


@dataclass(frozen=True)
class Download:
    """One archive, fetched by calling it wherever there is a disk; it says how far it is as it goes."""

    archive: Archive
    store: Artifact
    directory: str | None  # of the user's, looked into first
    retry: RetryPolicy = RETRY_POLICY

    @property
    def name(self) -> str:
        return stored_name(self.archive)

    @property
    def scratch(self) -> Path:
        """Where its part lies until it is whole."""
        return Path(self.store.uri) if self.store.is_local else scratch_of(self.store)

    def __call__(self) -> Iterator[TaskReport]:
        """Yields {"have": bytes} and {"note": sentence} as it goes, {"place": ...} at its end."""
        meter = Meter()

        def work() -> None:
            try:
                place = find_or_fetch(self, meter)
                meter.reports.put({"place": place})
            except Exception as error:
                meter.reports.put(error)

        Thread(target=work, daemon=True, name="download").start()
        try:
            whole = False
            while not whole:
                with contextlib.suppress(Empty):  # a wait without end could not be cancelled
                    report = meter.reports.get(timeout=0.5)
                    if isinstance(report, Exception):
                        raise report
                    whole = "place" in report
                    yield report
        finally:
            meter.stopped.set()


class Stopped(Exception):
    """Another download has failed, or the run has ended: there is no use in going on."""


class Meter:
    """What one download has, said twice a second; stops it when nobody listens any more."""

    def __init__(self) -> None:
        self.reports = SimpleQueue[TaskReport | Exception]()
        self.stopped = Event()
        self.reported = 0.0

    def at(self, have: int) -> None:
        if self.stopped.is_set():
            raise Stopped
        if time.monotonic() - self.reported > 0.5:
            self.reported = time.monotonic()
            self.reports.put({"have": have})

    def note(self, sentence: str) -> None:
        self.reports.put({"note": sentence})


def fetch_archives(
    archives: Sequence[Archive],
    out: Artifact,
    directory: str | None,
    *,
    run: Callable[[Sequence[Download]], Iterable[tuple[int, TaskReport]]],
    log: Log,
    retry: RetryPolicy = RETRY_POLICY,
) -> list[Place]:
    """Where each archive is, after `run` has called what is to be downloaded. The same file is fetched once."""
    store = downloads_of(out)
    distinct = {stored_name(archive): archive for archive in archives}
    places = {name: Place(store.uri, name) for name in distinct if not directory and store.exists(name)}
    downloads = [Download(archive, store, directory, retry) for name, archive in distinct.items() if name not in places]
    total = sum(download.archive.bytes or 0 for download in downloads)
    have = dict.fromkeys(range(len(downloads)), 0)
    for number, report in run(downloads):
        if "have" in report:
            have[number] = report["have"]
            log(Progress(sum(have.values()) / 1e6, total / 1e6 or None, "MB", downloads[number].archive.name))
        elif "note" in report:
            log(Note(report["note"]))
        else:
            places[downloads[number].name] = Place(*report["place"])
    return [places[stored_name(archive)] for archive in archives]


def find_or_fetch(wanted: Download, meter: Meter) -> Place:
    archive, store, scratch, name = wanted.archive, wanted.store, wanted.scratch, wanted.name
    if wanted.directory and (place := find(archive, wanted.directory)):
        return place
    if store.exists(name):
        return Place(store.uri, name)
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        waits = partial(meter.note, f"{archive.name}: another run is downloading it; waiting for that")
        with only_one(scratch / f"{name}.lock", waits):
            if not store.exists(name):  # another run may have fetched it while we waited
                require_room(wanted)
                part = download(archive, scratch / f"{name}.part", meter.at, wanted.retry)
                if store.is_local:
                    os.replace(part, scratch / name)
                else:
                    store.publish(part, name)
                    part.unlink()
                meter.note(f"{archive.name}: {file_name(archive)} is whole")
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise disk_full(wanted) from error
        raise UserError(f"{scratch} cannot be written: {reason_of(error)}.") from error
    return Place(store.uri, name)


def require_room(wanted: Download) -> None:
    """Refuse before the first byte what the disk has no room for."""
    left = (wanted.archive.bytes or 0) - size(wanted.scratch / f"{wanted.name}.part")
    if left > shutil.disk_usage(wanted.scratch).free:
        raise disk_full(wanted)


def disk_full(wanted: Download) -> UserError:
    return UserError(
        f"The disk under {wanted.scratch} of {platform.node()} is full: {file_name(wanted.archive)} needs "
        f"{(wanted.archive.bytes or 0) / 1e9:.1f} GB. Make room, or choose another --workspace; the download goes on "
        "where it stopped."
    )


def scratch_of(store: Artifact) -> Path:
    """A directory on this machine that stays the same from run to run."""
    name = hashlib.sha256(store.uri.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"attn-downloads-{os.getuid()}-{name}"


def find(archive: Archive, directory: str) -> Place | None:
    """In the user's own directory: the archive, or its members unpacked."""
    root = Path(directory).expanduser().resolve()
    if not root.is_dir():
        raise UserError(f"There is no directory {directory} to take the archives from.")
    file = root / file_name(archive)
    if file.is_file():
        if wrong := mismatch(archive, file):
            raise UserError(f"{file} is not the {archive.name} that is wanted: {wrong}. Remove it to download it.")
        return Place(str(root), file.name)
    members = (archive.source_member, archive.target_member)
    if all((root / unpacked(str(root), member)).is_file() for member in members):
        return Place(str(root), "")
    return None


@contextlib.contextmanager
def only_one(lock: Path, waits: Callable[[], None]) -> Iterator[None]:
    """One process, and one thread of it, at a time."""
    with open(lock, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- one file --------------------------------------------------------------------------------------------------------


def download(archive: Archive, part: Path, at: Callable[[int], None], retry: RetryPolicy = RETRY_POLICY) -> Path:
    """The whole, checked file at `part`. Mirrors are tried in turn; what has come is kept from try to try."""
    mirrors = list(archive.urls)
    complaints: dict[str, str] = {}
    tries = 0
    while mirrors and tries < retry.tries:
        before = size(part)
        for url in list(mirrors):
            try:
                transfer(url, part, archive.bytes, at, retry.stalled)
                if wrong := mismatch(archive, part):
                    part.unlink()
                    raise NotServed(wrong, final=before == 0)  # else an older part may have been to blame
                return part
            except NotServed as error:
                complaints[url] = str(error)
                if error.final:
                    mirrors.remove(url)
        tries = 0 if size(part) > before else tries + 1
        if mirrors and tries and tries < retry.tries:
            time.sleep(retry.pause * 2 ** (tries - 1))
    reasons = "; ".join(f"{url}: {why}" for url, why in complaints.items()) or "it has no address"
    raise UserError(
        f"{archive.name} could not be downloaded. {reasons}. Run again to go on where it stopped, or put "
        f"{file_name(archive)} in a directory and give --set corpora.from=DIRECTORY."
    )


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def transfer(url: str, part: Path, expected: int | None, at: Callable[[int], None], stalled: float) -> None:
    """Bring `part` forward by what the mirror sends, from where it ends."""
    have = size(part)
    if expected is not None and have >= expected:
        return  # whole, or more than whole: the check will tell
    headers = {"User-Agent": "attn", "Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        if urllib.parse.urlparse(url).scheme not in ("http", "https"):
            raise NotServed("the address is not http or https", final=True)
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=stalled) as answer:
            have, total = start_of(answer.status, answer.headers, have)
            if expected is not None and total is not None and total != expected:
                raise NotServed(f"it offers {total:,} bytes and {expected:,} were expected", final=True)
            receive(answer, part, have, total, at, stalled)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing after what we have: it may be whole, or not of this mirror
            if expected is not None or not have:
                part.unlink(missing_ok=True)
                raise NotServed("it has less than we already had", final=False) from error
            return
        raise NotServed(f"status {error.code} {error.reason}", final=error.code in NEVER) from error
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
        reason = getattr(error, "reason", None) or error
        raise NotServed("no data came for a while" if isinstance(reason, TimeoutError) else f"{reason}") from error


def start_of(status: int, headers: Mapping[str, str], have: int) -> tuple[int, int | None]:
    """From which byte on a mirror sends, and the size of the whole file if it says so."""
    length = headers.get("Content-Length", "")
    if status == 206:
        span, _, whole = headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
        if span.partition("-")[0] != str(have):
            raise NotServed(f"asked for bytes from {have:,} on, it sent {span or 'something else'}", final=True)
        return have, int(whole) if whole.isdigit() else None
    return 0, int(length) if length.isdigit() else None


def receive(
    answer: http.client.HTTPResponse,
    part: Path,
    have: int,
    total: int | None,
    at: Callable[[int], None],
    stalled: float,
) -> None:
    with open(part, "ab" if have else "wb") as file:
        mark, since = have, time.monotonic()
        while block := answer.read1(BLOCK):
            file.write(block)
            have += len(block)
            at(have)
            if total is not None and have > total:
                raise NotServed("it sent more than it said it would", final=True)
            if (now := time.monotonic()) - since > stalled:
                if have - mark < 1_000 * stalled:
                    raise NotServed("it sends next to nothing")
                mark, since = have, now
    if total is not None and have < total:
        raise NotServed(f"the connection was cut after {have:,} of {total:,} bytes")


def mismatch(archive: Archive, file: Path) -> str:
    """What is wrong with a file, or ''."""
    if archive.bytes is not None and size(file) != archive.bytes:
        return f"{size(file):,} bytes instead of {archive.bytes:,}"
    for name, wanted in (("sha256", archive.sha256), ("md5", archive.md5)):
        if wanted:
            with open(file, "rb") as stream:
                found = hashlib.file_digest(stream, name).hexdigest()
            if found != wanted:
                return f"its {name} is {found[:16]}... instead of {wanted[:16]}..."
    return ""
