"""`attn translate` and `attn export`: a trained model, by the recipe that made it or by its directory."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from jobs.errors import UserError
from jobs.reporting.attention import attention_page
from pipelines.graph import in_order
from pipelines.recipes import RECIPES, recipe_named
from pipelines.show import finished, say_json
from pipelines.workspace import Workspace
from transformer.config import SearchConfig
from transformer.translator import MODEL_FILES, TranslatesText, Translation, Translator

BATCH = 32  # lines of a file translated together; a person at a terminal gets each line at once
PICTURED = 20  # sentences in one page of attention pictures


@contextlib.contextmanager
def model_directory(asked: argparse.Namespace) -> Iterator[Path]:
    """The directory that was named, or the one that the named recipe made."""
    named = Path(asked.model)
    if asked.model not in RECIPES and (named.is_dir() or "/" in asked.model):
        absent = [name for name in MODEL_FILES if not (named / name).is_file()]
        if absent:
            raise UserError(f"{named} is not a model directory: it has no {', '.join(absent)}.")
        yield named
        return
    recipe = recipe_named(asked.model)
    workspace = Workspace(asked.workspace)
    step = next(each for each in in_order([recipe.step(asked.changes)]) if each.stage == "average")
    finished(step, workspace, recipe.name)
    with workspace.artifact(step).directory() as directory:
        yield directory


def search_asked(asked: argparse.Namespace) -> SearchConfig:
    beam = asked.beam if asked.beam is not None else max(SearchConfig.beam, asked.n_best)
    alpha = asked.alpha if asked.alpha is not None else SearchConfig.alpha
    try:
        return SearchConfig(beam=beam, alpha=alpha, n_best=asked.n_best)
    except ValueError as error:
        raise UserError(f"{str(error).replace('translation.', '--').replace('n_best', 'n-best')}.") from error


def translate(asked: argparse.Namespace) -> int:
    search = search_asked(asked)
    with model_directory(asked) as directory:
        if asked.attention:
            return _attention(asked, directory)
        translator = _engine(asked.engine, directory)
        for batch in _batches(asked):
            for source, found in zip(batch, translator.translate(batch, search), strict=True):
                _say(asked, source, found)
            sys.stdout.flush()
    return 0


def _engine(name: str, directory: Path) -> TranslatesText:
    if name == "ctranslate2":
        engine: TranslatesText = importlib.import_module("jobs.export").CTranslate2Translator.load(directory)
        return engine
    return Translator.load(directory)


def _lines(asked: argparse.Namespace) -> Iterable[str]:
    if asked.text:
        return list(asked.text)
    if asked.input is None:
        return (line.rstrip("\r\n") for line in sys.stdin)
    try:
        with open(asked.input, encoding="utf-8", newline="\n") as file:
            return [line.rstrip("\r\n") for line in file]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UserError(f"The file {asked.input} cannot be read: {str(reason).lower()}.") from error


def _batches(asked: argparse.Namespace) -> Iterator[list[str]]:
    size = 1 if not asked.text and asked.input is None and sys.stdin.isatty() else BATCH
    lines = iter(_lines(asked))
    while batch := list(itertools.islice(lines, size)):
        yield batch


def _say(asked: argparse.Namespace, source: str, found: Translation) -> None:
    if asked.json:
        say_json({"source": source, **asdict(found)})
    elif asked.n_best > 1:
        for alternative in found.alternatives:
            print(f"{alternative.score:9.4f}  {alternative.text}")
        print()
    else:
        print(f"{found.score:9.4f}  {found.text}" if asked.scores else found.text)


def _attention(asked: argparse.Namespace, directory: Path) -> int:
    texts = [line for line in itertools.islice(_lines(asked), PICTURED) if line.strip()]
    if not texts:
        raise UserError("--attention needs at least one sentence.")
    translator = Translator.load(directory)
    page = attention_page([translator.attention(text) for text in texts], title=f"Attention of {asked.model}")
    try:
        Path(asked.attention).write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{asked.attention} cannot be written: {(error.strerror or str(error)).lower()}.") from error
    print(f"{len(texts)} sentences in {asked.attention}")
    return 0


def export(asked: argparse.Namespace) -> int:
    """Write the model for another engine; what it needs, and what differs, is said by jobs/export.py."""
    output = Path(asked.output or f"{Path(asked.model).name}-{asked.to}")
    if output.exists():
        raise UserError(f"{output} is there already: name another directory with --output.")
    with model_directory(asked) as directory:
        importlib.import_module("jobs.export").to_ctranslate2(directory, output)
    print(f"{output} holds the model for {asked.to}.")
    return 0
