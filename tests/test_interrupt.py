"""Ctrl-C ends a command at once: without a stack trace, and whatever its main thread waits for."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, S3_ACCESS

from pipelines.commands.run import standing
from pipelines.execution.workspace import Workspace
from pipelines.recipes.recipes import RECIPES
from pipelines.steps.plan import plan
from transformer.checkpoint import STATE

pytestmark = pytest.mark.slow
AT_MOST_S = 2.0
BUSY_S = 8.0  # that other work on this machine may add
SLOW_END = """
import time
from pipelines.terminal import interrupt
interrupt.end_soon()
try:
    print("waits", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    interrupt.end_in_order()
    time.sleep(2 * interrupt.GRACE_S)
    print("ended in order")
"""


def interrupted(*command: str, ready: socket.socket | None = None, **environment: str) -> tuple[int, float, str]:
    """Start Python with this, press Ctrl-C after its first line or once it has connected; status, seconds, words."""
    child = subprocess.Popen(
        [sys.executable, "-u", *command], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **environment}, start_new_session=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        said = child.stdout.readline() if ready is None else ""
        connection = ready.accept()[0] if ready is not None else None
        began = time.monotonic()
        os.killpg(child.pid, signal.SIGINT)
        said += child.communicate(timeout=20)[0]
        if connection is not None:
            connection.close()
        return child.returncode, time.monotonic() - began, said
    finally:
        child.kill()
        child.wait()


def test_a_store_that_never_answers_is_not_waited_for() -> None:
    """The main thread is inside of a library, where no KeyboardInterrupt reaches it."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as silent:  # takes connections, and says nothing
        silent.settimeout(120)
        status, seconds, said = interrupted(
            "-m", "pipelines.cli", "plan", "demo", "--workspace", "s3://bucket/attn", ready=silent,
            AWS_ENDPOINT_URL=f"http://127.0.0.1:{silent.getsockname()[1]}", AWS_DEFAULT_REGION="us-east-1", **S3_ACCESS,
        )  # fmt: skip
    assert status == 130, said
    assert seconds < AT_MOST_S + BUSY_S
    assert said == ""


def test_what_ends_in_order_may_take_its_time() -> None:
    status, seconds, said = interrupted("-c", SLOW_END)
    assert said.splitlines()[-1] == "ended in order", said
    assert status == 0
    assert seconds > AT_MOST_S


def test_it_says_from_which_update_training_will_go_on(tmp_path: Path) -> None:
    workspace = Workspace(str(tmp_path))
    planned = plan([RECIPES["demo"].step()], workspace)
    assert standing(planned, workspace) == [], "it had not begun"
    (training,) = [each.step for each in planned.steps if each.step.stage.curve]
    place = workspace.artifact(training)
    place.write_text("work/run/progress", "")
    assert standing(planned, workspace) == ["train model will start anew."]
    for name in (f"update-0000100/{STATE}", f"update-0001500/{STATE}", "update-0001600/model.safetensors"):
        place.write_text(f"work/run/{name}", "{}")
    assert standing(planned, workspace) == ["train model will go on from update 1,500."]
    workspace.finish(training, {}, {"seconds": 0.0, "when": "now"})
    assert standing(planned, workspace) == []
