"""Read two members of an archive side by side, as streams: nothing is unpacked to disk, nothing is held in memory.

Archives: tar (plain, gzip, bzip2, xz), zip, or a single file. Members: text, compressed text, SGML (<seg>), TMX, TSV.
An archive that tries to do anything but hold files is refused: absolute paths, `..`, links, devices, and members that
grow out of all proportion when decompressed.

A tar can only be read from its beginning, so each side has a reader of its own; the archive is decompressed twice.
"""

from __future__ import annotations

import contextlib
import html
import io
import re
import tarfile
import xml.parsers.expat
import zipfile
from collections.abc import Generator, Iterator
from pathlib import PurePosixPath
from typing import IO, Any, NamedTuple, Protocol, cast

from jobs.corpora.aligned_lines import BLOCK, Line, complaining, lines, plain
from jobs.errors import UserError
from jobs.storage.artifacts import Artifact

MOST_GROWTH = 200  # times; text shrinks to a quarter or so, a bomb to a thousandth
FREE_GROWTH = 2**26  # bytes that may come out however few went in
ARCHIVE_NAMES = (".zip", ".tar", ".tgz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz")
SEGMENT = re.compile(rb"<seg\b[^>]*>(.*?)</seg>", re.DOTALL | re.IGNORECASE)


class Member(NamedTuple):
    """A text inside an archive. Of a TSV `path#2` is the third column; of a TMX the language decides."""

    path: str
    language: str


class Place(NamedTuple):
    """Where an archive is; or, with no name, a directory in which its members lie unpacked."""

    directory: str
    name: str


class Named(Protocol):
    """A file as far as a sentence about it goes."""

    @property
    def name(self) -> str: ...


class Stored(NamedTuple):
    """A file, wherever it is. It is read as a stream: a task that wants one member does not copy the archive."""

    directory: Artifact
    path: str

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    def open(self) -> IO[bytes]:
        return self.directory.open(self.path)


class Measured(io.RawIOBase):
    """Counts what is read through it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(size)
        self.count += len(data)
        return data

    def readable(self) -> bool:
        return True


class Guarded(Measured):
    """What comes out of `packed`; refused when it is out of all proportion to what went in."""

    def __init__(self, stream: IO[bytes], packed: Measured, name: str) -> None:
        super().__init__(stream)
        self.packed = packed
        self.name = name

    def read(self, size: int = -1) -> bytes:
        data = super().read(min(size, BLOCK) if size >= 0 else BLOCK)
        if self.count > FREE_GROWTH and self.count > MOST_GROWTH * self.packed.count:
            raise UserError(
                f"{self.name} grows more than {MOST_GROWTH} times when it is decompressed: it is no text, "
                "and it is not read any further."
            )
        return data


def decompressed(stream: IO[bytes], name: str) -> IO[bytes]:
    packed = Measured(stream)
    return cast(IO[bytes], Guarded(plain(cast(IO[bytes], packed), name), packed, name))


@contextlib.contextmanager
def open_pair(place: Place, members: tuple[Member, Member]) -> Iterator[tuple[Iterator[Line], Iterator[Line]]]:
    """The lines of both members. They must be used up before the `with` ends."""
    directory = Artifact(place.directory)
    names = [place.name or unpacked(place.directory, member.path) for member in members]
    files = [Stored(directory, name) for name in names]
    sides = [read_member(file, member, at) for at, (file, member) in enumerate(zip(files, members, strict=True))]
    if members[0].path == members[1].path and is_kind(members[0], ".tmx"):
        sides = translation_units(files[0], members)
    with contextlib.closing(sides[0]), contextlib.closing(sides[1]):
        yield sides[0], sides[1]


def unpacked(directory: str, path: str) -> str:
    """Where a member lies in a directory of unpacked files: under its path, or just under its name."""
    candidates = (path, PurePosixPath(path).name)
    return next((name for name in candidates if Artifact(directory).exists(name)), path)


def read_member(path: Stored, member: Member, column: int) -> Generator[Line, None, None]:
    """The lines of a member of the archive at `path`, or of the file itself if it is none."""
    name, _, chosen = member.path.partition("#")
    called = f"{path.name}: {name}"
    with complaining(called), open_member(path, name) as stream:
        text = decompressed(stream, called)
        if is_kind(member, ".sgm", ".sgml"):
            yield from segments(text)
        elif is_kind(member, ".tsv"):
            yield from fields(lines(text), int(chosen) if chosen else column)
        else:
            yield from lines(text)


def is_kind(member: Member, *endings: str) -> bool:
    path = re.sub(r"\.(gz|bz2|xz)$", "", member.path.partition("#")[0].lower())
    return path.endswith(endings)


@contextlib.contextmanager
def open_member(path: Stored, name: str) -> Iterator[IO[bytes]]:
    with path.open() as file:
        if zipfile.is_zipfile(file):
            with zip_damage_told(path), zipfile.ZipFile(file) as zipped:
                yield in_zip(zipped, path, name)
            return
        file.seek(0)
        archive = as_tar(decompressed(file, path.name))
        if archive is None:  # a single file
            if path.name.lower().endswith(ARCHIVE_NAMES):
                raise UserError(f"{path.name} is no archive, whatever its name says. Remove it and fetch it again.")
            file.seek(0)
            yield file
        else:
            with archive, damage_told(path):
                yield in_tar(archive, path, name)


def as_tar(stream: IO[bytes]) -> tarfile.TarFile | None:
    try:
        return tarfile.open(fileobj=cast(Any, stream), mode="r|", errorlevel=2)
    except tarfile.ReadError:
        return None


@contextlib.contextmanager
def zip_damage_told(path: Named) -> Iterator[None]:
    try:
        yield
    except zipfile.BadZipFile as error:
        raise UserError(f"{path.name} is damaged: {error}. Remove it and fetch it again.") from error
    except (RuntimeError, NotImplementedError) as error:  # a password is wanted; a method that Python does not have
        raise UserError(f"{path.name} cannot be read: {error}. Unpack it and name the unpacked files.") from error


@contextlib.contextmanager
def damage_told(path: Named) -> Iterator[None]:
    try:
        yield
    except tarfile.TarError as error:
        raise UserError(f"{path.name} is damaged: {error}. Remove it and fetch it again.") from error


def in_tar(archive: tarfile.TarFile, path: Stored, name: str) -> IO[bytes]:
    wanted = PurePosixPath(name)
    for entry in archive:
        refuse_hostile(path, entry.name, is_file=entry.isfile() or entry.isdir())
        if entry.isfile() and PurePosixPath(entry.name) == wanted:
            return cast(IO[bytes], archive.extractfile(entry))
    raise UserError(f"{path.name} holds no {name}. Is it another release of the archive?")


def in_zip(archive: zipfile.ZipFile, path: Stored, name: str) -> IO[bytes]:
    for entry in archive.infolist():
        kind = entry.external_attr >> 28  # of the file mode: 8 a file, 4 a directory, 0 not said
        refuse_hostile(path, entry.filename, is_file=kind in (0, 4, 8))
        if entry.file_size > FREE_GROWTH and entry.file_size > MOST_GROWTH * entry.compress_size:
            raise UserError(f"{path.name}: {entry.filename} would grow more than {MOST_GROWTH} times: it is not read.")
    try:
        return archive.open(name)
    except KeyError:
        raise UserError(f"{path.name} holds no {name}. Is it another release of the archive?") from None


def refuse_hostile(path: Named, entry: str, *, is_file: bool) -> None:
    inside = PurePosixPath(entry.replace("\\", "/"))
    if inside.is_absolute() or ".." in inside.parts or re.match(r"[A-Za-z]:", entry):
        raise UserError(f"{path.name} is refused: its member {entry!r} points outside the archive.")
    if not is_file:
        raise UserError(f"{path.name} is refused: its member {entry!r} is a link or a device, not a file.")


# --- what is no plain text -------------------------------------------------------------------------------------------


def segments(stream: IO[bytes]) -> Iterator[Line]:
    """What stands between <seg> and </seg>, one segment a line, as in WMT's test sets."""
    waiting = b""
    while block := stream.read(BLOCK):
        waiting += block
        end = 0
        for found in SEGMENT.finditer(waiting):
            yield unescaped(found[1])
            end = found.end()
        waiting = waiting[end:]
        if len(waiting) > 16 * BLOCK:
            raise UserError("A <seg> of an SGML file is never closed, or the file holds none.")


def unescaped(segment: bytes) -> bytes:
    if b"&" not in segment:
        return b" ".join(segment.split())
    text = html.unescape(segment.decode("utf-8", errors="surrogateescape"))
    return b" ".join(text.encode("utf-8", errors="surrogateescape").split())


def fields(rows: Iterator[Line], column: int) -> Iterator[Line]:
    """One column of a TSV; empty where a row has too few, so that the other column keeps its place."""
    for row in rows:
        if row is None:
            yield None
            continue
        cells = row.removesuffix(b"\r").split(b"\t")
        yield cells[column] if column < len(cells) else b""


def translation_units(path: Stored, members: tuple[Member, Member]) -> list[Generator[Line, None, None]]:
    """Both languages of a TMX, read twice: a unit that lacks one has an empty line there."""
    return [units(path, member) for member in members]


def units(path: Stored, member: Member) -> Generator[Line, None, None]:
    called = f"{path.name}: {member.path}"
    reader = UnitReader(member.language, called)
    with complaining(called), open_member(path, member.path) as stream:
        text = decompressed(stream, called)
        try:
            while block := text.read(BLOCK):
                reader.parser.Parse(block, False)
                yield from reader.taken()
            reader.parser.Parse(b"", True)
        except xml.parsers.expat.ExpatError as error:
            raise UserError(f"{called} is not the XML of a TMX: {error}.") from error
        yield from reader.taken()


class UnitReader:
    """Collects the segments of one language, unit by unit."""

    def __init__(self, language: str, name: str) -> None:
        self.language = language.lower()
        self.name = name
        self.parser = xml.parsers.expat.ParserCreate()
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.text
        self.parser.EntityDeclHandler = self.entity
        self.found: list[Line] = []
        self.unit = ""
        self.ours = self.inside = False

    def taken(self) -> list[Line]:
        found, self.found = self.found, []
        return found

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "tu":
            self.unit = ""
        elif tag == "tuv":
            language = attributes.get("xml:lang", attributes.get("lang", "")).lower()
            self.ours = re.split(r"[-_]", language)[0] == self.language
        elif tag == "seg":
            self.inside = self.ours

    def text(self, text: str) -> None:
        if self.inside:
            self.unit += text

    def end(self, tag: str) -> None:
        if tag == "seg":
            self.inside = False
        elif tag == "tu":
            self.found.append(" ".join(self.unit.split()).encode())

    def entity(self, *_: Any) -> None:
        raise UserError(f"{self.name} is refused: it declares entities of its own, which text has no need of.")
