"""`attn data show`: counts, lengths and dropped pairs of a recipe's data."""

from __future__ import annotations

import argparse
import importlib

from pipelines.execution.workspace import Workspace
from pipelines.recipes import from_arguments
from pipelines.steps.plan import in_order
from pipelines.terminal.json_output import print_json


def data(args: argparse.Namespace) -> int:
    recipe, targets = from_arguments.targets(args)
    workspace = Workspace(args.workspace)
    steps = {step.stage.name: step for step in reversed(in_order(targets)) if step.label in ("", "train")}
    for stage in ("corpora", "vocabulary", "shards"):
        workspace.finished(steps[stage], recipe.name)
    data_facts = importlib.import_module("jobs.shards.inspect")
    artifacts = {stage: workspace.artifact(steps[stage]) for stage in ("corpora", "vocabulary", "shards")}
    facts = data_facts.data_facts(**artifacts)
    if args.json:
        print_json(facts)
    else:
        print(data_facts.as_text(facts))
    return 0
