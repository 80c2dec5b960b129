"""A real Ray head behind a token, as `ray start` makes one: submit to it, follow, attach, stop; and be refused well."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from jobs.cluster.profiles import load_profile
from jobs.cluster.submit import client
from jobs.cluster.submit.submission import Submission
from jobs.errors import UserError
from pipelines import cli

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]
RAY = str(Path(sys.executable).with_name("ray"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(true: Callable[[], bool], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.3)


@dataclass
class Head:
    """A head of our own: its ports, its token, its processes, which end with it and by their ids."""

    directory: Path
    token: str = field(default_factory=lambda: secrets.token_hex(32))
    port: int = 0
    dashboard: int = 0
    metrics: int = 0
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.dashboard}"

    def launch(self, *arguments: str, within: tuple[str, ...] = ()) -> None:
        environment = os.environ | {
            "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token, "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_metrics_report_interval_ms": "1000",
            "PATH": "/usr/bin:/bin",  # as on a machine where the python with Ray is not the first one found
        }  # fmt: skip
        with (self.directory / f"log{len(self.processes)}").open("wb") as log:
            command = [*within, RAY, "start", "--block", "--object-store-memory=100000000", *arguments]
            self.processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))

    def start(self) -> None:
        """Up to three times: Ray gives itself half a minute to start, which a busy machine may not have."""
        for _ in range(3):
            self.port, self.dashboard, self.metrics = free_port(), free_port(), free_port()
            self.launch(
                "--head", f"--port={self.port}", f"--dashboard-port={self.dashboard}", "--dashboard-host=127.0.0.1",
                f"--dashboard-agent-listen-port={free_port()}", f"--ray-client-server-port={free_port()}",
                f"--metrics-export-port={self.metrics}", f"--temp-dir={self.directory}/s", "--num-cpus=2",
            )  # fmt: skip
            wait_for(lambda: self.ready() or self.processes[0].poll() is not None, seconds=240)
            if self.processes[0].poll() is None:
                return
            self.processes.clear()
        raise AssertionError((self.directory / "log0").read_text(encoding="utf-8"))

    def ready(self) -> bool:
        try:
            facts = client.cluster_facts(client.connect(self.url))
        except (UserError, KeyError):
            return False
        return facts.total("CPU") == 2 and facts.interpreter != "python"

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(timeout=60)


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    directory = Path(tempfile.mkdtemp(prefix="a", dir="/tmp"))  # short: sockets have names of at most 107 bytes
    made = Head(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN", made.token)
        patch.delenv("RAY_AUTH_MODE", raising=False)  # a client that was told nothing but the token
        patch.delenv("RAY_ADDRESS", raising=False)
        try:
            made.start()
            yield made
        finally:
            made.stop()
            shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def asked(tmp_path: Path) -> Submission:
    """The command line's own help, as a recipe that is quick."""
    return Submission(
        recipe="demo",
        fingerprint=secrets.token_hex(10),
        arguments=("--help",),
        profile=load_profile("laptop"),
        workspace=str(tmp_path / "workspace"),
        commit="c0ffee",
        user="me",
    )


def test_a_wrong_or_missing_token_is_refused(head: Head, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    with pytest.raises(UserError, match="does not accept this token") as caught:
        client.connect(head.url)
    assert "0000" not in str(caught.value)
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    with pytest.raises(UserError, match="asks for a token and there is none here"):
        client.connect(head.url)
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text(head.token + "\n", encoding="utf-8")
    assert client.listing(client.connect(f"127.0.0.1:{head.dashboard}/")) is not None


def test_an_address_that_is_none_is_a_sentence() -> None:
    with pytest.raises(UserError, match="No Ray cluster answers"):
        client.connect(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(UserError, match="no address of a job server"):
        client.connect("ray://127.0.0.1:10001")


def test_a_server_that_is_no_ray_is_a_sentence() -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(UserError, match="not a Ray dashboard"):
            client.connect(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def test_the_cluster_is_examined_from_within(head: Head, asked: Submission) -> None:
    connection = client.connect(head.url)
    found = {finding.what: finding for finding in client.examine(connection, asked)}
    client.require_no_error(found.values())
    assert {found[what].level for what in ("cluster", "Ray", "Python", "CPUs", "code", "workspace")} == {"ok"}
    assert list(Path(asked.workspace).iterdir()) == []  # nothing left behind
    Path(asked.workspace).rmdir()
    Path(asked.workspace).write_text("a file in the way", encoding="utf-8")
    nowhere = replace(asked, tracking=f"http://127.0.0.1:{free_port()}")
    found = {finding.what: finding for finding in client.examine(connection, nowhere)}
    assert {found["workspace"].level, found["MLflow"].level} == {"error"}
    with pytest.raises(UserError, match=r"The cluster cannot run this\. workspace: .*MLflow: "):
        client.require_no_error(found.values())


def test_a_recipe_runs_is_followed_and_listed(head: Head, asked: Submission) -> None:
    connection = client.connect(head.url)
    job, started = client.submit(connection, asked)
    assert started
    assert job.id.startswith("attn-demo-me-")
    lines = list(client.log_lines(connection, job.id, follow=True))
    assert lines[0].startswith("usage: attn run")
    assert list(client.log_lines(connection, job.id)) == lines
    over = client.find_own(connection, "demo", "me", asked.workspace)
    assert (over.id, over.status, over.user, over.commit, over.profile) == (job.id, "done", "me", "c0ffee", "laptop")
    assert over.id in [one.id for one in client.listing(connection)]
    assert client.stop(connection, job.id) is False
    kept = json.dumps(over.metadata) + over.message + "\n".join(lines)
    assert head.token not in kept + str(connection.client.get_job_info(job.id))


def test_the_command_line_submits_follows_and_finds_it_done(head: Head, tmp_path: Path) -> None:
    asked = ["demo", "--until", "corpora", "--set", "corpus.train_pairs=200", "--workspace", str(tmp_path / "w")]
    where = ["--address", head.url]

    def attn(*words: str) -> str:
        environment = os.environ | {"ATTN_WORKSPACE": "", "MLFLOW_TRACKING_URI": ""}
        done = subprocess.run(
            [sys.executable, "-m", "pipelines.cli", *words],
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert head.token not in done.stdout + done.stderr
        return done.stdout

    said = attn("submit", *asked, *where, "--follow")
    assert "Submitted: attn-demo-" in said
    assert "3 steps made, 0 found done" in said
    assert len(list((tmp_path / "w" / "corpora").glob("*/record.json"))) == 3
    assert json.loads(attn("status", "demo", "--json", *where))["status"] == "done"
    assert "200 pairs" in attn("logs", "demo", *where)


def test_asking_again_attaches_while_it_runs_and_starts_anew_when_it_is_over(head: Head, asked: Submission) -> None:
    found: list[tuple[str, bool]] = []

    def ask() -> None:
        job, started = client.submit(client.connect(head.url), asked)
        found.append((job.id, started))

    both = [threading.Thread(target=ask) for _ in range(2)]  # two users at once
    for one in both:
        one.start()
    for one in both:
        one.join()
    connection = client.connect(head.url)
    again, started = client.submit(connection, asked)
    assert not started
    assert sorted(started for _, started in found) == [False, True]
    assert {job for job, _ in found} == {again.id}
    wait_for(lambda: client.find(connection, again.id).is_over)
    anew, started = client.submit(connection, asked)
    assert (anew.id, started) == (f"{again.id}-2", True)


def test_two_users_of_one_cluster_do_not_disturb_each_other(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same recipe at the same time: each has a job of their own, follows it and stops it, and no other's."""
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number}\n" for number in range(20_000)), encoding="utf-8")
    texts = [f"corpus.{split}_{side}={lines}" for split in ("dev", "test") for side in ("source", "target")]
    texts += [f"corpus.train_{side}={lines}" for side in ("source", "target")]
    sets = [word for text in texts for word in ("--set", text)]
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    jobs = {}
    for user in ("alice", "bob"):
        monkeypatch.setenv("ATTN_USER", user)
        place = ["--workspace", str(tmp_path / "shared")]
        assert cli.main(["submit", "files", "--until", "vocabulary", *sets, *place, "--address", head.url]) == 0
        said = capsys.readouterr().out
        assert "Submitted: attn-files-" in said
        jobs[user] = next(word for word in said.split() if word.startswith("attn-files-"))
    assert jobs["alice"] != jobs["bob"]
    connection = client.connect(head.url)
    assert cli.main(["stop", "files", "--address", head.url]) == 0
    assert jobs["bob"] in capsys.readouterr().out, "bob stops his own"
    monkeypatch.setenv("ATTN_USER", "carol")
    assert cli.main(["stop", "files", "--address", head.url]) == 2
    said = capsys.readouterr().err
    assert "No job of files is carol's" in said
    assert jobs["alice"] in said
    wait_for(lambda: client.find(connection, jobs["bob"]).is_over)
    monkeypatch.setenv("ATTN_USER", "alice")
    wait_for(lambda: client.find_own(connection, "files", "alice").is_over)
    assert client.find_own(connection, "files", "alice").status == "done", "whoever stopped his did not stop hers"


def test_a_job_prints_its_tracebacks_and_what_its_workers_say(head: Head, tmp_path: Path) -> None:
    """What is only in a file on the driver's node is lost with it."""
    for name, count in (("a", 3), ("b", 4)):
        (tmp_path / name).write_text("line\n" * count, encoding="utf-8")
    texts = [f"corpus.{split}_{side}={tmp_path}/{file}"
             for split in ("train", "dev", "test") for side, file in (("source", "a"), ("target", "b"))]  # fmt: skip
    words = ["files", "--until", "corpora", "--workspace", str(tmp_path / "w")]
    words += [word for text in texts for word in ("--set", text)]
    asked = Submission(
        recipe="files", fingerprint=secrets.token_hex(10), arguments=tuple(words), profile=load_profile("laptop"),
        workspace=str(tmp_path / "w"), user="me",
    )  # fmt: skip
    connection = client.connect(head.url)
    job, _ = client.submit(connection, asked)
    wait_for(lambda: client.find(connection, job.id).is_over)
    printed = connection.client.get_job_logs(job.id)
    assert "Traceback (most recent call last)" in printed
    assert "Connected to Ray cluster" in printed, "Ray's own words"
    assert "corpora failed: " in printed
    assert not (tmp_path / "w" / "logs").exists()
    shown = "\n".join(client.log_lines(connection, job.id))
    assert "Traceback (most recent call last)" in shown
    assert "Connected to Ray cluster" not in shown, "that is for `ray job logs`"


def test_a_job_is_stopped(head: Head) -> None:
    connection = client.connect(head.url)
    job = connection.client.submit_job(
        entrypoint="echo begun; sleep 600", metadata={"attn.recipe": "long", "attn.user": "me"}
    )
    assert next(iter(client.log_lines(connection, job, follow=True))) == "begun"
    assert client.find_own(connection, "long", "me").status == "running"
    assert client.stop(connection, job) is True
    wait_for(lambda: client.find(connection, job).is_over)
    assert client.find(connection, job).status == "stopped"


def test_a_job_that_is_not_there_is_a_sentence(head: Head) -> None:
    connection = client.connect(head.url)
    for ask in (client.find, client.stop, lambda *given: list(client.log_lines(*given, follow=True))):
        with pytest.raises(UserError, match="no job nonesuch"):
            ask(connection, "nonesuch")


def test_training_gauges_reach_prometheus_under_the_dashboards_names(head: Head) -> None:
    connection = client.connect(head.url)
    code = (
        "import ray, time; from jobs.events import Metrics; from jobs.train.prometheus import show; ray.init();"
        "[(show('abc', Metrics(7, {'loss': 1.5, 'other': 2.0})), time.sleep(0.5)) for _ in range(60)]"
    )
    job = connection.client.submit_job(entrypoint=f'{sys.executable} -c "{code}"')

    def figures() -> list[str]:
        with urllib.request.urlopen(f"http://127.0.0.1:{head.metrics}/metrics", timeout=10) as answer:
            return [line for line in answer.read().decode().splitlines() if not line.startswith("#")]

    def shown(name: str, value: str) -> bool:
        return any(
            line.startswith(f"{name}{{") and 'training="abc"' in line and line.endswith(f" {value}")
            for line in figures()
        )

    wait_for(lambda: shown("ray_attn_loss", "1.5") and shown("ray_attn_update", "7.0"))
    assert not any("ray_attn_other" in line for line in figures())
    wait_for(lambda: any(one.startswith("ray_node_cpu_utilization{") and "SessionName=" in one for one in figures()))
    client.stop(connection, job)


def test_a_node_that_does_not_share_the_workspace_is_found_out(head: Head, asked: Submission) -> None:
    """Last: it adds a node, in a mount namespace of its own, which has another directory at the same path."""
    workspace = head.directory / "shared"
    workspace.mkdir()
    inside = f'mount -t tmpfs none {workspace} && exec "$@"'
    within = ("unshare", "--mount", "bash", "-c", inside, "bash")
    if subprocess.run([*within, "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount namespaces for us on this machine")
    connection = client.connect(head.url)
    address = client.cluster_facts(connection).nodes[0].ip
    head.launch(f"--address={address}:{head.port}", "--num-cpus=1", within=within)
    wait_for(lambda: len(client.cluster_facts(connection).nodes) == 2)
    local = replace(asked, workspace=str(workspace))
    found = [finding for finding in client.examine(connection, local) if finding.what == "workspace"]
    assert [finding.level for finding in found] == ["warning", "error"]
    assert "does not share it" in found[1].sentence
