"""Penn-bracket trees: a pair is a sentence, its words set apart by blanks, and its tree as a line of symbols."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from jobs.configs import Resources, TreesCorpus
from jobs.corpora import tree_files
from jobs.corpora.aligned_lines import Tally
from jobs.corpora.reading import Reading, TaskReport, write
from jobs.errors import UserError
from jobs.events import Log, Note
from jobs.storage.artifacts import Artifact
from transformer.parsing.tree_symbols import Tags, linearise
from transformer.parsing.trees import Tree, read_trees

Row = tuple[str, str, str | None, str]
MOST_TASKS = 16  # of one corpus; the same on every machine, so that the parts are


def read(config: TreesCorpus, out: Artifact, on: Resources, log: Log) -> Reading:
    for known in config.known_counts:
        require_count(known.name, tree_files.count_trees(known.files), known.trees)
        log(Note(f"{known.name}: {known.trees:,} trees, as it should be"))
    files = [file for address in config.files for file in tree_files.found(address)]
    groups = grouped(files)
    tasks = [partial(write_trees, config.tags, group, out, position) for position, group in enumerate(groups)]
    return Reading(tasks, config.expected, here=True)


def require_count(name: str, found: int, expected: int) -> None:
    if found != expected:
        raise UserError(
            f"{name} holds {found:,} trees, and {expected:,} were expected: it is another release of the treebank or "
            "a part of it. A score on it compares with nothing published. To go on all the same: "
            "--set corpus.any_release=true."
        )


def grouped(files: Sequence[tree_files.TreeFile]) -> list[list[tree_files.TreeFile]]:
    """The files in their order, in at most `MOST_TASKS` groups of about the same size."""
    share = sum(file.path.stat().st_size for file in files) / MOST_TASKS
    groups: list[list[tree_files.TreeFile]] = [[]]
    filled = 0
    for file in files:
        if groups[-1] and filled >= share * len(groups):
            groups.append([])
        groups[-1].append(file)
        filled += file.path.stat().st_size
    return groups


def write_trees(tags: Tags, files: Sequence[tree_files.TreeFile], out: Artifact, position: int) -> Iterator[TaskReport]:
    tally = Tally(files[0].path.parent.name if len(files) > 1 else files[0].path.name, unpaired=None)
    return write(tally, tree_rows(tags, files, tally), out, corpus=position, columns=4)


def tree_rows(tags: Tags, files: Sequence[tree_files.TreeFile], tally: Tally) -> Iterator[Row]:
    for file in files:
        for name, lines in tree_files.texts(file):
            try:
                for tree in read_trees(lines, name):
                    tally.read += 1
                    tally.kept += 1
                    yield row_of(tree, tags)
            except ValueError as error:
                raise UserError(str(error)) from error


def row_of(tree: Tree, tags: Tags, part: str | None = None) -> Row:
    return " ".join(map(one_word, tree.words)), " ".join(linearise(tree, tags)), part, str(tree)


def one_word(word: str) -> str:
    """A word stays one where white space of any kind parts words."""
    return "_".join(word.split()) or "_"
