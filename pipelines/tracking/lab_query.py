"""The lab's verdicts, as MLflow has them: one child run tagged `attn.stage = 'lab'` per experiment and seed.

Its metrics are the figures; its tags `attn.fact.claim_*`, `attn.fact.measured_*` and `attn.fact.verdict_*` the claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow.entities import Run
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from jobs.errors import UserError
from jobs.lab.questions import QUESTIONS
from jobs.lab.stage import LAB

EXPERIMENTS = f"attributes.status = 'FINISHED' and tags.`attn.stage` = '{LAB.name}'"
VERDICT = "attn.fact.verdict_"


def lab_rows(client: MlflowClient, where: str) -> list[dict[str, Any]]:
    """Claim, what was measured, verdict: the newest of each setting of an experiment, in the page's order."""
    try:
        experiments = [experiment.experiment_id for experiment in client.search_experiments()]
        runs = list(client.search_runs(experiments, EXPERIMENTS, order_by=["attributes.start_time DESC"]))
    except MlflowException as error:
        raise UserError(f"MLflow could not answer: {str(error).splitlines()[0]}") from error
    newest: dict[str, Run] = {}
    for run in runs:
        newest.setdefault(run.data.tags.get("attn.fingerprint", run.info.run_id), run)
    if not newest:
        raise UserError(f"MLflow at {where} has no verdicts of the lab. `attn lab all --quick` makes some in minutes.")
    order = list(QUESTIONS)
    ordered = sorted(newest.values(), key=lambda run: order.index(run.data.tags.get("attn.lab", order[-1])))
    return [row for run in ordered for row in rows_of(run.info.run_id, run.data.tags)]


def rows_of(run_id: str, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    keys = [name.removeprefix(VERDICT) for name in tags if name.startswith(VERDICT)]
    return [
        {
            "experiment": tags.get("attn.lab", ""),
            "claim": tags.get(f"attn.fact.claim_{key}", key),
            "measured": tags.get(f"attn.fact.measured_{key}", ""),
            "verdict": tags[VERDICT + key],
            "seed": tags.get("attn.seed", ""),
            "run": run_id[:8],
            "fingerprint": tags.get("attn.fingerprint", ""),
        }
        for key in keys
    ]
