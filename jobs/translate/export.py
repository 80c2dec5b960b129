"""What every export has in common: a model directory is read and checked, and the new directory appears whole or not
at all.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobs.average.model_files import require_model_files
from transformer.translator import Translator


def load_for_export(directory: Path) -> Translator:
    require_model_files(directory)
    return Translator.load(directory)


@contextmanager
def whole_directory(output: Path) -> Iterator[Path]:
    """An empty directory to write to, which takes the name `output` at the end and is deleted after an error."""
    output.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=output.parent, prefix=f".{output.name}-"))
    try:
        draft.chmod(0o755)  # mkdtemp's is for its owner alone
        yield draft
        os.replace(draft, output)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
