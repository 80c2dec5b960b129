"""What a stage says of itself, once: its name and version, what it needs, what it costs, what tracking keeps of it.

Every stage is a folder `jobs/<name>/` with a `stage.py` that holds one `Stage` and a `job.py` whose `run` makes its
results. The runner, the plan, the estimate and the tracking read the `Stage`. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from jobs.configs import Corpus, Resources, VocabularyConfig

T = TypeVar("T")


@dataclass(frozen=True)
class Demand:
    """What a step takes of the cluster while it runs."""

    cpus: float = 1.0
    gpus: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """`device_hours` are of GPUs where the profile has them, else of CPUs."""

    seconds: float
    flops: float = 0.0
    device_hours: float = 0.0
    kilowatt_hours: float = 0.0


@dataclass(frozen=True)
class Lineage:
    """The configs that a step is made by: its own, those of its inputs by name, and all that led to it."""

    config: Any
    inputs: Mapping[str, Any]
    configs: Sequence[Any]  # of the step and of everything it stands on, in the order of the plan

    def first(self, kind: type[T]) -> T:
        """The config of this kind; of several, e.g. of the training text and of a test set, the first in the plan."""
        return next(config for config in self.configs if isinstance(config, kind))

    @property
    def sentence_tokens(self) -> float:
        """Subwords of one side of a pair, about."""
        return self.first(Corpus).sentence_tokens

    @property
    def vocabulary_size(self) -> int:
        return self.first(VocabularyConfig).size


def one_cpu(on: Resources) -> Demand:
    return Demand()


def a_few_seconds(lineage: Lineage, on: Resources) -> Estimate | None:
    return Estimate(seconds=5.0)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """`version` is raised when the job's meaning changes, in the same commit; the plan says what is made anew."""

    name: str
    job: str  # the module whose run() makes a result
    version: int = 1
    demand: Callable[[Resources], Demand] = one_cpu
    divide: Callable[[Resources, int], Resources] | None = None  # the profile with at most so many workers, from 1 on
    flops: Callable[[Lineage], float] | None = None  # matrix products; of waiting steps the largest starts first
    estimate: Callable[[Lineage, Resources], Estimate | None] = a_few_seconds  # None where nobody can tell
    is_dataset: bool = False  # an MLflow dataset of the runs that read it
    is_vocabulary: bool = False  # holds subwords.model, for `attn vocabulary`
    columns: tuple[tuple[str, str], ...] = ()  # of a dataset's Parquet files: names, and MLflow's words for their types
    is_model: bool = False  # a model directory, for `attn translate`, export and the registry
    judges_model: bool = False  # its figures belong to the model that it stands on: registered together
    curve: str | None = None  # file of a learning curve, JSON lines with `update`
    kept_work: tuple[str, ...] = ()  # patterns of files under work/ that belong to the result
    publishes_files: bool = False  # its files are kept in MLflow
    describes_itself_only: bool = False  # its MLflow params are its own settings, not those of all that led to it


def compute_time(
    flops: float, devices: float, on: Resources, start_s: float, efficiency: float = 1.0
) -> Estimate | None:
    """The paper's formula (under Table 2), solved for time: FLOPs / (devices x sustained rate). None without a rate."""
    if on.device_tflops is None:
        return None
    busy = flops / (devices * on.device_tflops * 1e12 * efficiency)
    hours = busy * devices / 3600
    return Estimate(start_s + busy, flops, hours, hours * (on.watts or 0.0) / 1000)


def data_time(pairs: int | None, per_cpu_second: float, on: Resources, start_s: float) -> Estimate | None:
    """Pairs at a rate measured per CPU on real text. None where the number of pairs is not known."""
    if pairs is None:
        return None
    return Estimate(seconds=start_s + pairs / (per_cpu_second * on.data.tasks * on.data.cpus_per_task))
