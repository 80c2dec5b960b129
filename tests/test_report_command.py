"""`attn report` on a terminal, and the command that a record keeps."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console
from small_report import make_report

from pipelines.commands.report import results
from pipelines.execution.provenance import command_line


def test_the_summary_has_a_line_for_each_row_and_no_markdown(tmp_path: Path) -> None:
    made = make_report(tmp_path, ["base@seed1", "base@seed2", "C/N=2"], 3)
    console = Console(file=io.StringIO(), width=80)
    console.print(results("Table 3 in small", made.table))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0].startswith("Table 3 in small")
    assert lines[1].split()[:3] == ["row", "PPL", "BLEU"]
    assert lines[2].startswith("base (2 seeds)")
    assert "40.0 ± 0.0" in lines[2]
    assert lines[3].startswith("C/N=2")
    assert "F1" not in lines[1], "a column that no row has is left out"
    assert not any("|" in line for line in lines)


@pytest.mark.parametrize("program", ["/here/.venv/bin/attn", "/here/pipelines/cli.py"])
def test_a_record_keeps_the_command_as_a_shell_takes_it(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "argv", [program, "run", "demo", "--rows", "base,C/N=2", "--set", "corpus.train_source=a b"]
    )
    assert command_line() == "attn run demo --rows base,C/N=2 --set 'corpus.train_source=a b'"


def test_a_record_keeps_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["attn", "run", "demo", "--workspace", "s3://KEY:SENTINEL@bucket/there"])
    assert "SENTINEL" not in str(command_line())


def test_a_library_has_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/ipykernel_launcher.py", "-f", "kernel.json"])
    assert command_line() is None
