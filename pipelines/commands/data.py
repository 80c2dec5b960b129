"""`attn data show`: counts, lengths and dropped pairs of the data that a recipe (its first row) trains on."""

from __future__ import annotations

import argparse
import importlib

from pipelines.execution.workspace import Workspace
from pipelines.recipes import from_arguments
from pipelines.steps.stages import rows_of
from pipelines.terminal.json_output import print_json


def data(args: argparse.Namespace) -> int:
    recipe, last = from_arguments.last_step(args)
    workspace = Workspace(args.workspace)
    first = rows_of(last)[0]
    for step in (first.corpora, first.vocabulary, first.shards):
        workspace.finished(step, recipe.name)
    data_facts = importlib.import_module("jobs.shards.inspect")
    at = workspace.artifact
    facts = data_facts.data_facts(corpora=at(first.corpora), vocabulary=at(first.vocabulary), shards=at(first.shards))
    if args.json:
        print_json(facts)
    else:
        print(data_facts.as_text(facts))
    return 0
