"""Output that is closed, full, or in an encoding of few characters: a command goes on, or says so in a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_demo import ROOT, attn

OPENS_A_FILE = """
import sys
from pipelines.terminal import streams
streams.make_usable()
with open(sys.argv[1], "w") as file:
    print(sys.stdin.read(), "lost", file.fileno(), flush=True)
    print("also lost", file=sys.stderr, flush=True)
    file.write("whole")
"""


def test_a_file_that_is_opened_takes_no_place_of_a_closed_stream(tmp_path: Path) -> None:
    """What was printed would land in it: in a database, for one."""
    file = tmp_path / "file"
    command = ["sh", "-c", '"$0" -c "$1" "$2" <&- >&- 2>&-', sys.executable, OPENS_A_FILE, str(file)]
    assert subprocess.run(command, cwd=ROOT, timeout=60).returncode == 0
    assert file.read_text() == "whole"


def test_a_command_with_every_stream_closed_does_its_work(tmp_path: Path) -> None:
    """Nothing that it opens by itself, such as the pipe that waits for Ctrl-C, takes their places either."""
    words = ["sh", "-c", f'"$0" -m pipelines.cli plan demo --save {tmp_path}/mine.toml <&- >&- 2>&-', sys.executable]
    assert subprocess.run(words, cwd=ROOT, timeout=60).returncode == 0
    assert (tmp_path / "mine.toml").exists()


def test_a_character_that_a_terminal_does_not_have_is_spelled(tmp_path: Path) -> None:
    place, ascii_only = str(tmp_path / "größer"), {**os.environ, "PYTHONIOENCODING": "ascii"}
    said = attn("plan", "demo", "--workspace", place, env=ascii_only)
    assert said.returncode == 0, said.stderr
    assert "gr\\xf6\\xdfer" in said.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("command", ["recipes", "completion bash"])
def test_output_without_room_is_a_sentence(command: str) -> None:
    words = ["sh", "-c", f'"$0" -m pipelines.cli {command} > /dev/full', sys.executable]
    said = subprocess.run(words, cwd=ROOT, timeout=60, capture_output=True, text=True)
    assert (said.returncode, said.stderr.count("\n")) == (2, 1), said.stderr
    assert "There is no room left (where the output goes)" in said.stderr


def test_a_directory_that_was_removed_is_a_sentence(tmp_path: Path) -> None:
    words = ["sh", "-c", f'mkdir gone && cd gone && rmdir ../gone && PYTHONPATH={ROOT} "$0" -m pipelines.cli plan demo']
    said = subprocess.run([*words, sys.executable], cwd=tmp_path, timeout=60, capture_output=True, text=True)
    assert said.returncode == 2, said.stderr
    assert "The current directory was removed" in said.stderr
