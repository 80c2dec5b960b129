"""What a job reports while it runs, through the `log` that it is given; `print` is a valid one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Progress:
    """How far the job is, in `unit`s. `total` is None while it is unknown; `detail` stands beside the bar."""

    done: float
    total: float | None
    unit: str
    detail: str = ""


@dataclass(frozen=True)
class Metrics:
    """Figures at one step of a curve, e.g. at an update of training. A step reported twice is recorded once."""

    step: int
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Note:
    """A sentence worth keeping in the run's log and worth showing."""

    text: str


Event = Progress | Metrics | Note
Log = Callable[[Event], None]
Facts = Mapping[str, int | float | str]  # figures of a finished result: flat, for the record and MLflow
