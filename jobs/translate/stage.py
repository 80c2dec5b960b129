"""The stage `translate`: a test set through a model, by beam search."""

from __future__ import annotations

from dataclasses import replace

from jobs.configs import Resources, TrainConfig
from jobs.stage import Demand, Estimate, Lineage, Stage, compute_time
from transformer.flops import forward_flops

START_S = 8.0
EFFICIENCY = 0.1  # of the sustained rate: a step of decoding multiplies few rows
TEST_LINES = 3_003  # where the size of the test set is not known


def demand(on: Resources) -> Demand:
    each = on.translate
    return Demand(each.actors * each.cpus_per_actor, each.actors * each.gpus_per_actor)


def divide(on: Resources, actors: int) -> Resources:
    """A translation does not depend on the number of actors."""
    return replace(on, translate=replace(on.translate, actors=min(actors, on.translate.actors)))


def flops(lineage: Lineage) -> float:
    model, length = lineage.first(TrainConfig).model, lineage.sentence_tokens
    one = forward_flops(model, lineage.vocabulary_size, source=length, target=length)
    return one * (lineage.inputs["testset"].known_pairs() or TEST_LINES) * float(lineage.config.search.beam)


def estimate(lineage: Lineage, on: Resources) -> Estimate | None:
    devices = on.translate.actors * (on.translate.gpus_per_actor or on.translate.cpus_per_actor)
    return compute_time(flops(lineage), devices, on, START_S, EFFICIENCY)


TRANSLATE = Stage(name="translate", job="jobs.translate.job", demand=demand, divide=divide, estimate=estimate)
