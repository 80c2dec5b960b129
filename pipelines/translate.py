"""`attn translate` and `attn export`: a trained model, by the recipe that made it or by its directory."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from jobs import attention_pictures
from jobs import export as export_job
from jobs.artifacts import Artifact
from jobs.errors import UserError
from pipelines.graph import in_order
from pipelines.recipes import RECIPES, Choice, recipe_named
from pipelines.show import finished, say_json
from pipelines.workspace import Workspace
from transformer.config import SearchConfig
from transformer.translator import Translator

FILES = ("config.json", "model.safetensors", "subwords.model")
BATCH = 32


@contextlib.contextmanager
def model_directory(asked: argparse.Namespace) -> Iterator[Path]:
    """The directory that was named, or the one that the named recipe made."""
    named = Path(asked.model)
    if asked.model not in RECIPES and (named.is_dir() or "/" in asked.model):
        absent = [name for name in FILES if not (named / name).is_file()]
        if absent:
            raise UserError(f"{named} is not a model directory: it has no {', '.join(absent)}.")
        yield named
        return
    recipe = recipe_named(asked.model)
    workspace = Workspace(asked.workspace)
    step = next(s for s in in_order([recipe.step(asked.changes, Choice())]) if s.stage == "average")
    finished(step, workspace, recipe.name)
    with local_copy(workspace.artifact(step)) as directory:
        yield directory


@contextlib.contextmanager
def local_copy(artifact: Artifact) -> Iterator[Path]:
    if artifact.is_local:
        yield Path(artifact.uri)
        return
    with TemporaryDirectory(prefix="attn-model-") as directory:
        for name in FILES:
            artifact.store.fetch(artifact.at(name), Path(directory) / name)
        yield Path(directory)


def translate(asked: argparse.Namespace) -> int:
    try:
        search = SearchConfig(n_best=asked.n_best, beam=max(4, asked.n_best))
        if asked.beam is not None:
            search = replace(search, beam=asked.beam)
        if asked.alpha is not None:
            search = replace(search, alpha=asked.alpha)
    except ValueError as error:
        raise UserError(f"{error}.") from error
    with model_directory(asked) as directory:
        if asked.engine == "ctranslate2":
            translator = export_job.ctranslate2_translator(directory)
        else:
            translator = Translator.load(directory)
        if asked.attention:
            return _attention(asked, directory)
        for batch in _batches(asked):
            for source, found in zip(batch, translator.translate(batch, search), strict=True):
                _say(asked, source, found)
    return 0
