"""What nobody foresaw, as a sentence on the terminal and a whole account in a file."""

from __future__ import annotations

import tempfile
import traceback
from pathlib import Path

from jobs.errors import first_line
from jobs.passwords import hidden
from pipelines.terminal.redirect_output import log_file


def sentence(error: BaseException, command: str, logs: Path) -> str:
    """Writes the stack trace into a file and names it."""
    first = first_line(error) or "no message"
    sentence = hidden(f"Something unforeseen went wrong: {type(error).__name__}: {first}")
    account = hidden("".join(traceback.format_exception(error)))
    for directory in (logs, Path(tempfile.gettempdir())):
        try:
            directory.mkdir(parents=True, exist_ok=True)
            file = log_file(directory, command)
            file.write_text(account, encoding="utf-8", errors="backslashreplace")
        except OSError:
            continue
        return f"{sentence.rstrip('.')}. The whole account is in {file}."
    return f"{sentence.rstrip('.')}.\n{account}"  # nowhere to write it to
