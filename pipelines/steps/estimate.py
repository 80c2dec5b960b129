"""What a step would cost, before a GPU-second is spent: counted arithmetic over the profile's stated rate.

Training and translating are counted in FLOPs (matrix products). The other stages are a rate per CPU, measured on real
text. An estimate is good to a factor of two, and a finished run says how far off it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.configs import ArchivesCorpus, DemoCorpus, Resources, SacrebleuSet, TrainConfig, VocabularyConfig
from pipelines.steps.plan import in_order
from pipelines.steps.step import Step
from transformer.flops import flops_per_target_token, forward_flops

PAIR_TOKENS = 30.0  # subwords of a side of a WMT pair, about
SHORT_PAIR_TOKENS = 14.0  # of the demo language
PAIRS_PER_CPU_SECOND = {"corpora": 60_000.0, "shards": 8_000.0}
TEST_LINES = 3_003
VOCABULARY_S = 120.0
START_S = {"train": 10.0, "translate": 8.0, "shards": 5.0}


@dataclass(frozen=True)
class Estimate:
    """`device_hours` are of GPUs where the profile has them, else of CPUs."""

    seconds: float
    flops: float = 0.0
    device_hours: float = 0.0
    kilowatt_hours: float = 0.0


def estimate(step: Step, on: Resources) -> Estimate | None:
    """None where nobody can tell, for instance for the user's own text."""
    if step.stage == "train":
        flops, devices = training_flops(step), float(on.train.workers) * devices_per(on.train.gpus_per_worker, on)
        return spent(flops, devices, on, START_S["train"])
    if step.stage == "translate":
        flops, devices = (
            translating_flops(step),
            float(on.translate.actors) * devices_per(on.translate.gpus_per_actor, on),
        )
        return spent(flops, devices, on, START_S["translate"], efficiency=0.1)
    pairs = pairs_of(step)
    if step.stage in PAIRS_PER_CPU_SECOND and pairs is not None:
        cpus = on.data.tasks * on.data.cpus_per_task
        seconds = pairs / (PAIRS_PER_CPU_SECOND[step.stage] * cpus)
        return Estimate(seconds=START_S.get(step.stage, 2.0) + seconds)
    if step.stage == "vocabulary" and pairs is not None:
        return Estimate(seconds=3.0 + VOCABULARY_S * min(pairs, 2_000_000) / 2_000_000)
    return Estimate(seconds=5.0) if step.stage in ("average", "score", "report") else None


def devices_per(gpus: float, on: Resources) -> float:
    return gpus if gpus else on.train.cpus_per_worker


def spent(flops: float, devices: float, on: Resources, start: float, efficiency: float = 1.0) -> Estimate | None:
    """The paper's own formula (under Table 2), turned round: time = FLOPs / (devices x sustained rate)."""
    if on.device_tflops is None:
        return None
    busy = flops / (devices * on.device_tflops * 1e12 * efficiency)
    hours = busy * devices / 3600
    return Estimate(start + busy, flops, hours, hours * (on.watts or 0.0) / 1000)


def training_flops(step: Step) -> float:
    config: TrainConfig = step.config
    length = SHORT_PAIR_TOKENS if is_demo(step) else PAIR_TOKENS
    per_token = flops_per_target_token(config.model, vocabulary_size(step), source=length, target=length)
    return per_token * config.training.tokens_per_update * config.training.steps


def translating_flops(step: Step) -> float:
    config: TrainConfig = next(each for each in in_order([step]) if each.stage == "train").config
    length = SHORT_PAIR_TOKENS if is_demo(step) else PAIR_TOKENS
    lines = pairs_of(step) or TEST_LINES
    one = forward_flops(config.model, vocabulary_size(step), source=length, target=length)
    return one * lines * float(step.config.search.beam)


def vocabulary_size(step: Step) -> int:
    config: VocabularyConfig = next(each for each in in_order([step]) if each.stage == "vocabulary").config
    return config.size


def is_demo(step: Step) -> bool:
    return any(isinstance(each.config, DemoCorpus) for each in in_order([step]))


def pairs_of(step: Step) -> int | None:
    """How many pairs a step reads, where that is known before it is made."""
    source = step
    for name in ("testset", "corpora"):
        following = step.inputs.get(name)
        source = following if isinstance(following, Step) else source
    config = source.config
    if isinstance(config, DemoCorpus):
        return config.pairs
    if isinstance(config, SacrebleuSet):
        return config.lines
    if isinstance(config, ArchivesCorpus):
        lines = [archive.lines for archive in config.archives]
        return sum(line for line in lines if line is not None) if all(lines) else None
    return None


def total(estimates: Iterable[Estimate | None]) -> Estimate:
    """One after the other; a cluster that runs rows side by side needs less time, not less work."""
    known = [each for each in estimates if each is not None]
    return Estimate(
        seconds=sum(each.seconds for each in known),
        flops=sum(each.flops for each in known),
        device_hours=sum(each.device_hours for each in known),
        kilowatt_hours=sum(each.kilowatt_hours for each in known),
    )


def how_far_off(steps: Iterable[Step], records: Mapping[str, Mapping[str, Any]], on: Resources) -> tuple[float, float]:
    """After the fact: the seconds that were said and those that it took, of the steps that had an estimate."""
    said = {step.key: cost for step in steps if (cost := estimate(step, on)) is not None and step.key in records}
    return total(said.values()).seconds, sum(float(records[key]["made"]["seconds"]) for key in said)
