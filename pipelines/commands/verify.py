"""`attn verify`: is every result of the workspace, or of a recipe, still what was made? Nothing is changed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from jobs.errors import UserError
from jobs.storage.artifacts import RECORD
from pipelines.execution.files import FILES, damage_of, in_words, is_record
from pipelines.execution.workspace import Workspace
from pipelines.recipes import from_arguments
from pipelines.steps.plan import in_order
from pipelines.terminal.json_output import print_json


def verify(args: argparse.Namespace) -> int:
    workspace = Workspace(args.workspace)
    results = sizes_by_result(workspace)
    if args.recipe:
        recipe, targets = from_arguments.targets(args)
        keys = [step.key for step in in_order(targets)]
        results = {key: results[key] for key in keys if key in results}
        if not results:
            raise UserError(f"Nothing of {recipe.name} is made yet in {workspace.uri}.")
    elif args.changes or args.rows or args.rows_from or args.until:
        raise UserError("--set, --rows and --until belong to a recipe: name it.")
    found = [examine(workspace, key, sizes, args.deep) for key, sizes in results.items()]
    if args.json:
        print_json(found)
    else:
        say(found, workspace, args.recipe or "RECIPE", args.deep)
    return 1 if any(each["damage"] for each in found) else 0


def sizes_by_result(workspace: Workspace) -> dict[str, dict[str, int]]:
    """`stage/fingerprint` -> file -> bytes, of every directory that has a record."""
    found: dict[str, dict[str, int]] = {}
    for path, size in workspace.root.sizes().items():
        stage, _, rest = path.partition("/")
        fingerprint, _, name = rest.partition("/")
        if name:
            found.setdefault(f"{stage}/{fingerprint}", {})[name] = size
    return {key: sizes for key, sizes in found.items() if RECORD in sizes}


def examine(workspace: Workspace, key: str, sizes: Mapping[str, int], deep: bool) -> dict[str, Any]:
    artifact = workspace.root.child(key)
    try:
        record = json.loads(artifact.read_bytes(RECORD))
    except ValueError:
        record = None
    whole = is_record(record, key)
    damage = damage_of(record, artifact, sizes, deep=deep) if whole else [f"{RECORD} is damaged"]
    return {"result": key, "damage": damage, "listed": not whole or FILES in record}


def say(found: list[dict[str, Any]], workspace: Workspace, recipe: str, deep: bool) -> None:
    console = Console(highlight=False)
    for each in found:
        if each["damage"]:
            console.print(f"[red]no[/]  {each['result']}: {in_words(each['damage'])}", soft_wrap=True)
            console.print(f"    attn run {recipe} --again {each['result']}", soft_wrap=True, style="dim")
    damaged = sum(bool(each["damage"]) for each in found)
    unlisted = sum(not each["listed"] for each in found)
    older = f"; {unlisted} have no list of files (made by an older attn) and were not looked at" if unlisted else ""
    how = "by size and digest" if deep else "by size (--deep compares digests)"
    whole = len(found) - damaged - unlisted
    counted = f"{len(found)} results in {workspace.uri}: {whole} whole {how}, {damaged} damaged{older}."
    console.print(counted, soft_wrap=True)
