"""A training on the cluster at an address, as a process of its own, so that it can be killed and begun again.

    python cluster_training.py ADDRESS DIRECTORY NAME STEPS LEAST MOST

DIRECTORY holds tiny shards (tiny_shards.py) as `shards` and `dev`; the training goes to NAME there.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import ray
from ray.data._internal.cluster_autoscaler import default_autoscaling_coordinator as coordinator
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from jobs import cluster, train
from jobs.artifacts import Artifact
from jobs.configs import Resources, TrainConfig, TrainResources
from jobs.events import Event, Note
from transformer.config import ModelConfig, TrainingConfig

EVERY = 20  # updates between checkpoints


def config(steps: int) -> TrainConfig:
    """Its curve is the beginning of that of any longer one: the learning rate knows no end."""
    return TrainConfig(
        model=ModelConfig(layers=1, d_model=16, d_ff=32, num_heads=2),
        training=TrainingConfig(
            steps=steps, tokens_per_update=700, warmup=60, learning_rate=0.05, checkpoint_every=EVERY,
            keep_checkpoints=3, dev_every=10**9, log_every=5,
        ),
    )  # fmt: skip


def on(least: int, most: int) -> Resources:
    return Resources(train=TrainResources(workers=most, min_workers=least, max_failures=1000))


class Attentive(coordinator._AutoscalingCoordinatorActor):
    """Ray's own, which looks at the cluster every 20 seconds, made to look every second: a test need not wait."""

    TICK_INTERVAL_S = 1


def look_often() -> None:
    name = {"name": "AutoscalingCoordinator", "namespace": "AutoscalingCoordinator"}
    with contextlib.suppress(ValueError):  # nobody needed it yet
        ray.kill(ray.get_actor(**name))
    quick: Any = ray.remote(num_cpus=0)(Attentive)
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    ray.get(quick.options(**name, lifetime="detached", scheduling_strategy=here).remote().__ray_ready__.remote())


def say(event: Event) -> None:
    if isinstance(event, Note):  # nobody reads along: a pipe would be full of the rest
        print(event.text, flush=True)


def main(address: str, place: str, name: str, steps: str, least: str, most: str) -> None:
    cluster.connect(address)
    look_often()
    train.RESIZE_SECONDS = 1.0
    directory = Path(place)
    shards, dev, out = (Artifact(str(directory / each)) for each in ("shards", "dev", name))
    train.run(config(int(steps)), shards=shards, dev=dev, out=out, on=on(int(least), int(most)), log=say)


if __name__ == "__main__":
    main(*sys.argv[1:])
