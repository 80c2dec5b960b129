"""What MLflow is told of a step beside its figures: every setting that led to it, and the data that it read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from mlflow.entities import Dataset, DatasetInput, InputTag

from jobs.passwords import hidden
from jobs.storage.artifacts import RECORD, Artifact, scheme_of
from pipelines.steps.plan import flatten, in_order
from pipelines.steps.step import Step

SOURCES = {"": "local", "s3": "s3", "gs": "gs"}  # MLflow's word for where a dataset is, by the scheme of its address


def parameters(step: Step) -> dict[str, str]:
    """Every setting that led to a step, by its full name: `model.num_heads`, `training.seed`, `shards.seed`.

    A name whose last part no other setting has stands there without the rest, too (`num_heads`), so that the usual
    queries need no prefix. Of two steps of one stage, the nearest one's settings are told.
    """
    full: dict[str, str] = {}
    for ancestor in [step] if step.stage.describes_itself_only else reversed(in_order([step])):
        settings = settings_of(ancestor.config)
        sections = all(isinstance(value, dict) for value in settings.values())  # `model`, `training`: named already
        for path, value in flatten(settings if sections else {ancestor.stage.name: settings}).items():
            full.setdefault(path, hidden(str(value))[:500])
    last = Counter(path.rpartition(".")[2] for path in full)
    return full | {name: value for path, value in full.items() if last[name := path.rpartition(".")[2]] == 1}


def by_full_name(params: Mapping[str, str]) -> dict[str, str]:
    """Each setting once: without the short names of those that stand there by their full one."""
    short = {name.rpartition(".")[2] for name in params if "." in name}
    return {name: value for name, value in params.items() if "." in name or name not in short}


def settings_of(config: Any) -> dict[str, Any]:
    """All fields of a config, defaults too, nested as they are."""
    fields = getattr(config, "__dataclass_fields__", {})
    values = {name: getattr(config, name) for name in fields}
    return {
        name: settings_of(value) if hasattr(value, "__dataclass_fields__") else compact_value(value)
        for name, value in values.items()
    }


def compact_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return ",".join(getattr(item, "name", str(item)) for item in value)
    return value


def dataset_input(step: Step, place: Artifact | None) -> DatasetInput:
    """The data that a run read. `mlflow.data.get_source` opens it, where it has a place that MLflow can read."""
    dataset = Dataset(
        name=step.name,
        digest=step.fingerprint,
        source_type=SOURCES.get(scheme_of(place.uri), "attn") if place is not None else "attn",
        source=json.dumps({"artifact": step.key} | ({"uri": place.uri.partition("?")[0]} if place is not None else {})),
        schema=schema(step),
        profile=json.dumps({"pairs": place.facts.get("pairs")}) if place is not None and place.exists(RECORD) else None,
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", step.label or "training")])


def schema(step: Step) -> str | None:
    columns = [{"name": name, "required": True, **column_type(kind)} for name, kind in step.stage.columns]
    return json.dumps({"mlflow_colspec": columns}) if columns else None


def column_type(kind: str) -> dict[str, Any]:
    if kind.startswith("["):
        return {"type": "array", "items": {"type": kind.strip("[]")}}
    return {"type": kind}


def provenance_tags(made: Mapping[str, Any], command: str = "") -> dict[str, str]:
    """Who made it, where and with what, for tags of a run: MLflow's own names where it has some."""
    tags = {
        "mlflow.user": made.get("user"),
        "mlflow.source.name": command,
        "mlflow.source.type": "JOB" if command else None,
        "mlflow.source.git.commit": made.get("commit"),
        "attn.host": made.get("host"),
        "attn.profile": made.get("profile"),
        **{f"attn.version.{name}": version for name, version in made.get("versions", {}).items()},
    }
    return {name: str(value) for name, value in tags.items() if value}
