"""Two text files of the user's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import IO, cast

from jobs.configs import FilesCorpus, Resources
from jobs.corpora.aligned_lines import Tally, align, lines_of, require_readable
from jobs.corpora.reading import Reading, TaskReport, write
from jobs.errors import UserError, reason_of
from jobs.events import Log
from jobs.storage import object_store
from jobs.storage.artifacts import Artifact


def read(config: FilesCorpus, out: Artifact, on: Resources, log: Log) -> Reading:
    return Reading([partial(read_files, config, out)], here=True)


def open_file(address: str) -> IO[bytes]:
    """A file of the user's, by its path or by an object store's address."""
    try:
        if "://" in address:
            system, path = object_store.resolve(address)
            return cast(IO[bytes], system.open_input_stream(path))
        return open(os.path.expanduser(address), "rb")
    except FileNotFoundError:
        raise UserError(f"There is no file {address}.") from None
    except IsADirectoryError:
        raise UserError(f"{address} is a directory, not a file of sentences.") from None
    except OSError as error:
        raise UserError(f"{address} cannot be read: {reason_of(error)}.") from error


def read_files(config: FilesCorpus, out: Artifact) -> Iterator[TaskReport]:
    sides = config.source, config.target
    tally = Tally(os.path.basename(config.source), sides=sides)
    with ExitStack() as opened:
        texts = [lines_of(opened.enter_context(open_file(address)), address) for address in sides]
        yield from write(tally, align(texts[0], texts[1], tally), out)
    require_readable(tally, config.max_unreadable)
