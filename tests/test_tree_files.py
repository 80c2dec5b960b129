"""Treebanks as files: directories, globs, archives; what is checked before anything is spent; what a pair becomes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest
from recipe_settings import settings_of, small_penn_treebank

from jobs.corpora import tree_files
from jobs.corpora.aligned_lines import Tally
from jobs.corpora.kinds.trees import grouped, one_word, require_count, tree_rows
from jobs.errors import UserError
from pipelines.recipes.recipes import RECIPES
from pipelines.steps.plan import in_order
from transformer.parsing.tree_symbols import linearise
from transformer.parsing.trees import read_trees

CAT = "( (S (NP-SBJ (DT The) (NN cat)) (VP (VBZ sleeps)) (. .)) )\n"
DOG = "( (S (NP (DT A)\n (NN dog)) (VP (VBD ate) (NP (-NONE- *T*-1))) (. .)) )"


def treebank(directory: Path) -> Path:
    for name, text in (("a/2.mrg", DOG), ("a/1.mrg", CAT * 2), ("README", "not trees"), ("a/.hidden", "(")):
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    with gzip.open(directory / "a" / "3.mrg.gz", "wt") as packed:
        packed.write(CAT)
    return directory


def words(address: str) -> list[str]:
    return [row[0] for row in tree_rows("XX", tree_files.found(address), Tally("test"))]


CATS, DOGS = "The cat sleeps .", "A dog ate ."
ALL = [CATS, CATS, DOGS, CATS]


def test_a_directory_a_glob_and_archives_hold_the_same_trees(tmp_path: Path) -> None:
    place = treebank(tmp_path / "bank")
    with tarfile.open(tmp_path / "bank.tar.gz", "w:gz") as tar, zipfile.ZipFile(tmp_path / "bank.zip", "w") as zipped:
        for file in sorted(place.rglob("*")):
            if file.is_file():
                tar.add(file, f"whole/dev/{file.relative_to(place)}")
                zipped.write(file, f"whole/dev/{file.relative_to(place)}")
    assert words(str(place)) == words(f"{place}/a/*.mrg*") == ALL
    assert words(str(tmp_path / "bank.zip")) == words(f"{tmp_path}/bank.zip#dev") == ALL
    assert words(str(tmp_path / "bank.tar.gz")) == words(f"{tmp_path}/bank.tar.gz#dev/a") == ALL
    assert tree_files.count_trees([str(place)]) == 4
    with pytest.raises(UserError, match="no files of trees in a folder test"):
        words(f"{tmp_path}/bank.zip#test")


def test_what_is_not_there_or_broken_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no file or directory"):
        tree_files.found(str(tmp_path / "nothing"))
    with pytest.raises(UserError, match="No file fits"):
        tree_files.found(str(tmp_path / "*.mrg"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds no files of trees"):
        tree_files.found(str(tmp_path / "empty"))
    (tmp_path / "broken.mrg").write_text(CAT + "( (S (NP (DT The)) )\n")
    with pytest.raises(UserError, match=r"broken\.mrg, line 2"):
        words(str(tmp_path / "broken.mrg"))
    (tmp_path / "latin.mrg").write_bytes("((S (NN é)))".encode("latin1"))
    with pytest.raises(UserError, match="iconv"):
        words(str(tmp_path / "latin.mrg"))


PACKED = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def test_a_file_that_was_not_copied_whole_is_named(tmp_path: Path) -> None:
    """Wherever it breaks off: within a tree, within what is compressed, within an archive or a file in one."""
    trees = "".join(
        f"( (S (NP (DT The) (NN cat{number * 7919 % 10_007})) (VP (VBZ sleeps)) (. .)) )\n" for number in range(900)
    )
    whole: dict[str, bytes] = {f"a.mrg{ending}": pack(trees.encode()) for ending, pack in PACKED.items()}
    for name, inner in (
        ("b.tar", "inner.mrg"),
        ("c.tar", "inner.mrg.gz"),
        ("d.tar.gz", "inner.mrg"),
        ("e.zip", "inner.mrg"),
    ):
        whole[name] = archive_of(name, inner, trees.encode(), tmp_path)
    for name, content in whole.items():
        for left in (len(content) * part // 7 for part in (1, 3, 5)):  # a plain file not between two trees
            place = tmp_path / "bank" / "02" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content[:left])
            with pytest.raises(UserError, match=rf"{name}.*(whole|unexpected end|no archive)"):
                words(str(place.parent))
            with pytest.raises(UserError, match=rf"{name}.*(whole|unexpected end|no archive)"):
                tree_files.count_trees([str(place.parent)])
            place.unlink()


def archive_of(name: str, inner: str, content: bytes, directory: Path) -> bytes:
    file, packed = directory / name, gzip.compress(content) if inner.endswith(".gz") else content
    if name.endswith(".zip"):
        with zipfile.ZipFile(file, "w") as zipped:
            zipped.writestr(inner, packed)
    else:
        with tarfile.open(file, "w:gz" if name.endswith(".gz") else "w") as tar:
            entry = tarfile.TarInfo(inner)
            entry.size = len(packed)
            tar.addfile(entry, io.BytesIO(packed))
    return file.read_bytes().rstrip(b"\0")  # the padding of a tar holds nothing


def test_a_file_that_ends_within_another_is_not_counted_with_the_next(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.mrg").write_text(CAT * 4 if number != 1 else (CAT * 4)[:-9])
    with pytest.raises(UserError, match=r"1\.mrg ends in the middle of a tree: it was not copied whole"):
        tree_files.count_trees([str(tmp_path)])


def test_an_archive_that_points_outside_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bad.tar", "w") as tar:
        entry = tarfile.TarInfo("../outside.mrg")
        entry.size = len(CAT)
        tar.addfile(entry, io.BytesIO(CAT.encode()))
    with pytest.raises(UserError, match="points outside"):
        words(str(tmp_path / "bad.tar"))


def test_a_pair_is_the_words_and_the_symbols(tmp_path: Path) -> None:
    (tmp_path / "a.mrg").write_text(DOG)
    for tags in ("XX", "keep", "none"):
        ((source, target, part, tree),) = tree_rows(tags, tree_files.found(str(tmp_path / "a.mrg")), Tally("test"))
        (read,) = read_trees(tree, "again")
        assert source == DOGS
        assert part is None
        assert target.split() == linearise(read, tags)
    assert one_word("a\u00a0b") == "a_b", "a word stays one for whoever splits at white space"


def test_files_are_read_in_order_in_groups_of_about_one_size(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number:03d}.mrg").write_text(CAT * (1 + number % 7))
    files = tree_files.found(str(tmp_path))
    groups = grouped(files)
    assert [file for group in groups for file in group] == files
    assert 8 <= len(groups) <= 16


# --- the Penn Treebank -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["parsing-wsj", "parsing-semi"])
def test_the_recipe_says_what_to_get_and_where_to_put_it(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"LDC99T42.*corpus\.treebank"):
        RECIPES[name].step()
    with pytest.raises(UserError, match="no folder 02"):
        RECIPES[name].step([f"corpus.treebank={tmp_path}"])
    penn = small_penn_treebank(tmp_path)
    (penn / "parsed/mrg/wsj/22/wsj_2200.mrg").unlink()
    with pytest.raises(UserError, match=r"wsj/22 holds no files"):
        RECIPES[name].step([f"corpus.treebank={penn}"])
    (penn / "parsed/mrg/wsj/22").rmdir()
    with pytest.raises(UserError, match="lacks the folders 22"):
        RECIPES[name].step([f"corpus.treebank={penn}"])


def test_sections_are_the_papers_and_their_trees_are_counted(tmp_path: Path) -> None:
    steps = in_order([RECIPES["parsing-wsj"].step(settings_of("parsing-wsj", tmp_path))])
    configs = {step.label: step.config for step in steps if step.stage.name == "corpora"}
    assert [Path(file).name for file in configs["train"].files] == [f"{n:02d}" for n in range(2, 22)]
    assert [Path(file).name for file in configs["dev"].files + configs["test"].files] == ["22", "23"]
    for config in configs.values():
        assert [known.trees for known in config.known_counts] == [39_832, 1_700, 2_416]
    known = configs["test"].known_counts[-1]
    found = tree_files.count_trees(known.files)
    with pytest.raises(UserError, match=r"holds 1 trees, and 2,416 were expected.*any_release"):
        require_count(known.name, found, known.trees)


def test_machine_made_parses_are_for_training_alone(tmp_path: Path) -> None:
    told = settings_of("parsing-semi", tmp_path)
    steps = in_order([RECIPES["parsing-semi"].step(told)])
    configs = {step.label: step.config for step in steps if step.stage.name == "corpora"}
    assert [Path(file).stem for file in configs["train"].files[-2:]] == ["high_confidence", "automatic"]
    assert len(configs["dev"].files) == len(configs["test"].files) == 1
    with pytest.raises(UserError, match=r"corpus\.automatic=PATH"):
        RECIPES["parsing-semi"].step(told[:-1])


# --- a treebank of one's own -------------------------------------------------------------------------------------


def test_a_treebank_is_three_places_or_one_that_holds_them(tmp_path: Path) -> None:
    told = settings_of("parsing-files", tmp_path)
    own = tmp_path / "own"
    apart = [f"corpus.{split}={own / split}" for split in ("train", "dev", "test")]
    assert RECIPES["parsing-files"].step(told).fingerprint == RECIPES["parsing-files"].step(apart).fingerprint
    with pytest.raises(UserError, match=r"corpus\.dev=PATH"):
        RECIPES["parsing-files"].step(apart[:1])
    (own / "test.tar.gz").write_bytes(b"")
    with pytest.raises(UserError, match=r"one folder, file or archive named test"):
        RECIPES["parsing-files"].step(told)


def test_content_counts_and_the_place_does_not(tmp_path: Path) -> None:
    here, there = settings_of("parsing-files", tmp_path / "a"), settings_of("parsing-files", tmp_path / "b")
    one = RECIPES["parsing-files"].step(here).fingerprint
    assert RECIPES["parsing-files"].step(there).fingerprint == one
    (tmp_path / "b" / "own" / "train" / "a.mrg").write_text(CAT)
    assert RECIPES["parsing-files"].step(there).fingerprint != one
