"""Shared by all tests: one real local Ray for the whole session, and real text where this machine has any."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from asked_hosts import writing_down
from small_demo import SMALL, asked, attn

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small tensors: a second thread costs more than it gives
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored, and so would children
ROOT = Path(__file__).resolve().parents[1]
S3_ACCESS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """A real Ray on this machine with two CPUs, started once."""
    from jobs.cluster.connect import connect, ray  # noqa: PLC0415  the quick tests do not load Ray

    os.environ.update(S3_ACCESS)  # Ray's workers have the environment that it is started in
    connect(cpus=2, object_store_gb=1.0)
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def real_text() -> Path:
    """A directory with real parallel text, which is not part of the project."""
    directory = Path(os.environ.get("ATTN_TEST_DATA", ROOT.parent / "shared" / "data"))
    if not directory.is_dir():
        pytest.skip(f"no real text at {directory}: set ATTN_TEST_DATA to try it")
    return directory


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """A bucket on a real S3 protocol server, and the options that lead to it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(S3_ACCESS)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    name = f"attn-{uuid.uuid4().hex[:8]}"
    try:
        make = urllib.request.Request(f"http://127.0.0.1:{port}/{name}", method="PUT")
        for _ in range(1000):  # on a busy machine it takes its time
            try:
                urllib.request.urlopen(make, timeout=5)
                break
            except OSError:
                time.sleep(0.2)
        yield f"{name}?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def bucket(s3_server: str) -> str:
    """The address of an empty place on the object store, of which no other test knows."""
    name, _, options = s3_server.partition("?")
    return f"s3://{name}/{uuid.uuid4().hex[:8]}?{options}"


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace of a small demo that nobody disturbed: what every disturbed one must end with."""
    workspace = tmp_path_factory.mktemp("undisturbed")
    done = attn("run", *asked(workspace, SMALL), env=writing_down(workspace.with_suffix(".asked")))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "11 steps made, 0 found done" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stderr == "", "no library noise"
    return workspace
