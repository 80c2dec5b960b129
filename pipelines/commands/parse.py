"""`attn parse`: sentences to trees with a trained model, by the recipe that made it or by its directory."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from jobs.errors import UserError
from pipelines.commands.translate import batches, in_a_sentence
from pipelines.execution.model_directory import model_directory
from transformer.config import SearchConfig
from transformer.parser import SEARCH, Parsed, Parser
from transformer.penn_words import penn_words

DRAWN = 50  # trees in one picture


def search_config(args: argparse.Namespace) -> SearchConfig:
    beam = SEARCH.beam if args.beam is None else args.beam
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
    if Path(name).suffix.lower() != ".svg":
        raise UserError(f"--svg writes a picture: name a file that ends in .svg, not {name}.")
    if not drawn:
        raise UserError("--svg needs at least one sentence.")
    raise UserError("not yet")
