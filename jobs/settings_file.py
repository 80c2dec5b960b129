"""Files that a person writes, TOML all of them: a recipe, rows, a profile. Standard library only."""

from __future__ import annotations

from pathlib import Path

from jobs.errors import UserError

MOST_BYTES = 1_000_000


def read_settings_file(file: Path) -> str:
    """Its text, without the byte order mark of Windows. What has no end is not read to the end."""
    with file.open("rb") as opened:
        data = opened.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise UserError(f"{file} is larger than {MOST_BYTES:,} bytes: such a file holds settings, in TOML.")
    return data.decode("utf-8-sig")
