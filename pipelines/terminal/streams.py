"""Standard input, output and error as everything else here expects them: open, and able to print any character."""

from __future__ import annotations

import io
import os
import sys

MODES = {"stdin": "r", "stdout": "w", "stderr": "w"}


def make_usable() -> None:
    """Where one is closed, the next file that is opened (a database, say) would be taken for it."""
    for number, (name, mode) in enumerate(MODES.items()):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115  as long as the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # where a terminal's encoding has not the character


def drop_output() -> None:
    """What could not be written is not tried again when Python ends."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
