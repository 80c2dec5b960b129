"""A test set that sacreBLEU knows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import sacrebleu

from jobs.configs import Resources, SacrebleuSet
from jobs.corpora.aligned_lines import Tally, align, lines_of
from jobs.corpora.reading import Reading, TaskReport, write
from jobs.errors import UserError
from jobs.events import Log
from jobs.storage.artifacts import Artifact


def read(config: SacrebleuSet, out: Artifact, on: Resources, log: Log) -> Reading:
    return Reading([partial(read_test_set, config, out)], config.lines)


def read_test_set(config: SacrebleuSet, out: Artifact) -> Iterator[TaskReport]:
    """Through sacreBLEU, so that the test set is the one that everybody scores on."""
    pair = f"{config.source_language}-{config.target_language}"
    try:
        source = sacrebleu.get_source_file(config.name, pair)
        targets = sacrebleu.get_reference_files(config.name, pair)
    except SystemExit as error:  # sacreBLEU's way to say that a checksum is wrong
        raise UserError(f"sacreBLEU could not get {config.name} ({pair}) whole; its log says which file.") from error
    except Exception as error:
        raise UserError(f"sacreBLEU could not get {config.name} ({pair}): {error}") from error
    tally = Tally(config.name, sides=(source, targets[0]))
    with open(source, "rb") as sources, open(targets[0], "rb") as references:
        yield from write(tally, align(lines_of(sources, source), lines_of(references, targets[0]), tally), out)
    if tally.kept != config.lines:
        raise UserError(
            f"{config.name} ({pair}) has {tally.kept:,} lines, and {config.lines:,} were expected: "
            f"a score on it would compare with nothing. Remove {os.path.dirname(source)} and run again."
        )
