"""Who made a result, when, where and with what: kept in its record beside what it is."""

from __future__ import annotations

import getpass
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from jobs.passwords import hidden

LIBRARIES = ("attn", "torch", "ray", "mlflow", "pyarrow", "sentencepiece", "sacrebleu", "safetensors", "numpy")


def made_now(seconds: float, profile: str, run_id: str | None) -> Mapping[str, Any]:
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "user": user(),
        "host": platform.node(),
        "profile": profile,
        "command": command_line(),
        "run_id": run_id,
        "commit": commit(),
        "versions": versions(),
    }


def command_line() -> str | None:
    """The `attn ...` that this process was started with, as a shell takes it; None where attn is used as a library."""
    program, *words = sys.argv
    if Path(program).name not in ("attn", "cli.py"):
        return None
    return hidden(shlex.join(["attn", *words]))


@lru_cache
def versions() -> dict[str, str]:
    """Of Python and of every library that can change a result."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def user() -> str:
    """Who wants the result: of a submitted job, who submitted it (ATTN_USER), not the account it runs under."""
    named = os.environ.get("ATTN_USER")
    if named:
        return named
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # an account without a name, as containers have them
        return f"uid {os.getuid()}"


def commit() -> str | None:
    """The commit of this code, with a + where files differ from it: of a submitted job, the submitter's."""
    return os.environ.get("ATTN_COMMIT") or commit_of_checkout()


@lru_cache
def commit_of_checkout() -> str | None:
    """None outside a checkout."""
    git = ["git", "-C", str(Path(__file__).resolve().parent)]
    try:
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, timeout=5)
        changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "") if head.returncode == 0 else None
