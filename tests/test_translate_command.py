"""`attn translate` and `attn export` with what nobody should type: one sentence each, and nothing written."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_model import random_directory

from pipelines import cli
from pipelines.commands import plan


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(random_directory(tmp_path_factory.mktemp("model") / "model"))


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("attn: ")
    assert said.err.count("\n") == 1
    return said.err


def test_sentences_and_a_file_are_not_both_meant(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "give one of them" in refused(capsys, "translate", model, "kaba", "--input", "x.txt")


def test_a_picture_is_a_page(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "ends in .html" in refused(capsys, "translate", model, "kaba", "--attention", str(tmp_path / "x.svg"))
    page = str(tmp_path / "x.html")
    assert "a picture shows at most" in refused(capsys, "translate", model, "kaba " * 300, "--attention", page)
    assert not list(tmp_path.iterdir())
    assert cli.main(["translate", model, "kaba", "--attention", page]) == 0


def standard_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False))


def test_a_dash_is_standard_input(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    standard_input(monkeypatch, b"kaba\nlori\n")
    assert cli.main(["translate", model, "-", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["source"] for line in lines] == ["kaba", "lori"], "JSON lines"


def test_bytes_that_are_no_text_are_refused(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    standard_input(monkeypatch, b"kaba\nsch\xf6n\n")
    assert "Standard input is not UTF-8: line 2" in refused(capsys, "translate", model)
    (tmp_path / "x.txt").write_bytes(b"sch\xf6n\n")
    assert "not UTF-8: line 1" in refused(capsys, "translate", model, "--input", str(tmp_path / "x.txt"))
    assert "Sentence 2 is not UTF-8" in refused(capsys, "translate", model, "kaba", os.fsdecode(b"sch\xf6n"))


def test_the_other_encoding_is_named(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "wide.txt").write_bytes("kaba\n".encode("utf-16"))
    assert cli.main(["translate", model, "--input", str(tmp_path / "wide.txt")]) == 2
    assert "iconv -f UTF-16 -t UTF-8" in capsys.readouterr().err


def test_a_text_without_end_is_refused(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cut it into sentences" in refused(capsys, "translate", model, "kaba " * 5_000)


def test_an_export_that_cannot_be_written_is_refused(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ctranslate2")
    (tmp_path / "file").write_text("in the way")
    assert "cannot be written" in refused(
        capsys, "export", model, "--to", "ctranslate2", "--output", str(tmp_path / "file" / "model")
    )


def test_rows_that_name_none_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for rows in ("", " , "):
        assert "names no row" in refused(capsys, "plan", "table3", "--rows", rows, "--workspace", str(tmp_path))


def test_what_nobody_foresaw_is_a_sentence_a_file_and_status_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a surprise")

    monkeypatch.setattr(plan, "make_plan", broken)
    (tmp_path / "workspace").mkdir()
    assert cli.main(["plan", "demo", "--workspace", str(tmp_path / "workspace")]) == 1
    said = capsys.readouterr()
    (account,) = (tmp_path / "workspace" / "logs").iterdir()
    assert said.err.count("\n") == 1
    assert str(account) in said.err
    assert "Traceback" in account.read_text()


def test_no_command_is_a_question(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert "a first session" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out.startswith("attn ")


@pytest.mark.parametrize("damage", [b"nothing of a database" * 99, b"SQLite format 3\0" + b"\xff" * 5_000])
def test_a_damaged_database_is_a_sentence(
    damage: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "mlflow").mkdir()
    (tmp_path / "mlflow" / "mlflow.db").write_bytes(damage)
    assert "could not answer" in refused(capsys, "results", "--workspace", str(tmp_path))


def test_a_server_that_is_away_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    said = refused(capsys, "results", "--workspace", str(tmp_path))
    assert said == "attn: No MLflow server answers at http://127.0.0.1:9: connection refused. Is it running? " \
        "MLFLOW_TRACKING_URI names it.\n"  # fmt: skip
