"""Sentences of the demo language."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from jobs.configs import DemoCorpus, Resources
from jobs.corpora.aligned_lines import Tally
from jobs.corpora.demo import language
from jobs.corpora.reading import Reading, TaskReport, write
from jobs.events import Log
from jobs.storage.artifacts import Artifact

PAIRS_PER_TASK = 20_000


def read(config: DemoCorpus, out: Artifact, on: Resources, log: Log) -> Reading:
    starts = range(0, config.pairs, PAIRS_PER_TASK)
    stops = [*starts[1:], config.pairs]
    tasks = [
        partial(write_sentences, config, *span, out, position)
        for position, span in enumerate(zip(starts, stops, strict=True))
    ]
    return Reading(tasks, config.pairs)


def write_sentences(config: DemoCorpus, start: int, stop: int, out: Artifact, position: int) -> Iterator[TaskReport]:
    tally = Tally("demo language", read=stop - start, kept=stop - start)
    pairs = language.pairs(config.seed, config.split, start, stop)
    columns = 3 if config.split == "test" else 2
    rows = (pair[:columns] for pair in pairs)
    return write(tally, rows, out, corpus=position, columns=columns)
