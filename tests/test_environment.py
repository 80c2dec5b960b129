"""What the libraries are told before they are loaded: nothing listens to others, nothing calls home."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from asked_hosts import asked_elsewhere, writing_down
from conftest import ROOT

from pipelines.terminal.environment import SILENT, call_nobody, keep_ray_private

RAY = """
from pipelines.terminal.environment import call_nobody, keep_ray_private
call_nobody()
keep_ray_private()
from jobs.cluster.connect import connect
connect(cpus=1, object_store_gb=0.2)
import ray
assert ray.get(ray.remote(lambda: 1).remote()) == 1
import os
from listening import addresses_of
print("listens", *{host for host, _ in addresses_of(os.getpid())})
import time
time.sleep(5)  # the dashboard is at its start still
"""


def test_libraries_call_nobody_unless_the_user_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SILENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DO_NOT_TRACK", "false")
    call_nobody()
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert os.environ["DO_NOT_TRACK"] == "false"


@pytest.mark.parametrize("there", [True, False])
def test_the_token_is_for_its_owner_alone(there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ray" / "token"
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(file))
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "1")
    if there:
        file.parent.mkdir()
        file.write_text("known")
        file.chmod(0o644)
    keep_ray_private()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == "known" if there else len(file.read_text()) == 64
    assert os.environ["RAY_AUTH_MODE"] == "token"


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc to ask what listens")
def test_a_ray_of_ours_listens_on_the_loopback_device_only(tmp_path: Path) -> None:
    """And asks nobody where the file is that keeps its dashboard from asking the clouds, as the README says."""
    (tmp_path / "ray_bootstrap_config.yaml").touch()
    environment = {**writing_down(tmp_path / "asked"), "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")}
    environment |= {"RAY_AUTH_MODE": "disabled", "HOME": str(tmp_path)}
    environment["PYTHONPATH"] += os.pathsep + str(ROOT / "tests" / "fixtures")
    environment.pop("RAY_ADDRESS", None)
    done = subprocess.run(
        [sys.executable, "-c", RAY], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    listens = done.stdout.split("listens")[1].split()
    assert listens, "it does listen"
    assert set(listens) <= {"127.0.0.1", "::1"}
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert asked_elsewhere(tmp_path / "asked") == set()
