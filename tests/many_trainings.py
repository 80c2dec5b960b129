"""A driver for tests: many trainings at once in one process, as rows of a table are, all of which must end.

Run as    python many_trainings.py DIRECTORY AT_ONCE ROUNDS SECONDS

All are started at once and there is room for six: Ray's processes of one training take 1.3 GB together.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from test_train import CONFIG, on
from tiny_shards import tiny_shards

from jobs import cluster, train
from jobs.artifacts import Artifact

ROOM = 6


def main(place: Path, at_once: int, rounds: int, seconds: float) -> int:
    tiny_shards(place / "shards", pairs=40)
    tiny_shards(place / "dev", micro_batches=3, seed=9)
    cluster.connect(cpus=min(at_once, ROOM))
    for number in range(rounds):
        began, ended = time.monotonic(), [""] * at_once
        threads = [
            threading.Thread(target=one, args=(place, number, row, ended), daemon=True) for row in range(at_once)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, began + seconds - time.monotonic()))
        outcome = {word: ended.count(word) for word in sorted(set(ended))}
        print(f"round {number + 1}: {outcome} after {time.monotonic() - began:.0f} s", flush=True)
        if outcome != {"trained": at_once}:
            return 1
    return 0


def one(place: Path, number: int, row: int, ended: list[str]) -> None:
    ended[row] = "hangs"
    training = replace(CONFIG.training, steps=40, seed=row + 1)
    shards, dev, out = (Artifact(str(place / name)) for name in ("shards", "dev", f"out-{number}-{row}"))
    try:
        facts = train.run(
            replace(CONFIG, training=training), shards=shards, dev=dev, out=out, on=on(1), log=lambda event: None
        )  # fmt: skip
        ended[row] = "trained" if facts["updates"] == training.steps else "cut short"
    except Exception as problem:
        ended[row] = repr(problem)


if __name__ == "__main__":
    status = main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    sys.stdout.flush()
    os._exit(status)  # threads that hang would keep it
