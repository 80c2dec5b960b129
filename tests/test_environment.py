"""What the libraries are told before they are loaded: nothing listens to others, nothing calls home."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from pipelines.terminal.environment import SILENT, call_nobody, keep_ray_private

LISTENING = """
import os
from pipelines.terminal.environment import keep_ray_private
keep_ray_private()
from jobs.cluster.connect import connect
connect(cpus=1, object_store_gb=0.2)
import ray
assert ray.get(ray.remote(lambda: 1).remote()) == 1
parents = {}
for process in filter(str.isdigit, os.listdir("/proc")):
    try:
        parents[int(process)] = int(open(f"/proc/{process}/stat").read().rpartition(")")[2].split()[1])
    except OSError:
        pass
ours = {os.getpid()}
while more := {child for child, parent in parents.items() if parent in ours} - ours:
    ours |= more
sockets = set()
for process in ours:
    try:
        for handle in os.listdir(f"/proc/{process}/fd"):
            sockets.add(os.readlink(f"/proc/{process}/fd/{handle}"))
    except OSError:
        pass
for family in ("tcp", "tcp6"):
    for line in open(f"/proc/net/{family}").read().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
            print("listens", words[1])
"""
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")


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
    environment = {**os.environ, "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token"), "RAY_AUTH_MODE": "disabled"}
    environment.pop("RAY_ADDRESS", None)
    done = subprocess.run(
        [sys.executable, "-c", LISTENING], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = [line.split()[1].partition(":")[0] for line in done.stdout.splitlines() if line.startswith("listens")]
    assert found, "it does listen"
    assert set(found) <= set(LOOPBACK)
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
