"""`attn report`: print a recipe's report and open its page."""

from __future__ import annotations

import argparse
import webbrowser

from jobs.durations import duration
from pipelines.execution.workspace import Workspace
from pipelines.recipes import from_arguments
from pipelines.terminal.json_output import print_json


def report(args: argparse.Namespace) -> int:
    recipe, targets = from_arguments.targets(args)
    workspace = Workspace(args.workspace)
    record = workspace.finished(targets[-1], recipe.name)
    artifact = workspace.artifact(targets[-1])
    page = artifact.at("report.html")
    if args.json:
        print_json({"html": page, "markdown": artifact.at("report.md"), "csv": artifact.at("results.csv"), **record})
        return 0
    print(artifact.read_text("report.md"))
    print(f"made {record['made']['when']} in {duration(record['made']['seconds'])}; the page: {page}")
    if artifact.is_local:
        webbrowser.open(f"file://{page}")
    return 0
