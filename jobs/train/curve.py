"""The state of a training and the points of its curve: logged, kept with each checkpoint, restored from it."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.train.stream import Index
from transformer.config import ModelConfig
from transformer.flops import training_flops
from transformer.update import Outcome

Point = dict[str, float]


@dataclass
class Window:
    """Sums over the updates since the last point of the curve."""

    updates: int = 0
    loss: float = 0.0
    nll: float = 0.0
    target_tokens: int = 0
    real_tokens: int = 0
    padded_tokens: int = 0
    flops: float = 0.0
    seconds: float = 0.0


@dataclass
class Standing:
    """The state of training beside weights, moments and curve. `update` is the last one made."""

    update: int = 0
    target_tokens: int = 0
    seconds: float = 0.0  # in updates, without measurements on the development set
    flops: float = 0.0
    skipped: int = 0
    world_size: int = 0
    parameters: int = 0
    peak_memory_gb: float = 0.0
    precision: str = ""  # of the products; all that there were, where training went on elsewhere
    window: Window = field(default_factory=Window)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(state: dict[str, Any]) -> Standing:
        return Standing(**{**state, "window": Window(**state["window"])})


class NotFinite(Exception):
    """The loss or gradient of an update is not a number; the micro-batch at `place`, if any, is to blame."""

    def __init__(self, update: int, place: int | None) -> None:
        super().__init__(update, place)
        self.update, self.place = update, place


class Curve:
    """Counts what updates do; makes points of them. Outcomes stay on the device until `collect`."""

    def __init__(self, standing: Standing, points: list[Point], *, peak_flops: float) -> None:
        self.standing = standing
        self.points = points
        self.peak_flops = peak_flops
        self._pending: list[tuple[int, int, Outcome]] = []
        self._norm = math.nan  # of the last update collected
        self._since = time.perf_counter()

    def add(self, update: int, rows: NDArray[np.int64], index: Index, outcome: Outcome, flops: float) -> None:
        window, tokens = self.standing.window, int(index.target_tokens[rows].sum())
        self.standing.update = update
        self.standing.target_tokens += tokens
        window.updates += 1
        window.target_tokens += tokens
        window.real_tokens += int((index.source_tokens[rows] + index.target_tokens[rows]).sum())
        window.padded_tokens += int(index.padded_tokens[rows].sum())
        window.flops += flops
        self._pending.append((update, tokens, outcome))

    def collect(self, *, skip: bool) -> None:
        """Wait for the losses of the updates so far. One that is not finite is raised, or left out of the mean."""
        now = time.perf_counter()
        window = self.standing.window
        for update, tokens, outcome in self._pending:
            losses_M2, norm = outcome.losses_M2.double(), float(outcome.gradient_norm)
            if not (math.isfinite(norm) and bool(losses_M2.isfinite().all())):
                if not skip:
                    bad = (~losses_M2.isfinite().all(dim=1)).nonzero()
                    raise NotFinite(update, int(bad[0]) if len(bad) else None)
                self.standing.skipped += 1
                window.target_tokens -= tokens
                continue
            self._norm = norm
            loss, nll = losses_M2.sum(dim=0).tolist()
            window.loss, window.nll = window.loss + loss, window.nll + nll
        self._pending.clear()
        window.seconds += now - self._since
        self._since = now

    def pause(self) -> None:
        """Leave out the time since the last `collect`: it was not spent on updates."""
        self._since = time.perf_counter()

    def point(self, *, learning_rate: float) -> Point:
        """The means of the window, which starts anew."""
        standing, window = self.standing, self.standing.window
        tokens, seconds = max(window.target_tokens, 1), max(window.seconds, 1e-9)
        made = {
            "update": standing.update,
            "loss": window.loss / tokens,
            "perplexity": math.exp(min(window.nll / tokens, 700)),
            "learning_rate": learning_rate,
            "gradient_norm": self._norm,
            "tokens_per_second": window.target_tokens / seconds,
            "padding_share": 1 - window.real_tokens / max(window.padded_tokens, 1),
            "flops_share": window.flops / seconds / self.peak_flops,
        }
        standing.seconds += window.seconds
        standing.flops += window.flops
        standing.window = Window()
        self.points.append(made)
        return made


def flops_by_row(index: Index, model: ModelConfig, vocabulary_size: int) -> NDArray[np.float64]:
    """Training FLOPs of every micro-batch, by the mean lengths of its pairs: nothing is computed for padding."""
    source: Any = index.source_tokens / index.pairs
    target: Any = index.target_tokens / index.pairs
    per_pair: Any = training_flops(model, vocabulary_size, source=source, target=target)
    return np.asarray(index.pairs * per_pair, dtype=np.float64)
