"""`attn serve`: what it refuses, in a sentence; and that it says when it is ready, and stops when it is told to."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from small_model import random_directory

from pipelines.cli import main

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_directory(tmp_path_factory.mktemp("serve") / "model")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Which model?"),
        (["no/such/dir"], "is not a model directory: it has no config.json"),
        (["dmeo"], "There is no recipe 'dmeo'"),
        (["parsing-demo"], "attn run parsing-demo"),
        (["MODEL", "--host", "0.0.0.0"], "without keys everybody there may use the service"),
        (["MODEL", "--host", "0.0.0.0", "--keys", "absent"], "The key file absent cannot be read"),
        (["MODEL", "--languages", "english"], "two codes such as en-de"),
        (["MODEL", "--replicas", "many"], "a number or a range"),
        (["MODEL", "--replicas", "3-1"], "serve.min_replicas must be from 1 to max_replicas"),
        (["MODEL", "--rate", "0"], "--rate must be above 0"),
        (["MODEL", "--concurrent", "0"], "--concurrent must be above 0"),
        (["MODEL", "MODEL"], "every model needs a name of its own"),
        (["--new-key", "alice"], "--new-key needs --keys FILE"),
        (["--keys", "keys", "--new-key", "two words"], "one word"),
    ],
)
def test_what_cannot_be_served_is_a_sentence(
    arguments: list[str],
    says: str,
    directory: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["serve", *(str(directory) if word == "MODEL" else word for word in arguments)]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said


def test_a_port_in_use_is_a_sentence(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["serve", str(directory), "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot be listened on: address already in use" in capsys.readouterr().err


def test_a_new_key_is_shown_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--keys", str(tmp_path / "keys"), "--new-key", "alice"]) == 0
    key = capsys.readouterr().out.strip()
    assert len(key) > 40
    assert key not in (tmp_path / "keys").read_text()
    assert (tmp_path / "keys").read_text().endswith(" alice\n")


def translate(address: str, text: str) -> Any:
    body = json.dumps({"q": text, "source": "en", "target": "de"}).encode()
    request = urllib.request.Request(f"{address}/translate", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def figures(address: str) -> str:
    with urllib.request.urlopen(f"{address}/metrics", timeout=20) as answer:
        text: str = answer.read().decode()
    return text


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.05)


def descendants(pid: int) -> set[int]:
    """The processes that a process started, and those that these started."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


@pytest.mark.ray
def test_it_says_when_it_is_ready_and_stops_when_told(directory: Path, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "pipelines.cli",
        "serve",
        f"one={directory}",
        f"two:en-fr={directory}",
        "--port",
        str(port),
        "--json",
    ]
    harder = {"RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0"}  # as RAY_SERVE_THROUGHPUT_OPTIMIZED has it
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | harder
    service = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert service.stdout is not None
        ready = json.loads(service.stdout.readline())
        assert ready == {"address": f"http://127.0.0.1:{port}", "models": ["one", "two"]}
        with urllib.request.urlopen(f"{ready['address']}/v1/models", timeout=20) as answer:
            models = json.loads(answer.read())
        assert [(model["name"], model["target"]["code"]) for model in models] == [("one", "de"), ("two", "fr")]
        with ThreadPoolExecutor(1) as thread:
            under_way = thread.submit(translate, ready["address"], "kaba lori mino. " * 60)
            wait_until(lambda: 'works_waiting{model="one"} 0.0' not in figures(ready["address"]))
            started = descendants(service.pid)
            service.send_signal(signal.SIGINT)
            assert len(under_way.result()["translatedText"]) > 200, "what is under way is finished"
    finally:
        service.send_signal(signal.SIGINT)
        _, errors = service.communicate(timeout=120)
    assert service.returncode == 0
    assert started
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))
    assert errors.splitlines() == [
        "Checking the models and starting Ray ...",
        "Finishing what is under way ...",
        "Stopped.",
    ]
