"""Figures of a training for Prometheus: Ray collects the gauges of every process and puts `ray_` before them.

The dashboard in infra/monitoring shows them, one line per training.
"""

from __future__ import annotations

from functools import lru_cache

from ray.util.metrics import Gauge

from jobs.events import Metrics

SHOWN = {
    "loss": "smoothed cross-entropy per target token, as trained on",
    "tokens_per_second": "target tokens per second, all workers together",
    "learning_rate": "of the last update",
}


@lru_cache
def gauge(name: str, description: str) -> Gauge:
    """One per process, whatever the number of trainings in it."""
    return Gauge(f"attn_{name}", description=description, tag_keys=("training",))


def show(training: str, point: Metrics) -> None:
    """A point of the curve of `training` (its fingerprint). Needs a Ray, running or not any more: it never waits."""
    label = {"training": training}
    gauge("update", "how far the training is").set(point.step, label)
    for name, description in SHOWN.items():
        if name in point.values:
            gauge(name, description).set(point.values[name], label)
