"""Trees of the demo language's treebank."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from jobs.configs import DemoTreesCorpus, Resources
from jobs.corpora.aligned_lines import Tally
from jobs.corpora.demo import treebank
from jobs.corpora.kinds.trees import row_of
from jobs.corpora.reading import Reading, TaskReport, write
from jobs.events import Log
from jobs.storage.artifacts import Artifact

TREES_PER_TASK = 5_000


def read(config: DemoTreesCorpus, out: Artifact, on: Resources, log: Log) -> Reading:
    starts = range(0, config.trees, TREES_PER_TASK)
    stops = [*starts[1:], config.trees]
    tasks = [
        partial(write_trees, config, *span, out, position)
        for position, span in enumerate(zip(starts, stops, strict=True))
    ]
    return Reading(tasks, config.trees)


def write_trees(config: DemoTreesCorpus, start: int, stop: int, out: Artifact, position: int) -> Iterator[TaskReport]:
    tally = Tally("treebank of the demo language", read=stop - start, kept=stop - start, unpaired=None)
    rows = (row_of(tree, config.tags) for tree in treebank.trees(config.seed, config.split, start, stop))
    return write(tally, rows, out, corpus=position, columns=4)
