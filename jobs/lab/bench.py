"""Where measurements are carried out: independent points side by side as Ray tasks, one CPU and one thread each.

One thread per point makes a figure the same to the digit on one machine, however many points run beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import ray
import torch

from jobs.events import Log, Progress
from jobs.storage.artifacts import Artifact

Item = TypeVar("Item")
Result = TypeVar("Result")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Text:
    """The text that an experiment translates: results of the data stages."""

    shards: Artifact
    vocabulary: Artifact
    test: Artifact


@dataclass(frozen=True)
class Chart:
    """A picture and what it shows; `table` names the data behind it."""

    title: str
    svg: str
    caption: str
    table: str


@dataclass(frozen=True)
class Measured:
    """What an experiment found: figures for verdicts and MLflow, tables for charts and CSV files."""

    figures: Mapping[str, float]
    tables: Mapping[str, Sequence[Row]]
    setup: str  # in one line
    notes: Sequence[str] = field(default_factory=tuple)  # method, error, what was left out


class Bench:
    """Carries out points on the cluster and says how far it is."""

    def __init__(self, log: Log, text: Text | None = None) -> None:
        self.log = log
        self._text = text
        self.done = self.total = 0

    @property
    def text(self) -> Text:
        if self._text is None:
            raise ValueError("this experiment was given no text")
        return self._text

    def each(self, act: Callable[[Item], Result], items: Sequence[Item], cpus: float = 1) -> list[Result]:
        """What `act` makes of every item, in their order. An item and its result are plain data."""
        task: Any = ray.remote(num_cpus=cpus)(alone)
        waiting = [task.remote(act, item) for item in items]
        places = {reference: place for place, reference in enumerate(waiting)}
        found: dict[int, Result] = {}
        self.total += len(items)
        self._say(act)
        while waiting:
            (ready,), waiting = ray.wait(waiting, num_returns=1)
            found[places[ready]] = ray.get(ready)
            self.done += 1
            self._say(act)
        return [found[place] for place in range(len(items))]

    def _say(self, act: Callable[..., Any]) -> None:
        self.log(Progress(self.done, self.total, "points", act.__name__.replace("_", " ")))


def alone(act: Callable[[Item], Result], item: Item) -> Result:
    """In a worker: on one thread, whatever the machine has."""
    torch.set_num_threads(1)
    return act(item)
