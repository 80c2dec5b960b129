"""Redirect what libraries print to a log file, so that the terminal shows our own output alone.

Ray, MLflow, SentencePiece and C++ code write to the process's own standard output and error, so the file descriptors
themselves are turned over to the log; we keep a copy of the real ones. A driver on a cluster is another matter: its
output is what `ray job logs` and the dashboard show, and a file on its node ends with the node, so it prints all.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console


def log_file(directory: Path, name: str) -> Path:
    return directory / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{name}-{os.getpid()}.log"


def prints_everything(address: str | None) -> bool:
    """Whether this process is a driver on a cluster whose output is collected: a job of Ray's, KubeRay's or Slurm's."""
    return bool(address or os.environ.get("RAY_ADDRESS")) and not sys.stdout.isatty()


@contextlib.contextmanager
def output_to(log: Path | None) -> Iterator[Console]:
    """A console on the real standard output, while everything else that is printed lands in the log; without a log,
    beside it."""
    if log is None:
        yield Console(highlight=False, soft_wrap=True)
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    warnings.simplefilter("default")
    real_out, real_error = os.dup(1), os.dup(2)
    terminal = os.fdopen(os.dup(real_out), "w", buffering=1, errors="backslashreplace")
    handle = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)
    try:
        yield Console(file=terminal, highlight=False, soft_wrap=not terminal.isatty())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(real_out, 1)
        os.dup2(real_error, 2)
        os.close(real_out)
        os.close(real_error)
        terminal.close()
