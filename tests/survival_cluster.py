"""Several Ray nodes on this machine, each of processes of its own as `ray start` makes them, to be lost one by one.

A node is lost as when its power goes: every process of it at once, without a word. All of them have a token, ports and
a directory that no other Ray on this machine has, and all are ended by their ids.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs.artifacts import Artifact
from jobs.train_checkpoints import whole_checkpoints

RAY = str(Path(sys.executable).with_name("ray"))
TRAINING, TRANSLATING = "ray::RayTrainWorker", "ray::MapWorker(Map(TranslatingActor)"
FETCHING, SHARDING = "ray::_run_task", "ray::Map("


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(true: Callable[[], bool], what: str, seconds: float = 480) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, f"waited in vain for {what}"
        time.sleep(0.02)


# --- processes -------------------------------------------------------------------------------------------------------


def children() -> dict[int, list[int]]:
    """Who started whom, of all processes of this machine."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
                found.setdefault(parent, []).append(int(name))
    return found


def descendants(pid: int) -> list[int]:
    tree, found = children(), [pid]
    for one in found:
        found += tree.get(one, [])
    return found[1:]


def title(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def end_all(root: subprocess.Popen[bytes]) -> None:
    """A process and all that it started, at once: first none may start another, then all are gone."""
    frozen: list[int] = []
    while fresh := [pid for pid in [root.pid, *descendants(root.pid)] if pid not in frozen]:
        for pid in fresh:
            send(pid, signal.SIGSTOP)
        frozen += fresh
    for pid in frozen:
        send(pid, signal.SIGKILL)
    root.wait(timeout=60)


# --- nodes -----------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Node:
    process: subprocess.Popen[bytes]
    log: Path

    def is_up(self) -> bool:
        return "Ray runtime started" in self.log.read_text()

    def workers(self, doing: str) -> list[int]:
        """Its processes that do this now: Ray writes it into their titles."""
        return [pid for pid in descendants(self.process.pid) if title(pid).startswith(doing)]

    def kill(self) -> None:
        end_all(self.process)


def started(launch: Callable[[], Node]) -> Node:
    """Up to three times: Ray gives itself half a minute to start, which a busy machine may not have."""
    for _ in range(3):
        node = launch()
        wait_for(lambda: node.is_up() or node.process.poll() is not None, "a node")  # noqa: B023  waited for here
        if node.process.poll() is None:
            return node
    raise AssertionError(node.log.read_text())


@dataclass
class Cluster:
    """A head without CPUs, where the driver is, and nodes that work."""

    directory: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="surv", dir="/tmp")))  # short: sockets
    token: str = field(default_factory=lambda: secrets.token_hex(32))
    port: int = 0
    dashboard: int = 0
    head: Node | None = None
    nodes: list[Node] = field(default_factory=list)
    _started: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.dashboard}"

    @property
    def address(self) -> str:
        """As the head says it, once it is up: Ray does not listen at 127.0.0.1."""
        assert self.head is not None
        log = self.head.log
        wait_for(lambda: "--address='" in log.read_text(), "the head's address")
        found = re.search(r"--address='([\d.]+:\d+)'", log.read_text())
        assert found
        return found[1]

    @property
    def environment(self) -> dict[str, str]:
        """For whoever speaks to this cluster, and to no other."""
        ours = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token, "RAY_USAGE_STATS_ENABLED": "0"}
        foreign = ("ATTN_WORKSPACE", "MLFLOW_TRACKING_URI", "RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")
        return {name: value for name, value in os.environ.items() if name not in foreign} | ours

    def start(self, nodes: int) -> None:
        def lead() -> Node:
            self.port, self.dashboard = free_port(), free_port()
            return self._launch(
                "--head", f"--port={self.port}", f"--dashboard-port={self.dashboard}", "--dashboard-host=127.0.0.1",
                f"--ray-client-server-port={free_port()}", "--num-cpus=0",
            )  # fmt: skip

        self.head = started(lead)
        for _ in range(nodes):
            self.join()

    def join(self, cpus: int = 1, **resources: float) -> Node:
        """One node more, when it is there."""
        words = [f"--address={self.address}", f"--num-cpus={cpus}", f"--resources={json.dumps(resources)}"]
        self.nodes.append(started(lambda: self._launch(*words)))
        return self.nodes[-1]

    def _launch(self, *arguments: str) -> Node:
        self._started += 1
        log = self.directory / f"log{self._started}"
        quick = {"RAY_health_check_period_ms": "1000", "RAY_health_check_initial_delay_ms": "1000"}  # a loss is noticed
        ports = [f"--dashboard-agent-listen-port={free_port()}", f"--metrics-export-port={free_port()}"]
        # A directory of its own, as on a machine of its own: Ray would unpack our code anew under a driver's feet.
        place = f"--temp-dir={self.directory}/{self._started}"
        command = [RAY, "start", "--block", "--object-store-memory=100000000", place, *ports]
        with log.open("wb") as output:
            environment = self.environment | quick
            process = subprocess.Popen([*command, *arguments], env=environment, stdout=output, stderr=output)
        return Node(process, log)

    def lose(self, node: Node) -> None:
        node.kill()
        self.nodes.remove(node)

    def lose_everything(self) -> None:
        """The head and the nodes: a node without a head ends by itself, but in its own time."""
        for node in [*([self.head] if self.head else []), *self.nodes]:
            node.kill()
        self.head = None
        self.nodes.clear()

    def stop(self) -> None:
        self.lose_everything()
        shutil.rmtree(self.directory, ignore_errors=True)

    # --- what happens there ------------------------------------------------------------------------------------------

    def working(self, doing: str) -> Node | None:
        return next((node for node in self.nodes if node.workers(doing)), None)

    def wait_until_working(self, doing: str) -> Node:
        found: list[Node] = []
        wait_for(lambda: bool(found.append(node) or True) if (node := self.working(doing)) else False, doing)
        return found[0]

    def catch(self, doing: str, run: subprocess.Popen[str] | None = None) -> int:
        """A process in the middle of this, stopped there. `run` is who should have it done."""
        caught: list[int] = []

        def look() -> bool:
            assert run is None or run.poll() is None, f"it ended before anybody was at {doing}:\n{run.communicate()[0]}"
            for pid in (pid for node in self.nodes for pid in node.workers(doing)):
                send(pid, signal.SIGSTOP)
                if title(pid).startswith(doing):
                    caught.append(pid)
                    return True
                send(pid, signal.SIGCONT)  # it was done just before
            return False

        wait_for(look, f"somebody at {doing}")
        return caught[0]

    def kill_worker(self, doing: str) -> None:
        send(self.catch(doing), signal.SIGKILL)

    def node_of(self, pid: int) -> Node:
        return next(node for node in self.nodes if pid in descendants(node.process.pid))

    def attn(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-u", "-m", "pipelines.cli", *words]
        return self.run(command)

    def run(self, command: list[str]) -> subprocess.Popen[str]:
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(command, env=self.environment, cwd=self.directory, text=True, **both)


def end(run: subprocess.Popen[str], seconds: float = 600) -> str:
    """What it said, when it is over and all is well."""
    said, _ = run.communicate(timeout=seconds)
    assert run.returncode == 0, said
    return said


def kept(workspace: Path, training: str = "train/*") -> dict[str, Any]:
    """Where the newest checkpoint stands that training would go on from."""
    for directory in workspace.glob(f"{training}/work/*"):
        run = Artifact(str(directory))
        if names := whole_checkpoints(run):
            return run.read_json(f"{names[-1]}/state.json")  # type: ignore[no-any-return]
    return {"update": 0, "world_size": 0}


@contextlib.contextmanager
def cluster_of(nodes: int) -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        cluster.start(nodes)
        yield cluster
    finally:
        cluster.stop()
