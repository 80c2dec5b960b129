"""A job of the tests' own: it writes a file, and does what its config says on the way."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from jobs.artifacts import Artifact
from jobs.configs import Resources, content, where
from jobs.errors import UserError
from jobs.events import Facts, Log, Metrics, Progress


@dataclass(frozen=True, kw_only=True)
class Inner:
    width: int = 8
    ratio: float | None = None


@dataclass(frozen=True, kw_only=True)
class StepConfig:
    value: int = 1
    name: str = "x"
    seconds: float = 0.0
    refuse: str = ""
    crash: bool = False
    inner: Inner = Inner()
    look_in: str | None = where()
    tally: str | None = where()  # a file to which every making adds a line


@dataclass(frozen=True, kw_only=True)
class FileConfig:
    file: str = content()


def run(config: StepConfig, *, out: Artifact, on: Resources, log: Log, **inputs: Artifact) -> Facts:
    if config.tally:
        with open(config.tally, "a") as tally:
            tally.write(f"{config.name} {os.getpid()} start {time.time()}\n")
    log(Progress(0, 2, "parts"))
    out.write_text("half.txt", "half")
    for point in range(3):
        log(Metrics(point, {"loss": 1.0 / (point + 1)}))
    time.sleep(config.seconds)
    if config.refuse:
        raise UserError(config.refuse)
    if config.crash:
        raise RuntimeError("a surprise")
    total = config.value + sum(int(artifact.read_text("value.txt")) for artifact in inputs.values())
    out.write_text("value.txt", str(total))
    if config.tally:
        with open(config.tally, "a") as tally:
            tally.write(f"{config.name} {os.getpid()} end {time.time()}\n")
    return {"value": total, "kind": config.name}
