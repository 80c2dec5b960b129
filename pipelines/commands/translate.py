"""`attn translate`: with a trained model, by the recipe that made it or by its directory."""

from __future__ import annotations

import argparse
import importlib
import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from jobs.errors import UserError
from jobs.report.attention import attention_page
from pipelines.execution.model_directory import model_directory
from pipelines.terminal.json_output import print_json
from transformer.config import SearchConfig
from transformer.translator import TranslatesText, Translation, Translator

BATCH = 32  # lines of a file translated together; a person at a terminal gets each line at once
PICTURED = 20  # sentences in one page of attention pictures


def search_config(args: argparse.Namespace) -> SearchConfig:
    beam = args.beam if args.beam is not None else max(SearchConfig.beam, args.n_best)
    alpha = args.alpha if args.alpha is not None else SearchConfig.alpha
    try:
        return SearchConfig(beam=beam, alpha=alpha, n_best=args.n_best)
    except ValueError as error:
        raise UserError(f"{str(error).replace('translation.', '--').replace('n_best', 'n-best')}.") from error


def translate(args: argparse.Namespace) -> int:
    search = search_config(args)
    with model_directory(args) as directory:
        if args.attention:
            return _attention(args, directory)
        translator = _engine(args.engine, directory)
        for batch in _batches(args):
            for source, found in zip(batch, translator.translate(batch, search), strict=True):
                _print_translation(args, source, found)
            sys.stdout.flush()
    return 0


def _engine(name: str, directory: Path) -> TranslatesText:
    if name == "ctranslate2":
        engine: TranslatesText = importlib.import_module("jobs.translate.ctranslate2").CTranslate2Translator.load(
            directory
        )
        return engine
    return Translator.load(directory)


def _lines(args: argparse.Namespace) -> Iterable[str]:
    if args.text:
        return list(args.text)
    if args.input is None:
        return (line.rstrip("\r\n") for line in sys.stdin)
    try:
        with open(args.input, encoding="utf-8", newline="\n") as file:
            return [line.rstrip("\r\n") for line in file]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UserError(f"The file {args.input} cannot be read: {str(reason).lower()}.") from error


def _batches(args: argparse.Namespace) -> Iterator[list[str]]:
    size = 1 if not args.text and args.input is None and sys.stdin.isatty() else BATCH
    lines = iter(_lines(args))
    while batch := list(itertools.islice(lines, size)):
        yield batch


def _print_translation(args: argparse.Namespace, source: str, found: Translation) -> None:
    if args.json:
        print_json({"source": source, **asdict(found)})
    elif args.n_best > 1:
        for alternative in found.alternatives:
            print(f"{alternative.score:9.4f}  {alternative.text}")
        print()
    else:
        print(f"{found.score:9.4f}  {found.text}" if args.scores else found.text)


def _attention(args: argparse.Namespace, directory: Path) -> int:
    texts = [line for line in itertools.islice(_lines(args), PICTURED) if line.strip()]
    if not texts:
        raise UserError("--attention needs at least one sentence.")
    translator = Translator.load(directory)
    page = attention_page([translator.attention(text) for text in texts], title=f"Attention of {args.model}")
    try:
        Path(args.attention).write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{args.attention} cannot be written: {(error.strerror or str(error)).lower()}.") from error
    print(f"{len(texts)} sentences in {args.attention}")
    return 0
