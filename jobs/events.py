"""What a job says while it works. A job is handed a `log`; `print` will do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Progress:
    """How far the job is. `total` is None while nobody knows; `detail` is a few words beside the bar."""

    done: float
    total: float | None
    unit: str
    detail: str = ""


@dataclass(frozen=True)
class Metrics:
    """Figures at one step of a curve, e.g. at an update of training. A step said twice is recorded once."""

    step: int
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Note:
    """A sentence worth keeping in the run's log and worth showing."""

    text: str


Event = Progress | Metrics | Note
Log = Callable[[Event], None]
Facts = Mapping[str, int | float | str]  # what a finished job knows about its result: flat, for the record and MLflow
