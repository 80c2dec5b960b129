"""What makes a directory a model directory: the files of transformer/config.py, all of them. Standard library only."""

from __future__ import annotations

from pathlib import Path

from jobs.errors import UserError
from transformer.config import MODEL_FILES


def require_model_files(directory: Path, advice: str = "") -> None:
    """A UserError that names what is missing; `advice` is a further sentence."""
    absent = [name for name in MODEL_FILES if not (directory / name).is_file()]
    if absent:
        raise UserError(f"{directory} is not a model directory: it has no {', '.join(absent)}.{advice}")
