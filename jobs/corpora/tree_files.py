"""Where a treebank's files are: a directory, a glob, a file, or a folder inside an archive. Standard library only.

    wsj/02              every file in it, and below; hidden files and what is plainly no treebank left out
    "wsj/0[2-9]/*.mrg"  a glob, ** included
    craft.tar.gz        every file in it (.tar, .tar.gz, .tgz, .tar.bz2, .tar.xz, .zip), unpacked nowhere
    craft.zip#dev       those in its folder `dev`, at whatever depth the folder is

Files are read in the order of their names. Any of them may be compressed by gzip, bzip2 or xz.
"""

from __future__ import annotations

import glob
import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple, cast

from jobs.corpora.aligned_lines import BYTE_ORDER_MARK, complaining, lines
from jobs.corpora.archives import (
    ARCHIVE_NAMES,
    as_tar,
    damage_told,
    decompressed,
    refuse_hostile,
    zip_damage_told,
)
from jobs.errors import UserError

LONGEST_LINE = 2**26  # bytes
NO_TREES = (".md", ".html", ".pdf", ".doc", ".py", ".sh", ".xml", ".json", ".csv", ".tsv", ".toml", ".yaml", ".yml")
NO_TREES_NAMES = ("readme", "license", "licence", "copying", "changes", "changelog", "index", "makefile")


class TreeFile(NamedTuple):
    """A file on disk; of an archive, `folder` names what is wanted inside it ('' for everything)."""

    path: Path
    folder: str = ""

    @property
    def is_archive(self) -> bool:
        return self.path.name.lower().endswith(ARCHIVE_NAMES)


def found(address: str) -> list[TreeFile]:
    """The files of an address, in the order of their names. UserError where there are none."""
    plain, _, folder = address.partition("#") if not Path(address).expanduser().exists() else (address, "", "")
    path = Path(plain).expanduser()
    if path.is_file():
        return [TreeFile(path, folder)]
    if path.is_dir():
        files = sorted(Path(root) / name for root, _, names in os.walk(path) for name in names)
        files = [file for file in files if may_hold_trees(str(file.relative_to(path)))]
        if not files:
            raise UserError(f"The directory {plain} holds no files of trees.")
        return [TreeFile(file, folder) for file in files]
    if glob.has_magic(plain):
        files = sorted(file for file in map(Path, glob.glob(str(path), recursive=True)) if file.is_file())
        if not files:
            raise UserError(f"No file fits {plain}.")
        return [TreeFile(file, folder) for file in files]
    raise UserError(f"There is no file or directory {plain}.")


def may_hold_trees(name: str) -> bool:
    """False of hidden files and of what is plainly something else, by its name."""
    inside = PurePosixPath(name)
    hidden = any(part.startswith((".", "__MACOSX")) for part in inside.parts)
    stem = inside.name.lower().partition(".")[0]
    return not hidden and stem not in NO_TREES_NAMES and inside.suffix.lower() not in NO_TREES


def texts(file: TreeFile) -> Iterator[tuple[str, Iterator[str]]]:
    """Name and lines of each text in a file: one, or those in the archive. Use the lines before the next text."""
    if not file.is_archive:
        with complaining(str(file.path)), open(file.path, "rb") as plain:
            yield str(file.path), decoded(plain, file.path, str(file.path))
        return
    any_text = False
    for name, stream in members(file.path):
        if wanted(name, file.folder):
            any_text = True
            called = f"{file.path}: {name}"
            with complaining(called):
                yield called, decoded(stream, file.path, called)
    if not any_text:
        inside = f" in a folder {file.folder}" if file.folder else ""
        raise UserError(f"The archive {file.path} holds no files of trees{inside}.")


def wanted(name: str, folder: str) -> bool:
    """Whether a member of an archive is to be read: in the folder, wherever that is."""
    parents = PurePosixPath(name).parent.parts
    chosen = PurePosixPath(folder).parts
    inside = any(parents[at : at + len(chosen)] == chosen for at in range(len(parents) - len(chosen) + 1))
    return may_hold_trees(name) and (not chosen or inside)


def members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """The files in an archive: a zip's by name, a tar's as they stand there."""
    if path.suffix.lower() == ".zip" and not zipfile.is_zipfile(path):
        raise UserError(f"{path} is no whole zip archive: it was not copied whole, or it is something else.")
    if zipfile.is_zipfile(path):
        with zip_damage_told(path), zipfile.ZipFile(path) as zipped:
            for entry in sorted(zipped.infolist(), key=lambda entry: entry.filename):
                refuse_hostile(path, entry.filename, is_file=entry.external_attr >> 28 in (0, 4, 8))
                if not entry.is_dir():
                    with zipped.open(entry) as stream:
                        yield entry.filename, stream
        return
    with complaining(str(path)), open(path, "rb") as file:
        archive = as_tar(decompressed(file, path.name))
        if archive is None:
            raise UserError(f"{path} is no archive, whatever its name says.")
        with archive, damage_told(path):
            for member in archive:
                refuse_hostile(path, member.name, is_file=member.isfile() or member.isdir())
                if member.isfile():
                    yield member.name, cast(IO[bytes], archive.extractfile(member))


def decoded(stream: IO[bytes], path: Path, name: str) -> Iterator[str]:
    """The lines of a text, compressed or not, as UTF-8. All trees may stand on one line.

    It is here that the file, or the archive at `path`, is read: what is wrong inside it shows here and nowhere else.
    """
    with complaining(name), damage_told(path), zip_damage_told(path):
        for number, line in enumerate(lines(decompressed(stream, name), longest=LONGEST_LINE), start=1):
            if line is None:
                raise UserError(f"{name}, line {number:,} has more than {LONGEST_LINE >> 20} MiB: is it a text at all?")
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError:
                raise UserError(
                    f"{name}, line {number:,} is not UTF-8. If it is Latin-1, convert it: iconv -f LATIN1 -t UTF-8."
                ) from None
            yield text.removeprefix(BYTE_ORDER_MARK)


def count_trees(addresses: Sequence[str]) -> int:
    """Outermost brackets, counted and not looked into: the size of the Penn Treebank takes seconds."""
    return sum(outermost(name, text) for address in addresses for file in found(address) for name, text in texts(file))


def outermost(name: str, text: Iterator[str]) -> int:
    """Of one text. UserError where it breaks off: the trees of the next one would be taken for a part of it."""
    count = depth = 0
    for line in text:
        for mark in line:
            if mark == "(":
                depth += 1
            elif mark == ")":
                depth -= 1
                count += depth == 0
    if depth > 0:
        raise UserError(f"{name} ends in the middle of a tree: it was not copied whole.")
    return count
