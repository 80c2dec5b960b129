"""Findings of `attn doctor` and `attn submit` on the terminal: ok, warning or error, one line each."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from jobs.cluster.submit.submission import Finding

STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


def print_findings(console: Console, findings: Iterable[Finding]) -> None:
    for finding in findings:
        level = f"[{STYLES[finding.level]}]{finding.level:<8}[/]"
        console.print(f"{level} {finding.what:<10} {finding.sentence}", soft_wrap=True)
