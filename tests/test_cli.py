"""The command line: bad input is one sentence and status 2, and costs nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from small_demo import ROOT, attn

from pipelines.cli import main, parse
from pipelines.recipes.recipes import RECIPES


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["plan", "dmeo"], "There is no recipe 'dmeo'. Did you mean demo?"),
        (["plan", "DEMO"], "Did you mean demo?"),
        (["plan", "table3", "--rows", "a/H=1"], "Did you mean A/h=1?"),
        (["plan", "demo", "--set", "training.stepz=1"], "Did you mean training.steps?"),
        (["plan", "demo", "--rows", "A/h=1"], "has no rows"),
        (["plan", "table3", "--rows", "A/h=3"], "There is no row 'A/h=3'"),
        (["plan", "demo", "--until", "shard"], "Did you mean shards?"),
        (["plan", "demo", "--on", "gpu9"], "Did you mean gpu8?"),
        (["plan", "demo", "--seeds", "0"], "--seeds must be at least 1"),
        (["plan", "table3", "--seeds", "1000000"], "at most 100, not 1000000"),
        (["lab", "heads", "--seeds", "1000"], "at most 100, not 1000"),
        (["plan", "files", "--set", "corpus.train_source=x"], "--set corpus.train_target=FILE"),
        (["plan", "table3", "--rows-from", "/no/such/file"], "cannot be read"),
        (["plan", "table3", "--rows-from", "/dev/zero"], "/dev/zero is larger than 1,000,000 bytes"),
        (["parse", "parsing-demo", "--beam", "100000", "x"], "must be at most 1,000, not 100,000"),
        (["translate", "demo", "--beam", "100000", "x"], "must be at most 1,000, not 100,000"),
        (["plan", "demo", "--set", "=3"], "section.field=value"),
        (["plan", "demo", "--set", "average.last=9"], "set training.keep_checkpoints=9, too (it is 5)"),
        (["plan", "demo", "--workspace", ""], "--workspace is empty"),
        (["plan", "demo", "--workspace", "s3:/bucket/attn"], "with two slashes"),
        (["plan", "demo", "--workspace", "/tmp/what?"], "has a question mark"),
        (["plan", "demo", "--workspace", "file://"], "names no directory"),
        (["plan", "demo", "--workspace", "/dev/null"], "/dev/null is no directory"),
        (["results", "--workspace", "/dev/null/w"], "/dev/null is no directory"),
        (["report", "demo"], "is not made yet"),
        (["data", "show", "demo"], "is not made yet"),
    ],
)
def test_bad_input_is_a_sentence(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == [], "nothing half-written stays"


def test_a_missing_file_of_text_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    present = tmp_path / "text"
    present.write_text("a\n")
    names = [f"{split}_{side}" for split in ("train", "dev", "test") for side in ("source", "target")]
    files = dict.fromkeys(names, present) | {"dev_target": tmp_path / "absent"}
    arguments = [word for name, file in files.items() for word in ("--set", f"corpus.{name}={file}")]
    assert main(["plan", "files", *arguments, "--workspace", str(tmp_path / "w")]) == 2
    assert "absent cannot be read: no such file" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["plan", "table3", "--steps"], ["settings"], ["recipes", "--json"]])
def test_a_reader_that_has_enough_is_no_error(command: list[str], tmp_path: Path) -> None:
    """As in `attn plan table3 --steps | head`."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        words = [sys.executable, "-m", "pipelines.cli", *command, *(["--workspace", str(tmp_path)])]
        done = subprocess.run(words, stdout=closed, stderr=subprocess.PIPE, text=True, cwd=ROOT, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_workspace_that_cannot_be_written_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    assert main(["run", "demo", "--workspace", str(tmp_path / "file" / "w")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_recipes_and_plans_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == list(RECIPES)
    assert main(["recipes", "--json", "--on", "gpu8-p100"]) == 0
    costs = {each["name"]: each["cost"] for each in json.loads(capsys.readouterr().out)}
    assert re.fullmatch(r"10:\d\d h, 8\d\.\d GPU-hours, 2\d\.\d kWh, 9\.5e\+17 FLOPs", costs["base-en-de"])
    assert main(["plan", "demo", "--json", "--workspace", str(tmp_path)]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned[-1]["stage"] == "report"
    assert {each["state"] for each in planned} == {"to do"}
    assert list(tmp_path.iterdir()) == [], "a plan writes nothing"


def test_rows_of_one_s_own_are_a_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.toml"
    rows.write_text('"F/wide" = { model = { d_ff = 8192 } }\n"F/half" = { times = { d_model = "1/2" } }\n')
    assert main(["plan", "table3", "--rows-from", str(rows), "--rows", "base,F/wide,F/half", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    trained = {each["label"]: each["config"].get("model", {}) for each in planned if each["stage"] == "train"}
    assert trained["F/wide"]["d_ff"] == 8192
    assert trained["F/half"]["d_model"] == 256
    rows.write_text('"F/wide" = { model = { d_fff = 8192 } }\n')
    assert main(["plan", "table3", "--rows-from", str(rows), "--rows", "F/wide"]) == 2
    assert "d_fff" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('"base" = { model = { d_ff = 8 } }', "the row 'base' is the paper's"),
        ('"base@seed2" = { model = { d_ff = 8 } }', "no comma and no @seed"),
        ('"A,B" = { model = { d_ff = 8 } }', "no comma and no @seed"),
        ('"X" = 3', "row 'X' may hold"),
        ('"X" = { model = { d_fff = 8 } }', "Did you mean model.d_ff?"),
        ('"X" = { training = { step = 8 } }', "Did you mean training.steps?"),
        ('"X" = { times = { width = "1/2" } }', "no field 'times.width'"),
        ('"X" = { times = 2 }', "times is a table"),
        ('"X" = { longer = "two" }', "longer is how many times as many updates"),
        ('"X" = { longer = 0 }', "longer is how many times as many updates"),
    ],
)
def test_a_row_that_means_nothing_is_a_sentence(
    line: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.toml").write_text(line)
    words = ["plan", "table3-demo", "--rows-from", str(tmp_path / "rows.toml"), "--workspace", str(tmp_path / "w")]
    assert main(words) == 2
    assert says in capsys.readouterr().err


def test_a_row_that_is_named_twice_is_made_once_and_a_file_is_an_address_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", "table3-demo", "--rows", "A/h=1, A/h=1,C/N=2", "--json", "--workspace", f"file://{tmp_path}/w"]
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)[-1]
    assert report["config"]["rows"] == ["A/h=1", "C/N=2"]


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "attn run demo" in text
    assert "a first session" in text


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("127.0.0.1:9", "No Ray cluster answers at 127.0.0.1:9: connection refused"),
        ("ray://127.0.0.1:9", "No Ray cluster answers"),
        ("http://127.0.0.1:9", "attn submit RECIPE --address http://127.0.0.1:9"),
    ],
)
def test_a_ray_that_does_not_answer_is_a_sentence(
    address: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "demo", "--workspace", str(tmp_path), "--address", address]) == 2
    assert says in capsys.readouterr().err


def test_sentences_may_stand_before_and_behind_options() -> None:
    assert parse(["vocabulary", "demo", "--json", "One.", ""]).text == ["One.", ""]
    asked = parse(["translate", "demo", "One.", "--beam", "2", "Two.", ""])
    assert asked.text == ["One.", "Two.", ""]
    with pytest.raises(SystemExit):
        parse(["translate", "demo", "One.", "--bean", "2"])
    with pytest.raises(SystemExit):
        parse(["plan", "demo", "more"])


@pytest.mark.ray
@pytest.mark.slow
def test_a_profile_that_is_too_large_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    said = attn("run", "demo", "--on", "gpu8", "--workspace", str(tmp_path))
    assert said.returncode == 2, said.stdout + said.stderr
    assert "The profile gpu8 needs 8 GPUs and there are 0" in said.stderr
    assert not (tmp_path / "corpora").exists()


@pytest.mark.parametrize("command", [["report", "demo"], ["data", "show", "demo"], ["verify", "demo"]])
@pytest.mark.parametrize("option", ["--on", "--until"])
def test_an_option_that_would_change_nothing_is_refused(
    command: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        parse([*command, option, "train"])
    assert refused.value.code == 2
    assert f"unrecognized arguments: {option} train" in capsys.readouterr().err
