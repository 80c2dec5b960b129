"""A driver for tests: joins the cluster of RAY_ADDRESS, trains on small shards and prints what it is told.

Run as    python elastic_driver.py DIRECTORY WORKERS UPDATES
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from test_train import CONFIG, on

from jobs import cluster, train
from jobs.artifacts import Artifact
from jobs.events import Event, Note, Progress


def tell(event: Event) -> None:
    if isinstance(event, Note):
        print(event.text, flush=True)
    elif isinstance(event, Progress):
        print(f"at update {event.done:g}", flush=True)


def main(directory: str, workers: int, updates: int) -> None:
    print(cluster.connect(), flush=True)
    place = Path(directory)
    long = replace(CONFIG, training=replace(CONFIG.training, steps=updates, checkpoint_every=updates, log_every=100))
    facts = train.run(
        long, shards=Artifact(str(place / "shards")), dev=Artifact(str(place / "dev")),
        out=Artifact(str(place / "out")), on=on(workers), log=tell,
    )  # fmt: skip
    print("trained", facts["updates"], "updates on", facts["workers"], "workers", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
