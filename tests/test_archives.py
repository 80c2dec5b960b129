"""Members of archives as aligned lines; archives that try anything else are refused."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from jobs.corpora import archives
from jobs.corpora.aligned_lines import Line
from jobs.corpora.archives import Member, Place, open_pair
from jobs.errors import UserError


def tar(path: Path, members: dict[str, bytes], mode: str = "w:gz", **odd: tarfile.TarInfo) -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        for entry in odd.values():
            archive.addfile(entry)
    return path


def read(path: Path, source: str, target: str) -> tuple[list[Line], list[Line]]:
    place = Place(str(path.parent), path.name)
    with open_pair(place, (Member(source, "en"), Member(target, "de"))) as (sources, targets):
        return list(sources), list(targets)


TEXTS = {"training/news.de-en.en": b"one\ntwo\n", "training/news.de-en.de": b"eins\nzwei\n"}
LINES = ([b"one", b"two"], [b"eins", b"zwei"])


@pytest.mark.parametrize(
    ("name", "mode"), [("news.tar", "w"), ("news.tgz", "w:gz"), ("n.tar.bz2", "w:bz2"), ("n.txz", "w:xz")]
)
@pytest.mark.parametrize("members", [TEXTS, dict(reversed(TEXTS.items()))], ids=["source first", "target first"])
def test_members_of_a_tar(tmp_path: Path, name: str, mode: str, members: dict[str, bytes]) -> None:
    assert read(tar(tmp_path / name, members, mode), *TEXTS) == LINES


def test_members_may_be_compressed_themselves(tmp_path: Path) -> None:
    """As in the giga corpus: a plain tar of gzip files."""
    packed = {f"{name}.gz": gzip.compress(data) for name, data in TEXTS.items()}
    assert read(tar(tmp_path / "giga.tar", packed, "w"), *packed) == LINES


def test_names_that_begin_with_a_dot_are_the_same_names(tmp_path: Path) -> None:
    dotted = {f"./{name}": data for name, data in TEXTS.items()}
    assert read(tar(tmp_path / "news.tgz", dotted), *TEXTS) == LINES


def test_members_of_a_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "opus.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in TEXTS.items():
            archive.writestr(name, data)
    assert read(tmp_path / "opus.zip", *TEXTS) == LINES


def test_a_missing_member_is_named(tmp_path: Path) -> None:
    path = tar(tmp_path / "news.tgz", TEXTS)
    with pytest.raises(UserError, match=r"news\.tgz holds no training/news\.fr-en\.fr"):
        read(path, "training/news.de-en.en", "training/news.fr-en.fr")


def test_sgml_segments(tmp_path: Path) -> None:
    english = b"""<srcset setid="t" srclang="any">\n<doc docid="a">\n<seg id="1">Fish &amp; chips</seg>\n<p>
        <seg id="2"> a &lt;b&gt;\n over two lines </seg>\n<seg id="3"></seg></p></doc></srcset>"""
    german = b'<refset>\n<seg id="1">Fisch</seg><seg id="2">zwei</seg>\n<SEG id="3">drei</SEG></refset>'
    path = tar(tmp_path / "dev.tgz", {"dev/src.en.sgm": english, "dev/ref.de.sgm": german})
    assert read(path, "dev/src.en.sgm", "dev/ref.de.sgm") == (
        [b"Fish & chips", b"a <b> over two lines", b""],
        [b"Fisch", b"zwei", b"drei"],
    )


def test_segments_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "BLOCK", 5)
    text = b"".join(b'<seg id="%d">line %d</seg>\n' % (n, n) for n in range(50))
    assert list(archives.segments(io.BytesIO(text))) == [b"line %d" % n for n in range(50)]


def test_tsv_keeps_rows_together(tmp_path: Path) -> None:
    rows = b"one\teins\n\tzwei\nthree\nfour\tvier\textra\r\n"
    (tmp_path / "pairs.tsv.gz").write_bytes(gzip.compress(rows))
    sources, targets = read(tmp_path / "pairs.tsv.gz", "pairs.tsv", "pairs.tsv")
    assert list(zip(sources, targets, strict=True)) == [
        (b"one", b"eins"),
        (b"", b"zwei"),
        (b"three", b""),
        (b"four", b"vier"),
    ]
    assert read(tmp_path / "pairs.tsv.gz", "pairs.tsv#1", "pairs.tsv#0")[0][3] == b"vier"


TMX = """<?xml version="1.0"?><tmx version="1.4"><header/><body>
<tu><tuv xml:lang="EN-GB"><seg>Fish &amp; <bpt i="1">chips</bpt></seg></tuv>
<tuv xml:lang="de"><seg>Fisch</seg></tuv></tu>
<tu><tuv xml:lang="fr"><seg>deux</seg></tuv><tuv xml:lang="de"><seg>zwei\nzeilen</seg></tuv></tu>
<tu><tuv lang="de"><seg>drei</seg></tuv><tuv lang="en"><seg>three</seg></tuv></tu></body></tmx>"""


def test_tmx_units_are_pairs_whatever_their_order(tmp_path: Path) -> None:
    path = tar(tmp_path / "memory.tgz", {"memory.tmx": TMX.encode()})
    sources, targets = read(path, "memory.tmx", "memory.tmx")
    assert list(zip(sources, targets, strict=True)) == [
        (b"Fish & chips", b"Fisch"),
        (b"", b"zwei zeilen"),
        (b"three", b"drei"),
    ]


def test_tmx_may_not_declare_entities(tmp_path: Path) -> None:
    entities = '<!DOCTYPE t [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>'
    (tmp_path / "laughs.tmx").write_text(f'{entities}<tmx><tu><tuv xml:lang="en"><seg>&b;</seg></tuv></tu></tmx>')
    with pytest.raises(UserError, match="declares entities"):
        read(tmp_path / "laughs.tmx", "laughs.tmx", "laughs.tmx")
    (tmp_path / "broken.tmx").write_text("<tmx><tu>")
    with pytest.raises(UserError, match="not the XML of a TMX"):
        read(tmp_path / "broken.tmx", "broken.tmx", "broken.tmx")


def link(name: str, to: str, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, to
    return entry


HOSTILE = {
    "absolute": tarfile.TarInfo("/etc/passwd"),
    "upwards": tarfile.TarInfo("training/../../secret"),
    "drive": tarfile.TarInfo("C:\\windows\\secret"),
    "symlink": link("training/link", "/etc/passwd", tarfile.SYMTYPE),
    "hardlink": link("training/hard", "training/news.de-en.en", tarfile.LNKTYPE),
    "device": link("training/null", "", tarfile.CHRTYPE),
    "pipe": link("training/pipe", "", tarfile.FIFOTYPE),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_tars_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "hostile.tgz"
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(HOSTILE[kind])
        for name, data in TEXTS.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    with pytest.raises(UserError, match=r"hostile\.tgz is refused"):
        read(path, *TEXTS)


def test_hostile_zips_are_refused(tmp_path: Path) -> None:
    for name in ("../secret", "/etc/passwd"):
        with zipfile.ZipFile(tmp_path / "hostile.zip", "w") as archive:
            archive.writestr(name, b"x")
        with pytest.raises(UserError, match="points outside"):
            read(tmp_path / "hostile.zip", *TEXTS)
    entry = zipfile.ZipInfo("link")
    entry.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "hostile.zip", "w") as archive:
        archive.writestr(entry, b"/etc/passwd")
    with pytest.raises(UserError, match="is a link"):
        read(tmp_path / "hostile.zip", *TEXTS)


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "FREE_GROWTH", 2**16)
    bomb = b"\n" * 2**20
    inside = {"training/news.de-en.en": bomb, "training/news.de-en.de": bomb}
    with pytest.raises(UserError, match="grows more than 200 times"):
        read(tar(tmp_path / "bomb.tgz", inside), *inside)
    nested = {name: gzip.compress(bomb) for name in inside}
    with pytest.raises(UserError, match="grows more than 200 times"):
        read(tar(tmp_path / "nested.tar", nested, "w"), *nested)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("training/news.de-en.en", bomb)
    with pytest.raises(UserError, match="would grow more than 200 times"):
        read(tmp_path / "bomb.zip", *inside)
    (tmp_path / "bomb.tsv.bz2").write_bytes(bz2.compress(b"\t\n" * 2**19))
    with pytest.raises(UserError, match="grows more than 200 times"):
        read(tmp_path / "bomb.tsv.bz2", "bomb.tsv", "bomb.tsv")


def test_a_cut_archive_is_not_a_shorter_one(tmp_path: Path) -> None:
    noise = bytes(range(32, 127)) * 40_000
    members = dict.fromkeys(TEXTS, noise)
    whole = tar(tmp_path / "whole.tgz", members).read_bytes()
    (tmp_path / "cut.tgz").write_bytes(whole[: len(whole) * 3 // 4])
    with pytest.raises(UserError, match=r"cut\.tgz"):
        read(tmp_path / "cut.tgz", *TEXTS)
    plain = tar(tmp_path / "whole.tar", members, "w").read_bytes()
    (tmp_path / "cut.tar").write_bytes(plain[: len(plain) * 3 // 4])
    with pytest.raises(UserError, match=r"cut\.tar"):
        read(tmp_path / "cut.tar", *TEXTS)


def test_members_that_lie_unpacked_in_a_directory(tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "news.de-en.en").write_bytes(b"one\ntwo\n")
    (tmp_path / "news.de-en.de").write_bytes(b"eins\nzwei\n")
    english, german = TEXTS
    with open_pair(Place(str(tmp_path), ""), (Member(english, "en"), Member(german, "de"))) as sides:
        assert tuple(list(side) for side in sides) == LINES


def packed(path: Path, kind: str) -> Path:
    """An archive of 2,000 numbered lines on each side, of no repeating text."""
    texts = {name: b"".join(b"%d %s\n" % (n, os.urandom(9).hex().encode()) for n in range(2_000)) for name in TEXTS}
    if kind != "zip":
        return tar(path / f"news.tar{kind}", texts, f"w:{kind.removeprefix('.')}")
    with zipfile.ZipFile(path / "news.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in texts.items():
            archive.writestr(name, data)
    return path / "news.zip"


@pytest.mark.parametrize("kind", ["", ".gz", ".bz2", ".xz", "zip"])
@pytest.mark.parametrize("act", ["cut", "flip"])
def test_damage_anywhere_gives_the_lines_or_a_sentence(tmp_path: Path, kind: str, act: str) -> None:
    """Never a stack trace, and never the archive itself read as text, the same on both sides."""
    whole = packed(tmp_path, kind)
    good = whole.read_bytes()
    for place in [0, 2, 5, 20, 120, 300, *range(1_000, len(good), len(good) // 9), len(good) - 30]:
        damaged = bytearray(good if act == "flip" else good[:place])
        if act == "flip":
            damaged[place] ^= 0xFF
        whole.write_bytes(bytes(damaged))
        try:
            sources, targets = read(whole, *TEXTS)
        except UserError:
            continue
        assert sources != targets
        assert len(sources) + len(targets) > 3_000, f"{act} at {place}"  # a plain tar knows nothing of its content


def test_an_encrypted_zip_is_refused_in_words(tmp_path: Path) -> None:
    path = packed(tmp_path, "zip")
    data = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = data.find(mark)
        while at >= 0:
            data[at + flags] |= 1
            at = data.find(mark, at + 1)
    path.write_bytes(bytes(data))
    with pytest.raises(UserError, match=r"news\.zip cannot be read: .*(password|encrypted)"):
        read(path, *TEXTS)


def test_a_zip_of_an_unknown_method_is_refused_in_words(tmp_path: Path) -> None:
    path = packed(tmp_path, "zip")
    data = bytearray(path.read_bytes())
    for mark, method in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        at = data.find(mark)
        while at >= 0:
            data[at + method] = 99
            at = data.find(mark, at + 1)
    path.write_bytes(bytes(data))
    with pytest.raises(UserError, match=r"news\.zip cannot be read"):
        read(path, *TEXTS)
