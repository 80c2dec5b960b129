"""`attn parse`: sentences to trees with a trained model, by the recipe that made it or by its directory."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from jobs.errors import UserError, reason_of
from jobs.report.tree_pictures import standalone, tree_svg
from pipelines.commands.translate import batches, in_a_sentence, require_narrow
from pipelines.execution.model_directory import model_directory
from transformer.config import SearchConfig
from transformer.parsing.parser import SEARCH, Parsed, Parser
from transformer.parsing.penn_words import penn_words

DRAWN = 50  # trees


def search_config(args: argparse.Namespace) -> SearchConfig:
    beam = SEARCH.beam if args.beam is None else args.beam
    require_narrow(beam)
    alpha = SEARCH.alpha if args.alpha is None else args.alpha
    try:
        return replace(SEARCH, beam=beam, alpha=alpha, well_formed=not args.free)
    except ValueError as error:
        raise UserError(f"{str(error).replace('translation.', '--')}.") from error


def parse(args: argparse.Namespace) -> int:
    if args.text and args.input is not None:
        raise UserError("Sentences and --input FILE cannot be parsed together: give one of them.")
    if args.text == ["-"]:
        args.text = []
    if args.svg and Path(args.svg).suffix.lower() != ".svg":
        raise UserError(f"--svg draws trees: name a file that ends in .svg, not {args.svg}.")
    search = search_config(args)
    drawn: list[Parsed] = []
    with model_directory(args) as directory, in_a_sentence():
        parser = Parser.load(directory)
        for lines in batches(args):
            sentences = [line.split() if args.words else penn_words(line) for line in lines]
            for line, found in zip(lines, parser.parse(sentences, search), strict=True):
                print_parsed(args, line, found)
                if found is not None:
                    drawn.append(found)
            sys.stdout.flush()
    if args.svg:
        draw(args.svg, drawn)
    return 0


def print_parsed(args: argparse.Namespace, line: str, found: Parsed | None) -> None:
    """A tree a line; a blank line stays blank."""
    if args.json:
        tree = None if found is None else {"tree": str(found.tree), "repaired": found.repaired, "score": found.score}
        print(json.dumps({"source": line, **(tree or {"tree": None})}, ensure_ascii=False))
    elif found is None:
        print()
    else:
        print(found.tree.pretty() if args.pretty else found.tree)
        if found.repaired:
            print("attn: the model's output was no tree over these words and was repaired.", file=sys.stderr)


def draw(name: str, drawn: list[Parsed]) -> None:
    """The first tree in the file that was named, each further one in a file of its own beside it."""
    if not drawn:
        raise UserError("--svg needs at least one sentence.")
    file = Path(name)
    for number, found in enumerate(drawn[:DRAWN], start=1):
        place = file if number == 1 else file.with_stem(f"{file.stem}-{number}")
        try:
            place.write_text(standalone(tree_svg(found.tree)), encoding="utf-8")
        except OSError as error:
            raise UserError(f"{place} cannot be written: {reason_of(error)}.") from error
    print(f"{min(len(drawn), DRAWN)} drawn, the first in {file}", file=sys.stderr)
