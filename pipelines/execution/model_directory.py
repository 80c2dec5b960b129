"""A trained model as a local directory: the one that was named, or the one that the named recipe made."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path

from jobs.errors import UserError
from pipelines.execution.workspace import Workspace
from pipelines.recipes.recipes import RECIPES, recipe_named
from pipelines.steps.plan import in_order
from transformer.config import MODEL_FILES


@contextlib.contextmanager
def model_directory(args: argparse.Namespace) -> Iterator[Path]:
    """The directory that was named, or the one that the named recipe made."""
    named = Path(args.model)
    if args.model not in RECIPES and (named.is_dir() or "/" in args.model):
        require_model_files(named)
        yield named
        return
    recipe = recipe_named(args.model)
    workspace = Workspace(args.workspace)
    step = next(each for each in in_order([recipe.step(args.changes)]) if each.stage.is_model)
    workspace.finished(step, recipe.name)
    with workspace.artifact(step).directory() as directory:
        require_model_files(directory, f" `attn run {recipe.name} --again {step.key}` makes it again.")
        yield directory


def require_model_files(directory: Path, advice: str = "") -> None:
    absent = [name for name in MODEL_FILES if not (directory / name).is_file()]
    if absent:
        raise UserError(f"{directory} is not a model directory: it has no {', '.join(absent)}.{advice}")
