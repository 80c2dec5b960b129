"""The stage `train`: checkpoints of one model, by Ray Train."""

from __future__ import annotations

from dataclasses import replace

from jobs.configs import Resources, TrainConfig
from jobs.stage import Demand, Estimate, Lineage, Stage, compute_time
from transformer.flops import flops_per_target_token

START_S = 10.0


def demand(on: Resources) -> Demand:
    each = on.train
    return Demand(each.workers * each.cpus_per_worker, each.workers * each.gpus_per_worker)


def divide(on: Resources, workers: int) -> Resources:
    """Training is the same on any number of workers, so a share of them changes no result."""
    return replace(on, train=replace(on.train, workers=min(workers, on.train.workers)))


def flops(lineage: Lineage) -> float:
    config: TrainConfig = lineage.config
    length = lineage.sentence_tokens
    per_token = flops_per_target_token(config.model, lineage.vocabulary_size, source=length, target=length)
    return per_token * config.training.tokens_per_update * config.training.steps


def estimate(lineage: Lineage, on: Resources) -> Estimate | None:
    devices = on.train.workers * (on.train.gpus_per_worker or on.train.cpus_per_worker)
    return compute_time(flops(lineage), devices, on, START_S)


TRAIN = Stage(
    name="train",
    job="jobs.train.job",
    version=2,
    demand=demand,
    divide=divide,
    flops=flops,
    estimate=estimate,
    curve="curve.jsonl",
    kept_work=("work/*/update-*/model.safetensors",),
)
