"""`attn vocabulary`: how text is cut into the subwords of a recipe, or of a model directory."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path

from jobs.errors import UserError
from pipelines.execution.workspace import Workspace
from pipelines.recipes.saved import find_recipe, is_recipe
from pipelines.steps.plan import in_order
from pipelines.terminal.input_lines import decoded_lines, readable_words
from transformer.config import SUBWORDS


def vocabulary(args: argparse.Namespace) -> int:
    subwords = importlib.import_module("transformer.subwords").Subwords(model_of(args))
    texts = readable_words(args.text) if args.text else decoded_lines()
    for text in texts:
        ids = subwords.encode(text)
        pieces = subwords.pieces(ids)
        if args.json:
            print(json.dumps({"text": text, "subwords": pieces, "ids": ids}, ensure_ascii=False))  # a line each
        else:
            print(" ".join(pieces))
    if args.text and not args.json:
        print(f"({len(subwords):,} subwords in all; a word begins with ▁)")
    return 0


def model_of(args: argparse.Namespace) -> bytes:
    """The SentencePiece model: of the recipe's vocabulary, as soon as that is made, or of the directory."""
    named, workspace = Path(args.model), Workspace(args.workspace)
    if not is_recipe(args.model, workspace) and (named.is_dir() or "/" in args.model):
        try:
            return (named / SUBWORDS).read_bytes()
        except OSError as error:
            raise UserError(f"{named} is not a model directory: it has no {SUBWORDS}.") from error
    recipe = find_recipe(args.model, workspace)
    first = next(step for step in in_order([recipe.step(args.changes)]) if step.stage.is_vocabulary)
    workspace.finished(first, recipe.name)
    return workspace.artifact(first).read_bytes(SUBWORDS)
