"""The demo recipe made small, through the real command line: a whole pipeline in a minute, and what it ends with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SMALL = [
    "corpus.train_pairs=3000", "corpus.dev_pairs=60", "corpus.test_pairs=60", "vocabulary.size=600",
    "model.layers=1", "model.d_model=32", "model.d_ff=64", "model.num_heads=2",
    "training.steps=200", "training.checkpoint_every=10", "training.dev_every=100", "training.log_every=5",
    "scoring.bootstrap=20",
]  # fmt: skip
LOGGED = [1, *range(5, 201, 5)]  # the updates of SMALL's curve


def attn(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipelines.cli", *words]
    given: dict[str, object] = {"cwd": ROOT, **options}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, **given)  # type: ignore[call-overload,no-any-return]


def asked(workspace: Path, settings: list[str]) -> list[str]:
    """The recipe and its options: what follows `run` or `submit`."""
    changes = [word for setting in settings for word in ("--set", setting)]
    return ["demo", "--workspace", str(workspace), *changes]


def result_files(workspace: Path) -> dict[str, bytes]:
    """What a run ends with, by stage; the report holds times and is left out."""
    names = ("model.safetensors", "hypotheses.txt", "subwords.model", "scores.json")
    return {f"{file.parent.parent.name}/{name}": file.read_bytes() for name in names for file in workspace.rglob(name)
            if not {"work", "mlflow"} & set(file.parts[len(workspace.parts):])}  # fmt: skip
