"""`attn ui`: MLflow's own page of a recipe's runs, for this machine and this user alone, until Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from conftest import ROOT
from listening import addresses_of, commands_below, family_of
from step_job import StepConfig, stage

from pipelines.commands.ui import page_of
from pipelines.execution.workspace import Workspace
from pipelines.steps.step import Step
from pipelines.tracking.server import reader
from pipelines.tracking.writer import Tracker

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = Workspace(str(tmp_path_factory.mktemp("ui")))
    directory = workspace.local_directory("mlflow")
    directory.mkdir()
    for recipe in ("demo", "files"):
        tracker = Tracker(f"sqlite:///{directory}/mlflow.db", recipe, artifacts=directory / "artifacts", command="")
        step = Step(stage=stage("test"), config=StepConfig())
        tracker.begin(step, workspace.artifact(step)).end("FAILED", sentence="no good")
        assert tracker.close("FINISHED") == 0
    return workspace


def test_the_page_is_that_of_the_recipe_or_of_the_newest(tracked: Workspace) -> None:
    client = reader(tracked)
    ids = {each.name: each.experiment_id for each in client.search_experiments()}
    assert page_of("demo", client) == f"#/experiments/{ids['demo']}/runs"
    assert page_of(None, client) == f"#/experiments/{ids['files']}/runs"


def test_it_is_for_this_user_of_this_machine_until_ctrl_c(tracked: Workspace) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["ui", "demo", "--no-browser", "--port", str(port), "--workspace", tracked.uri]
    child = subprocess.Popen(
        [sys.executable, "-u", "-m", "pipelines.cli", *words], cwd=ROOT, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
        env={**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{tracked.uri}/mlflow/mlflow.db"},
    )  # fmt: skip
    try:
        assert child.stdout is not None
        said = child.stdout.readline()
        address = re.fullmatch(r"MLflow: (http://127\.0\.0\.1:\d+/)#/experiments/\d+/runs\n", said)
        assert address, said
        with urllib.request.urlopen(address[1], timeout=60) as page:
            assert b"MLflow" in page.read()
        assert {host for host, _ in addresses_of(child.pid)} == {"127.0.0.1"}
        servers = [command for command in commands_below(child.pid) if "mlflow" in command]
        assert servers
        assert not any("sqlite" in command for command in servers), "an address may have a password in it"
        below = family_of(child.pid) - {child.pid}
        os.kill(child.pid, signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 0
    assert errors == "Starting MLflow ...\n"
    for _ in range(300):  # the kernel may take a moment
        if not (left := [process for process in below if Path(f"/proc/{process}").exists()]):
            break
        time.sleep(0.1)
    assert not left, "it leaves none of its processes"


def test_a_port_that_is_taken_is_said(tracked: Workspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["ui", "--no-browser", "--port", str(port), "--workspace", tracked.uri]
        done = subprocess.run(
            [sys.executable, "-m", "pipelines.cli", *words], cwd=ROOT, capture_output=True, text=True, timeout=300
        )
    assert done.returncode == 2
    assert done.stderr == f"attn: Port {port} cannot be listened on: address already in use. Choose another --port.\n"
