"""Scores, as MLflow has them: one child run tagged `attn.stage = 'score'` each.

Its metrics are the scores, its params every setting that led to them (`model.num_heads`, `training.seed`; `num_heads`
alone will do in a filter, as it is one setting's name), its tags the recipe, the row, and the table of the paper it
belongs to. `mlflow.search_runs` gives the same with the same filter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from jobs.errors import UserError, first_line, refuse_unknown
from jobs.score.stage import SCORE
from pipelines.steps.step import Step
from pipelines.tracking.settings import by_full_name

SCORES = f"attributes.status = 'FINISHED' and tags.`attn.stage` = '{SCORE.name}'"
LOWER_IS_BETTER = ("perplexity", "loss", "seconds", "parameters")


@dataclass(frozen=True)
class Result:
    """One score: of a row of a recipe, with one seed."""

    run_id: str
    recipe: str
    row: str
    seed: str
    set: str
    fingerprint: str
    when: str
    metrics: Mapping[str, float]
    params: Mapping[str, str]
    tags: Mapping[str, str]


def read(client: MlflowClient, recipe: str | None, where: str | None) -> list[Result]:
    """Every score, the newest of each fingerprint, row and recipe."""
    filters = [SCORES]
    if recipe:
        filters.append(f"tags.`attn.recipe` = '{recipe}'")
    if where:
        filters.append(quoted(where))
    try:
        experiments = [experiment.experiment_id for experiment in client.search_experiments()]
        runs: list[Run] = []
        token = None
        while True:
            page = client.search_runs(
                experiments, " and ".join(filters), order_by=["attributes.start_time DESC"], max_results=1000,
                page_token=token,
            )  # fmt: skip
            runs += page
            token = page.token
            if not token:
                break
    except Exception as error:  # MLflow's own, and those of every kind of database
        first = first_line(error) or type(error).__name__
        raise UserError(f"MLflow at {client.tracking_uri} could not answer: {first}") from error
    newest: dict[tuple[str, str, str], Result] = {}
    for run in runs:
        result = result_of(run)
        newest.setdefault((result.recipe, result.row, result.fingerprint), result)
    return list(newest.values())


def experiments(client: MlflowClient) -> dict[str, str]:
    """Name and id of every experiment of ours, the one with the newest run first."""
    known = {experiment.experiment_id: experiment.name for experiment in client.search_experiments()}
    newest = client.search_runs(list(known), "tags.`attn.stage` = 'run'", order_by=["attributes.start_time DESC"])
    order = dict.fromkeys([run.info.experiment_id for run in newest])
    return {known[each]: each for each in order}


def result_of(run: Run) -> Result:
    tags = run.data.tags
    return Result(
        run_id=run.info.run_id,
        recipe=tags.get("attn.recipe", ""),
        row=tags.get("attn.row", ""),
        seed=tags.get("attn.seed") or run.data.params.get("training.seed") or run.data.params.get("seed", ""),
        set=tags.get("attn.set", ""),
        fingerprint=tags.get("attn.fingerprint", ""),
        when=measured_at(run),
        metrics=run.data.metrics,
        params=by_full_name(run.data.params),
        tags=tags,
    )


def result_of_step(recipe: str, step: Step, record: Mapping[str, Any]) -> Result:
    """The same of a step that has just been made, without asking MLflow."""
    facts = record["facts"]
    return Result(
        run_id=str(record["made"].get("run_id") or ""),
        recipe=recipe,
        row=step.tags.get("attn.row", step.label),
        seed=step.tags.get("attn.seed", ""),
        set=step.tags.get("attn.set", ""),
        fingerprint=step.fingerprint,
        when=str(record["made"]["when"])[:16].replace("T", " "),
        metrics={name: float(value) for name, value in facts.items() if isinstance(value, int | float)},
        params={},
        tags=step.tags,
    )


def measured_at(run: Run) -> str:
    """When the figures were made, which for a step that was found done is before its run. Minutes, UTC."""
    made = run.data.tags.get("attn.made_when")
    when = datetime.fromisoformat(made) if made else datetime.fromtimestamp(run.info.start_time / 1000, UTC)
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M}"


def quoted(where: str) -> str:
    """MLflow keeps params as text: params.num_heads = 8 becomes params.num_heads = '8'."""
    return re.sub(r"(params\.\S+\s*(?:!=|=)\s*)([\w.+-]+)", r"\1'\2'", where)


def pick(found: Sequence[Result], name: str) -> Result:
    """The result that a word names: a run, a fingerprint, a row, or a recipe."""
    for result in found:
        if name in (result.run_id, result.fingerprint, result.row, result.recipe, f"{result.recipe}:{result.row}"):
            return result
    starting = [r for r in found if r.run_id.startswith(name) or r.fingerprint.startswith(name)]
    if len(name) >= 4 and starting:
        return starting[0]
    known = sorted({result.row for result in found} | {result.recipe for result in found})
    raise UserError(f"No scored run is named {name!r}: give a row, a recipe, recipe:row, a run id or a fingerprint of "
                    f"`attn results` (there are {', '.join(known[:30])}).")  # fmt: skip


def best(found: Sequence[Result], metric: str) -> Result:
    having = [result for result in found if metric in result.metrics]
    if not having:
        names = sorted({name for result in found for name in result.metrics})
        refuse_unknown("metric", metric, names)
    ordered = sorted(having, key=lambda result: result.metrics[metric])
    return ordered[0] if any(word in metric for word in LOWER_IS_BETTER) else ordered[-1]
