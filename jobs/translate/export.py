"""What every export has in common: a model directory is read and checked, and the new directory appears whole or not
at all.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobs.average.model_files import require_model_files
from jobs.errors import UserError
from transformer.translator import Translator

KNOWN = {  # fields of a model that every export carries over or refuses by itself; the dropouts are training's alone
    "layers", "d_model", "d_ff", "num_heads", "d_k", "d_v", "positions", "max_positions", "norm", "tied_embeddings",
    "dropout", "attention_dropout", "relu_dropout",
}  # fmt: skip


def load_for_export(directory: Path) -> Translator:
    """The model; refused where it has a setting that no export knows, since what came out would translate otherwise."""
    require_model_files(directory)
    translator = Translator.load(directory)
    config = translator.model.config
    for field in dataclasses.fields(config):
        if field.name not in KNOWN and getattr(config, field.name) != field.default:
            raise UserError(
                f"model.{field.name}={getattr(config, field.name)} cannot be exported to other engines yet."
            )
    return translator


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
