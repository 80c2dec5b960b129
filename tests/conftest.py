"""Shared by all tests: one real local Ray for the whole session, and real text where this machine has any."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """A real Ray on this machine with two CPUs, started once."""
    from jobs import cluster  # noqa: PLC0415  the quick tests do not load Ray

    cluster.connect(cpus=2, object_store_gb=1.0)
    yield
    cluster.ray.shutdown()


@pytest.fixture(scope="session")
def real_text() -> Path:
    """A directory with real parallel text, which is not part of the project."""
    directory = Path(os.environ.get("ATTN_TEST_DATA", ROOT.parent / "shared" / "data"))
    if not directory.is_dir():
        pytest.skip(f"no real text at {directory}: set ATTN_TEST_DATA to try it")
    return directory
