"""A password in an address is nowhere to be seen: not in a sentence, a log, a record, nor in MLflow."""

from __future__ import annotations

import os
import pickle
import sqlite3
from pathlib import Path

import pytest
from small_demo import SMALL, asked, attn
from step_job import StepConfig, stage

from jobs.errors import UserError
from jobs.passwords import has_password, hidden, take_password
from pipelines.execution.runner import sentence_of
from pipelines.execution.workspace import Workspace
from pipelines.steps.step import Step
from pipelines.terminal import unforeseen
from pipelines.tracking.settings import parameters
from pipelines.tracking.writer import Tracker

SECRET = "Sentinel/9f8e7d"
ADDRESSES = [
    f"http://user:{SECRET}@host:5000/path",
    f"postgresql://user:{SECRET}@host/db",
    f"s3://KEY:{SECRET}@bucket/prefix?region=eu",
    f"s3://bucket/prefix?region=eu&secret_key={SECRET}",
    f"https://store/container?sig={SECRET}",
    f"two of them: redis://:{SECRET}@a, and http://x:{SECRET}@b",
    f"http://user:se@{SECRET}@host:5000/path",
    f"http://user:{SECRET}@part@host:5000/path",
    f"http://me@example.org:{SECRET}@host",
    f"https://user:a:{SECRET}@host",
    f"https://user:{SECRET}#1?x/y@host",
    f"https://{SECRET.replace('/', '-')}@host/x",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_is_shown_has_no_password(address: str) -> None:
    assert "Sentinel" not in hidden(address)
    assert has_password(address)
    assert SECRET not in str(UserError(f"{address} cannot be used."))
    assert SECRET not in str(pickle.loads(pickle.dumps(UserError(address))))
    assert SECRET not in sentence_of(RuntimeError(address))


@pytest.mark.parametrize(
    "text",
    [
        "training.tokens_per_update=2500", "s3://bucket/a?region=eu", "abfss://container@account.dfs.example/x",
        "sqlite:////a/b.db", "12:30 at http://host:8265/x", "mail me@example.org: now",
    ],
)  # fmt: skip
def test_what_is_no_password_stays(text: str) -> None:
    assert hidden(text) == text


def test_an_address_that_is_used_has_no_password_either(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.setenv(name, "")
    assert take_password("s3://KEY:a%2Fb@bucket/p?region=eu") == "s3://bucket/p?region=eu"
    assert (os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]) == ("KEY", "a/b")
    assert take_password("https://me:pw@host/x") == "https://host/x"
    assert (os.environ["MLFLOW_TRACKING_USERNAME"], os.environ["MLFLOW_TRACKING_PASSWORD"]) == ("me", "pw")
    assert Workspace(f"s3://KEY:{SECRET}@bucket/attn").uri == "s3://bucket/attn"


@pytest.mark.parametrize(
    ("address", "password", "left"),
    [
        ("https://me:se@cret@host/x@2", "se@cret", "https://host/x@2"),
        ("https://me@example.org:s:e@host", "s:e", "https://host"),
        ("https://me:a/b#c@host/x", "a/b#c", "https://host/x"),
        ("https://me:my secret words@host", "my secret words", "https://host"),
        ("https://host:5000/x@y", "", "https://host:5000/x@y"),
    ],
)  # fmt: skip
def test_a_password_may_have_any_character(
    address: str, password: str, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "")
    taken = take_password(address)
    assert os.environ["MLFLOW_TRACKING_PASSWORD"] == password
    assert taken == left


def test_what_was_taken_out_of_an_address_is_hidden_by_itself_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "")
    take_password("s3://KEY:Sentinel of%20three words@bucket")
    take_password("postgresql://me:Sentinel%40db@host/x")
    said = hidden(
        "attn run --workspace 's3://KEY:Sentinel of%20three words@bucket': Sentinel of three words, Sentinel@db"
    )
    assert "Sentinel" not in said
    assert "attn run --workspace" in said


def test_a_long_line_does_not_take_minutes() -> None:
    """With the square of its length it would be days."""
    for line in ("x" * 3_000_000, "http://u:" + "a" * 3_000_000):
        assert hidden(line) == line


@pytest.mark.parametrize("address", ["gs://", "s3://", "s3:///", "gs://?x=1", "s3://KEY:pw@"])
def test_an_address_without_a_bucket_is_refused_at_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")
    with pytest.raises(UserError, match="names no bucket"):
        Workspace(address)


def test_the_account_of_the_unforeseen_has_none(tmp_path: Path) -> None:
    said = unforeseen.sentence(RuntimeError(f"at {ADDRESSES[0]}\nand so on"), "run", tmp_path)
    (file,) = tmp_path.iterdir()
    assert str(file) in said
    assert SECRET not in said + file.read_text()
    assert "RuntimeError" in file.read_text()


def test_mlflow_has_none(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    command = f"attn run demo --workspace {ADDRESSES[2]}"
    tracker = Tracker(f"sqlite:///{database}", "demo", artifacts=tmp_path / "artifacts", command=command)
    step = Step(stage=stage("test"), config=StepConfig(name=ADDRESSES[2]))
    tracker.begin(step, Workspace(str(tmp_path / "w")).artifact(step)).end("FAILED", sentence="no good")
    assert tracker.close("FINISHED") == 0
    with sqlite3.connect(database) as opened:
        dump = "\n".join(opened.iterdump())
    assert "attn run demo --workspace s3://***@bucket" in dump
    assert SECRET not in dump
    assert SECRET not in str(parameters(step))


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["results"], ["doctor"], ["run", "demo"], ["plan", "demo"], ["verify"], ["report", "demo"]]
)
def test_no_command_says_or_keeps_one(command: list[str], tmp_path: Path) -> None:
    """Of a tracking server that is not there."""
    environment = {**os.environ, "MLFLOW_TRACKING_URI": f"http://user:{SECRET}@127.0.0.1:9"}
    said = attn(*command, "--workspace", str(tmp_path / "w"), env=environment)
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert SECRET not in said.stdout + said.stderr
    assert SECRET.encode() not in kept
    assert "Traceback" not in said.stdout + said.stderr


@pytest.mark.slow
def test_a_submission_with_a_password_is_refused(tmp_path: Path) -> None:
    said = attn("submit", *asked(tmp_path, SMALL), "--workspace", f"s3://KEY:{SECRET}@bucket/x")
    assert said.returncode == 2
    assert "has a secret in it" in said.stderr
    assert SECRET not in said.stderr
