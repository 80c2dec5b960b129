"""Follow a plan within this process, for notebooks and scripts: no output is redirected, and errors are raised."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from jobs.cluster.connect import capacity, connect, disconnect
from jobs.configs import Resources
from jobs.errors import UserError
from pipelines.execution.runner import Runner
from pipelines.execution.workspace import Workspace
from pipelines.steps.plan import Plan
from pipelines.terminal.live_table import RunScreen
from pipelines.tracking.server import tracking_uri
from pipelines.tracking.writer import Tracker


def follow(
    plan: Plan, workspace: Workspace, on: Resources, recipe: str, address: str | None
) -> Mapping[str, Mapping[str, Any]]:
    """The records of all steps. What fails is raised as a UserError; a Ray that was started here is ended."""
    for each in plan.damaged:
        workspace.require_whole(each.step, each.record or {}, recipe)
    uri = tracking_uri(workspace)
    artifacts = workspace.local_directory("mlflow") / "artifacts" if uri.startswith("sqlite:") else None
    status = "FAILED"
    tracker = Tracker(uri, recipe, artifacts=artifacts, command="pipelines.notebook")
    try:
        have: Mapping[str, float] = {}
        if plan.to_do:
            connect(address)
            have = capacity(on)
        with RunScreen(Console(file=sys.stdout, highlight=False, soft_wrap=True, force_terminal=False), plan) as screen:
            outcome = Runner(workspace, on, tracker, screen, have).run(plan)
        if outcome.failures:
            raise UserError(
                "; ".join(f"{key.partition('/')[0]} failed: {why}" for key, why in outcome.failures.items())
            )
        status = "FINISHED"
        return outcome.records
    finally:
        tracker.close(status)
        disconnect()
