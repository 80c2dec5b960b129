"""Have the workers of a profile measure what training will meet there: minutes, before hours are spent.

Ray Train starts the workers as it does for a training. Nothing of it stays in the workspace.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, cast

from ray.train import LoggingConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

from jobs.cluster.connect import require_resources
from jobs.configs import Resources
from jobs.events import Log
from jobs.measure.worker import Measurement, measure
from jobs.storage.artifacts import Artifact
from jobs.storage.object_store import resolve
from transformer.config import ModelConfig

GROUP_TIMEOUT_S = 600
SMALL = ModelConfig(layers=3, d_model=256, d_ff=1024, num_heads=4), 8_000
BASE = ModelConfig(), 37_000
BIG = ModelConfig(d_model=1024, d_ff=4096, num_heads=16, dropout=0.3), 37_000


def measurement_for(on: Resources, place: Artifact) -> Measurement:
    """Base and big in micro-batches of the paper's size where there are GPUs; what a CPU does in a minute elsewhere."""
    gpu = on.train.gpus_per_worker > 0
    return Measurement(
        models={"base": BASE, "big": BIG} if gpu else {"small": SMALL, "base": BASE},
        tokens=3_125 if gpu else 500,
        updates=20 if gpu else 3,
        precision=on.train.precision,
        compile=gpu,
        threads=max(1, int(on.train.cpus_per_worker)),
        place=place,
    )


def run(on: Resources, workspace: Artifact, log: Log, wanted: Measurement | None = None) -> Mapping[str, Any]:
    """What rank 0 of the profile's workers measured."""
    name = f"measure-{uuid.uuid4().hex[:8]}"
    place = workspace.child(name)
    each = {"CPU": on.train.cpus_per_worker, "GPU": on.train.gpus_per_worker}
    each = {kind: amount for kind, amount in each.items() if amount}
    require_resources("Measuring", [each] * on.train.workers, log)
    store, path = resolve(workspace.uri)
    settings: dict[str, Any] = {
        "name": name,
        "storage_path": path,
        "storage_filesystem": store,
        "logging_config": LoggingConfig(log_level="WARNING"),
    }
    scaling: dict[str, Any] = {
        "num_workers": on.train.workers,
        "use_gpu": on.train.gpus_per_worker > 0,
        "resources_per_worker": each,
    }
    try:
        trainer = TorchTrainer(
            cast(Any, measure),  # Ray's own types do not know yet that such a function may return something
            train_loop_config={"measurement": wanted or measurement_for(on, place)},
            torch_config=TorchConfig(timeout_s=GROUP_TIMEOUT_S),
            scaling_config=ScalingConfig(**scaling),
            run_config=RunConfig(**settings),
        )
        found: Mapping[str, Any] = cast(Any, trainer.fit()).return_value
        return found
    finally:
        place.delete()
