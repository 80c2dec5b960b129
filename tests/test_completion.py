"""Completion is tried in the shells themselves, and knows every command and option of the parser."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from pipelines.cli import main, parser_and_commands

CASES = [  # what stands before the word, the beginning of the word, what must and what must not be offered
    ([], "pl", ["plan"], ["run"]),
    (["run"], "base-", ["base-en-de", "base-en-fr"], ["demo"]),
    (["run", "demo", "--on"], "gpu8", ["gpu8"], ["laptop"]),
    (["run", "demo", "--set"], "training.st", ["training.steps="], ["training.warmup="]),
    (["run", "demo"], "--ro", ["--rows", "--rows-from"], ["--seeds"]),
    (["translate", "demo", "--row"], "C/d=1", ["C/d=1024"], ["C/d=256"]),
    (["results", "--table"], "", ["2", "3"], ["demo"]),
    (["lab"], "war", ["warmup"], ["mask"]),
]
BASH = """
{script}
COMP_WORDS=({words}); COMP_CWORD={place}; _attn 2>/dev/null; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def quoted(words: list[str]) -> str:
    return " ".join(f"'{word}'" for word in words)


@pytest.mark.parametrize(("before", "word", "offered", "not_offered"), CASES)
def test_bash_offers_what_fits(
    before: list[str], word: str, offered: list[str], not_offered: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = quoted(["attn", *before, word])
    code = BASH.format(script=script("bash", capsys), words=words, place=len(before) + 1)
    said = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert set(offered) <= set(said.stdout.split())
    assert not set(not_offered) & set(said.stdout.split())
    assert said.stderr == ""


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(("before", "word", "offered", "not_offered"), CASES)
def test_fish_offers_what_fits(
    before: list[str], word: str, offered: list[str], not_offered: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    line = " ".join(["attn", *before, word])
    code = f"{script('fish', capsys)}\ncomplete -C '{line}'"
    said = subprocess.run(["fish", "--no-config", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    found = {answer.partition("\t")[0] for answer in said.stdout.splitlines()}
    assert set(offered) <= found
    assert not set(not_offered) & found
    assert said.stderr == ""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize(("before", "word", "offered", "not_offered"), CASES[1:])
def test_zsh_offers_what_fits(
    before: list[str], word: str, offered: list[str], not_offered: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its completion system wants a terminal; what our function hands to `compadd` is looked at instead."""
    collect = (
        "compdef() { :; }\ncompadd() { shift; [[ $1 == -S ]] && shift 2; [[ $1 == -- ]] && shift; print -l -- $@; }"
    )
    run = f"words=({quoted(['attn', *before, word])}); CURRENT={len(before) + 2}; _files() {{ :; }}; _attn"
    code = f"{collect}\n{script('zsh', capsys)}\n{run}"
    said = subprocess.run(["zsh", "-f", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    found = {answer for answer in said.stdout.split() if answer.startswith(word)}
    assert set(offered) <= found
    assert not set(not_offered) & found
    assert said.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_there(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = script(shell, capsys)
    for name, command in parser_and_commands()[1].choices.items():
        assert name in said
        for flag in (flag for action in command.actions for flag in action.option_strings):
            assert (flag.lstrip("-") if shell == "fish" else flag) in said, f"{name} {flag}"
