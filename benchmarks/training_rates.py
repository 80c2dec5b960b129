"""What bench_training.py makes of its runs: rates over all and at best, and what the job adds to the bare loop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import stdev

TEN_MINUTES = 600.0  # between two checkpoints of the paper


@dataclass(frozen=True)
class Measured:
    """Of one run: tokens and seconds of each update that counts, peak memory of a process, CPU time of all of them."""

    tokens: list[float]
    seconds: list[float]
    memory_gb: float
    cpu_seconds: float | None = None  # of these updates, where it is known


def rate(runs: list[Measured]) -> float:
    """Tokens per second of several runs."""
    return sum(sum(run.tokens) for run in runs) / sum(sum(run.seconds) for run in runs)


def best_rate(runs: list[Measured]) -> float:
    """Tokens per second of several runs over the same updates, each update at its best."""
    assert all(run.tokens == runs[0].tokens for run in runs)
    return sum(runs[0].tokens) / sum(min(each) for each in zip(*(run.seconds for run in runs), strict=True))


def rate_of_cpu(runs: list[Measured]) -> float | None:
    """Tokens per second of CPU time: what comes out beside other work on the same cores, too."""
    spent = [run.cpu_seconds for run in runs if run.cpu_seconds is not None]
    return sum(sum(run.tokens) for run in runs) / sum(spent) if len(spent) == len(runs) else None


def overhead(bare: list[Measured], job: list[Measured], written: int) -> str:
    """A checkpoint is written beside one update of every run, the counted one `written`: far more often than in use.
    The paper wrote one in ten minutes, so it is set against these; Ray, reader and logging by the other updates."""
    whole, whole_best = (1 - how(job) / how(bare) for how in (rate, best_rate))
    by_round = [1 - rate([ours]) / rate([theirs]) for ours, theirs in zip(job, bare, strict=True)]
    usual, best = (1 - how(without(job, written)) / how(without(bare, written)) for how in (rate, best_rate))
    expected, took = (sum(run.seconds[written] for run in runs) / len(runs) for runs in (bare, job))
    checkpoint = round(took - expected / (1 - usual), 1) + 0.0  # no -0.0
    return (
        f"Ray, reader, logging and a checkpoint in every run cost {whole:.1%} of the bare loop"
        f"{standard_error(by_round)}, at best {whole_best:.1%}.\n"
        f"Without the checkpoint {usual:.1%}, at best {best:.1%}; it costs {checkpoint:.1f} s, "
        f"{checkpoint / TEN_MINUTES:.1%} of ten minutes."
    )


def standard_error(values: list[float]) -> str:
    """How far a mean of these may be off, for a sentence; nothing can be said of one."""
    if len(values) < 2:
        return ""
    return f" (standard error over {len(values)} rounds: {stdev(values) / math.sqrt(len(values)):.1%})"


def without(runs: list[Measured], update: int) -> list[Measured]:
    """The runs as if an update had not been counted."""
    return [
        Measured(
            [*run.tokens[:update], *run.tokens[update + 1 :]],
            [*run.seconds[:update], *run.seconds[update + 1 :]],
            run.memory_gb,
        )
        for run in runs
    ]
