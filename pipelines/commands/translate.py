"""`attn translate`: with a trained model, by the recipe that made it or by its directory."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from jobs.errors import UserError, reason_of
from jobs.report.attention import attention_page
from pipelines.execution.model_directory import model_directory
from pipelines.terminal.input_lines import decoded, decoded_lines, readable_words
from transformer.config import SearchConfig
from transformer.translator import TranslatesText, Translation, Translator

BATCH = 32  # lines of a file translated together; a person at a terminal gets each line at once
PICTURED_SUBWORDS = 128  # of a sentence: a page grows with the square of it
WIDEST = 1_000  # hypotheses at once: more take gigabytes
PICTURED = 20  # sentences in one page of attention pictures


def search_config(args: argparse.Namespace) -> SearchConfig:
    beam = args.beam if args.beam is not None else max(SearchConfig.beam, args.n_best)
    require_narrow(beam)
    alpha = args.alpha if args.alpha is not None else SearchConfig.alpha
    try:
        return SearchConfig(beam=beam, alpha=alpha, n_best=args.n_best)
    except ValueError as error:
        raise UserError(f"{str(error).replace('translation.', '--').replace('n_best', 'n-best')}.") from error


def require_narrow(beam: int) -> None:
    if beam > WIDEST:
        raise UserError(f"--beam and --n-best must be at most {WIDEST:,}, not {beam:,}.")


def check(args: argparse.Namespace) -> None:
    """What cannot be meant, before anything is loaded."""
    if args.text and args.input is not None:
        raise UserError("Sentences and --input FILE cannot be translated together: give one of them.")
    if args.text == ["-"]:
        args.text = []  # as elsewhere: standard input
    if args.attention and Path(args.attention).suffix.lower() not in (".html", ".htm"):
        raise UserError(f"--attention writes a page: name a file that ends in .html, not {args.attention}.")


def translate(args: argparse.Namespace) -> int:
    check(args)
    search = search_config(args)
    with model_directory(args) as directory:
        if args.attention:
            return _attention(args, directory)
        with in_a_sentence():
            translator = _engine(args.engine, directory)
        for batch in batches(args):
            with in_a_sentence():
                translations = translator.translate(batch, search)
            for source, found in zip(batch, translations, strict=True):
                _print_translation(args, source, found)
            sys.stdout.flush()
    return 0


@contextlib.contextmanager
def in_a_sentence() -> Iterator[None]:
    """A model directory, or a text, that is no good: `transformer` says so in a ValueError."""
    try:
        yield
    except ValueError as error:
        raise UserError(f"{str(error).rstrip('.')}.") from error


def _engine(name: str, directory: Path) -> TranslatesText:
    if name == "torch":
        return Translator.load(directory)
    engine: TranslatesText = importlib.import_module("jobs.translate.ctranslate2").CTranslate2Translator.load(directory)
    return engine


def _lines(args: argparse.Namespace) -> Iterable[str]:
    if args.text:
        return readable_words(args.text)
    if args.input is None:
        return decoded_lines()
    try:
        with open(args.input, "rb") as file:
            return list(decoded(file, f"The file {args.input}"))
    except OSError as error:
        raise UserError(f"The file {args.input} cannot be read: {reason_of(error)}.") from error


def batches(args: argparse.Namespace) -> Iterator[list[str]]:
    size = 1 if not args.text and args.input is None and sys.stdin.isatty() else BATCH
    lines = iter(_lines(args))
    while batch := list(itertools.islice(lines, size)):
        yield batch


def _print_translation(args: argparse.Namespace, source: str, found: Translation) -> None:
    if args.json:
        print(json.dumps({"source": source, **asdict(found)}, ensure_ascii=False))  # a line each
    elif args.n_best > 1:
        for alternative in found.alternatives:
            print(f"{alternative.score:9.4f}  {alternative.text}")
        print()
    else:
        print(f"{found.score:9.4f}  {found.text}" if args.scores else found.text)


def _require_picturable(texts: Sequence[str], translator: Translator) -> None:
    for text, ids in zip(texts, translator.subwords.encode_all(texts), strict=True):
        if len(ids) > PICTURED_SUBWORDS:
            raise UserError(
                f"The text that begins {text[:30]!r} has {len(ids):,} subwords, and a picture shows at most "
                f"{PICTURED_SUBWORDS}: choose a shorter sentence."
            )


def _attention(args: argparse.Namespace, directory: Path) -> int:
    texts = [line for line in itertools.islice(_lines(args), PICTURED) if line.strip()]
    if not texts:
        raise UserError("--attention needs at least one sentence.")
    with in_a_sentence():
        translator = Translator.load(directory)
    _require_picturable(texts, translator)
    page = attention_page([translator.attention(text) for text in texts], title=f"Attention of {args.model}")
    try:
        Path(args.attention).write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{args.attention} cannot be written: {reason_of(error)}.") from error
    print(f"{len(texts)} sentences in {args.attention}")
    return 0
