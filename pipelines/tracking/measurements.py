"""What `attn doctor --measure` found, as a run of the experiment `doctor`: figures as metrics, all of it as a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

from pipelines.execution.provenance import made_now
from pipelines.execution.workspace import Workspace
from pipelines.tracking.server import tracking_uri
from pipelines.tracking.settings import provenance_tags

EXPERIMENT = "doctor"


def store_measurement(workspace: Workspace, profile: str, found: Mapping[str, Any], when_ms: int) -> str:
    """The id of the run."""
    uri = tracking_uri(workspace)
    directory = workspace.local_directory("mlflow")
    if uri.startswith("sqlite:"):
        directory.mkdir(parents=True, exist_ok=True)
    client = MlflowClient(tracking_uri=uri)
    known = client.get_experiment_by_name(EXPERIMENT)
    location = (directory / "artifacts").as_uri() if uri.startswith("sqlite:") else None
    experiment = known.experiment_id if known else client.create_experiment(EXPERIMENT, artifact_location=location)
    tags = provenance_tags(made_now(0.0, profile, None), "attn doctor --measure")
    run_id = str(client.create_run(experiment, tags=tags, run_name=f"measure {profile}").info.run_id)
    flat = flatten(found)
    numbers = {name: float(value) for name, value in flat.items() if isinstance(value, int | float)}
    words = {name: str(value) for name, value in flat.items() if name not in numbers}
    client.log_batch(
        run_id,
        metrics=[Metric(name, value, when_ms, 0) for name, value in numbers.items()],
        params=[Param(name, value[:500]) for name, value in words.items()],
    )
    client.log_dict(run_id, dict(found), "measurement.json")
    client.set_terminated(run_id)
    return run_id


def flatten(found: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested figures by dotted names."""
    flat: dict[str, Any] = {}
    for name, value in found.items():
        flat |= flatten(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat
