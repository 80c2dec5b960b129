"""Rows of a table are trainings side by side in one driver: as many as there are, none waits for another for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DRIVER = Path(__file__).parent / "fixtures" / "many_trainings.py"


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize(
    ("at_once", "rounds"), [(6, 1), pytest.param(20, 3, marks=[pytest.mark.soak, pytest.mark.timeout(2400)])]
)
def test_all_of_them_end(at_once: int, rounds: int, tmp_path: Path) -> None:
    command = [sys.executable, "-u", str(DRIVER), str(tmp_path), str(at_once), str(rounds), "600"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"{{'trained': {at_once}}}") == rounds
