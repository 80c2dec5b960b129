"""`attn export`: a trained model for another engine."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from jobs.errors import UserError, reason_of
from pipelines.execution.model_directory import model_directory

TARGETS = {  # --to: the function that writes it
    "ctranslate2": "jobs.translate.ctranslate2:to_ctranslate2",
    "huggingface": "jobs.translate.huggingface:to_huggingface",
}


def export(args: argparse.Namespace) -> int:
    """Write the model for another engine."""
    output = Path(args.output or f"{Path(args.model).name}-{args.to}")
    if output.exists():
        raise UserError(f"{output} is there already: name another directory with --output.")
    with model_directory(args) as directory:
        try:
            module, _, function = TARGETS[args.to].partition(":")
            getattr(importlib.import_module(module), function)(directory, output)
        except OSError as error:
            raise UserError(f"{output} cannot be written: {reason_of(error)}.") from error
        except ValueError as error:
            raise UserError(f"{error}.") from error
    print(f"{output} holds the model for {args.to}.")
    return 0
