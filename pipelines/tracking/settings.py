"""What MLflow is told of a step beside its figures: every setting that led to it, and the data that it read."""

from __future__ import annotations

import json
from typing import Any

from mlflow.entities import Dataset, DatasetInput, InputTag

from jobs.passwords import hidden
from pipelines.steps.plan import flatten, in_order
from pipelines.steps.step import Step


def parameters(step: Step) -> dict[str, str]:
    """Every setting that led to a step, by its bare name (`num_heads`), so that a query needs no prefix.

    A name that two stages use is the step's own, or that of the stage nearest to it.
    """
    found: dict[str, str] = {}
    for ancestor in [step] if step.stage.describes_itself_only else reversed(in_order([step])):
        for path, value in flatten(settings_of(ancestor.config)).items():
            found.setdefault(path.rpartition(".")[2], hidden(str(value))[:500])
    return found


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


def dataset_input(step: Step) -> DatasetInput:
    source = json.dumps({"artifact": step.key})
    dataset = Dataset(name=step.name, digest=step.fingerprint, source_type="attn", source=source)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", step.label or "training")])
