"""What reading a corpus is: tasks that write pairs and say how far they are.

A kind of corpus (jobs/corpora/kinds) is a module with `read(config, out, on, log) -> Reading`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.corpora.aligned_lines import Tally
from jobs.corpora.pair_files import write_parts
from jobs.storage.artifacts import Artifact

TaskReport = dict[str, Any]  # {"pairs": n} while a task works, {"tally": ...} at its end
Task = Callable[[], Iterator[TaskReport]]


@dataclass(frozen=True)
class Reading:
    """`total` pairs if that is known; `here`: on this node if it has CPUs, since its disk alone may have the files."""

    tasks: Sequence[Task]
    total: int | None = None
    here: bool = False


def write(
    tally: Tally, pairs: Iterator[Sequence[str | None]], out: Artifact, *, corpus: int = 0, columns: int = 2
) -> Iterator[TaskReport]:
    for count in write_parts(pairs, out, corpus=corpus, columns=columns):
        yield {"pairs": count}
    yield {"tally": vars(tally)}
