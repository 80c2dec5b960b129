"""What each experiment of the lab can be set to, and its quick setting. Standard library only.

A setting that would make an experiment meaningless, such as one width where a trend over widths is asked for, is
refused when it is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from transformer.config import ModelConfig, TrainingConfig, require

SMALL = ModelConfig(layers=2, d_model=64, d_ff=256, num_heads=4, dropout=0.0)
DEEP = ModelConfig(layers=6, d_model=64, d_ff=128, num_heads=4, dropout=0.0)
SHORT_TABLE = replace(SMALL, max_positions=64)
SHORT = TrainingConfig(
    steps=800, tokens_per_update=1_250, warmup=200, learning_rate=1.0, checkpoint_every=50, dev_every=50, log_every=10
)


def require_trend(name: str, values: Sequence[object], least: int = 2) -> None:
    """Refuse a list with fewer than `least` different values: there would be nothing to compare."""
    require(
        len(set(values)) >= least and len(set(values)) == len(values),
        f"{name} needs at least {least} different values to compare, not {', '.join(map(str, values)) or 'none'}",
    )


def require_positive(name: str, values: Sequence[float]) -> None:
    require(all(value > 0 for value in values), f"{name} must be above 0, not {min(values, default=0)}")


@dataclass(frozen=True, kw_only=True)
class ScalingConfig:
    d_k: tuple[int, ...] = (4, 16, 64, 256, 1024)
    keys: int = 64  # a query looks at so many
    draws: int = 4_000
    updates: int = 600
    batch: int = 64
    learning_rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3)  # of which each layer has its best
    seed: int = 1

    def __post_init__(self) -> None:
        require_trend("scaling.d_k", self.d_k)
        require_positive("scaling.d_k", self.d_k)
        require(bool(self.learning_rates), "scaling.learning_rates needs at least one")
        require_positive("scaling.learning_rates", self.learning_rates)
        require(self.keys >= 2, f"scaling.keys must be at least 2 (a softmax over one key is 1), not {self.keys}")
        require_positive("scaling.draws, updates and batch", (self.draws, self.updates, self.batch))


@dataclass(frozen=True, kw_only=True)
class MaskConfig:
    model: ModelConfig = SMALL
    training: TrainingConfig = SHORT
    looks: int = 5  # times that accuracy and BLEU are measured along the way
    sentences: int = 200  # of the test set
    seed: int = 1

    def __post_init__(self) -> None:
        require_looks("mask", self.looks, self.training.steps)
        require_positive("mask.sentences", (self.sentences,))


@dataclass(frozen=True, kw_only=True)
class PositionsConfig:
    model: ModelConfig = SHORT_TABLE
    updates: int = 800
    batch: int = 64
    symbols: int = 16
    shortest: int = 4
    longest: int = 12  # that training sees
    beyond: int = 20  # the longest that is tried
    learning_rate: float = 1e-3
    draws: int = 3  # trainings of each kind and task that settle a verdict
    seed: int = 1

    def __post_init__(self) -> None:
        require(
            1 <= self.shortest < self.longest < self.beyond < self.model.max_positions - 1,
            "positions needs shortest < longest < beyond, and beyond + 2 positions in model.max_positions, not "
            f"{self.shortest}, {self.longest}, {self.beyond} and {self.model.max_positions}",
        )
        require(self.symbols >= 2, f"positions.symbols must be at least 2, not {self.symbols}")
        require_positive("positions.updates, batch and draws", (self.updates, self.batch, self.draws))


@dataclass(frozen=True, kw_only=True)
class HeadsConfig:
    heads: tuple[int, ...] = (1, 2, 4, 8, 16)
    model: ModelConfig = SMALL
    training: TrainingConfig = SHORT
    updates: int = 800  # on the positional task
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3)  # on the positional task: of which every number of heads has its best
    draws: int = 3  # trainings of the positional task that settle its verdict
    prune: int | None = None  # the model with so many heads loses them; None: the most, up to 8
    sentences: int = 200
    seed: int = 1

    def __post_init__(self) -> None:
        require_trend("heads.heads", self.heads)
        require_positive("heads.heads", self.heads)
        odd = [heads for heads in self.heads if self.model.d_model % heads]
        require(not odd, f"heads.heads: d_model={self.model.d_model} is not a multiple of {', '.join(map(str, odd))}")
        require(self.prune is None or self.prune in self.heads, f"heads.prune={self.prune} is not among heads.heads")
        require_positive("heads.updates, draws and sentences", (self.updates, self.draws, self.sentences))
        require_trend("heads.rates", self.rates, 3)
        require_positive("heads.rates", self.rates)

    @property
    def pruned(self) -> int:
        return self.prune or max((heads for heads in self.heads if heads <= 8), default=min(self.heads))


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    lengths: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
    d_model: int = 512
    num_heads: int = 8
    tries: int = 2  # the fastest counts
    distances: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    most_gb: float = 4.0  # a point that would need more is left out, and said so
    seed: int = 1

    def __post_init__(self) -> None:
        require_trend("memory.lengths", self.lengths, 3)
        require_trend("memory.distances", self.distances)
        require_positive("memory.lengths and distances", (*self.lengths, *self.distances))
        require(
            self.d_model % self.num_heads == 0,
            f"memory.d_model={self.d_model} is not a multiple of memory.num_heads={self.num_heads}",
        )


@dataclass(frozen=True, kw_only=True)
class ResidualConfig:
    model: ModelConfig = DEEP
    updates: int = 250
    batch: int = 32
    symbols: int = 16
    longest: int = 12
    rates: tuple[float, ...] = (1e-4, 3e-4, 1e-3, 3e-3)  # at the peak: of which every variant has its best
    draws: int = 3  # trainings of every variant that settle a verdict
    warmup: int = 100
    seed: int = 1

    def __post_init__(self) -> None:
        require(self.model.layers >= 2, "residual.model.layers must be at least 2: one layer has no depth to cross")
        require(1 <= self.warmup < self.updates, f"residual.warmup must be from 1 to updates - 1, not {self.warmup}")
        require(self.longest >= 3, f"residual.longest must be at least 3, not {self.longest}")
        require_trend("residual.rates", self.rates, 3)  # with two, the best would always be at an end
        require_positive("residual.rates and draws", (*self.rates, self.draws))


@dataclass(frozen=True, kw_only=True)
class WarmupConfig:
    model: ModelConfig = DEEP
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3, 1e-2)  # at the peak
    warmups: tuple[int, ...] = (0, 25, 75)
    updates: int = 150
    batch: int = 32
    draws: int = 3  # trainings of every cell
    symbols: int = 16
    longest: int = 12
    seed: int = 1

    def __post_init__(self) -> None:
        require_trend("warmup.rates", self.rates)
        require_trend("warmup.warmups", self.warmups)
        require_positive("warmup.rates and draws", (*self.rates, self.draws))
        require(0 in self.warmups, "warmup.warmups must hold 0: without it there is nothing to compare warm-up with")
        require(
            all(0 <= warmup < self.updates for warmup in self.warmups),
            f"warmup.warmups must be from 0 to updates - 1 ({self.updates - 1})",
        )


@dataclass(frozen=True, kw_only=True)
class SmoothingConfig:
    smoothing: tuple[float, ...] = (0.0, 0.1, 0.2)
    average: tuple[int, ...] = (1, 2, 5, 10, 20)
    every: int = 10  # updates between two of the checkpoints that are averaged
    model: ModelConfig = SMALL
    training: TrainingConfig = SHORT
    sentences: int = 200
    draws: int = 3  # trainings at every amount of smoothing that settle a verdict
    seed: int = 1

    def __post_init__(self) -> None:
        require_positive("smoothing.draws, every and sentences", (self.draws, self.every, self.sentences))
        require_trend("smoothing.smoothing", self.smoothing)
        require(0.0 in self.smoothing, "smoothing.smoothing must hold 0: smoothing is compared with none")
        require(all(0 <= value < 1 for value in self.smoothing), "smoothing.smoothing must be at least 0 and below 1")
        require_trend("smoothing.average", self.average)
        require(1 in self.average, "smoothing.average must hold 1: an average is compared with the last checkpoint")
        require(
            max(self.average) * self.every <= self.training.steps,
            f"smoothing.average={max(self.average)} checkpoints, {self.every} updates apart, are more than "
            f"{self.training.steps} updates have",
        )


@dataclass(frozen=True, kw_only=True)
class RecurrenceConfig:
    model: ModelConfig = SMALL
    training: TrainingConfig = SHORT
    factors: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)  # on the learning rate: a full training at each, on either side
    looks: int = 10
    sentences: int = 200
    lengths: tuple[int, ...] = (8, 16, 32, 64, 128)
    workers: tuple[int, ...] = (1, 2)
    seed: int = 1

    def __post_init__(self) -> None:
        require_looks("recurrence", self.looks, self.training.steps)
        require_trend("recurrence.factors", self.factors)
        require_trend("recurrence.lengths", self.lengths)
        require_positive("recurrence.factors, lengths and workers", (*self.factors, *self.lengths, *self.workers))
        require_positive("recurrence.sentences", (self.sentences,))


LabConfig = (
    ScalingConfig | MaskConfig | PositionsConfig | HeadsConfig | MemoryConfig | ResidualConfig | WarmupConfig
    | SmoothingConfig | RecurrenceConfig
)  # fmt: skip


def require_looks(section: str, looks: int, steps: int) -> None:
    require(
        2 <= looks <= steps, f"{section}.looks must be from 2 to training.steps ({steps}): a curve needs two points"
    )


@dataclass(frozen=True, kw_only=True)
class LabSettings:
    """A section per experiment: what `attn lab --set section.field=value` reaches."""

    scaling: ScalingConfig = field(default_factory=ScalingConfig)
    mask: MaskConfig = field(default_factory=MaskConfig)
    positions: PositionsConfig = field(default_factory=PositionsConfig)
    heads: HeadsConfig = field(default_factory=HeadsConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    residual: ResidualConfig = field(default_factory=ResidualConfig)
    warmup: WarmupConfig = field(default_factory=WarmupConfig)
    smoothing: SmoothingConfig = field(default_factory=SmoothingConfig)
    recurrence: RecurrenceConfig = field(default_factory=RecurrenceConfig)


BRIEF = replace(SHORT, steps=120, warmup=60)
QUICK = LabSettings(
    scaling=ScalingConfig(d_k=(4, 64, 1024), draws=1_000, updates=200, learning_rates=(1e-3,)),
    mask=MaskConfig(training=BRIEF, looks=3, sentences=60),
    positions=PositionsConfig(updates=200, draws=1),
    heads=HeadsConfig(heads=(1, 4, 8), training=BRIEF, updates=150, draws=1, sentences=60),
    memory=MemoryConfig(lengths=(256, 512, 1024, 2048), tries=1, distances=(1, 4, 16, 64)),
    residual=ResidualConfig(updates=80, warmup=30, rates=(3e-4, 1e-3, 3e-3), draws=1),
    warmup=WarmupConfig(rates=(1e-3, 1e-2), warmups=(0, 60), updates=100, draws=1),
    smoothing=SmoothingConfig(smoothing=(0.0, 0.1), average=(1, 2, 5), training=BRIEF, sentences=60, draws=1),
    recurrence=RecurrenceConfig(training=BRIEF, factors=(1.0, 2.0), looks=3, sentences=60, lengths=(8, 32)),
)


@dataclass(frozen=True, kw_only=True)
class LabPageConfig:
    """The experiments of a page, in its order; each stands `seeds` times among the inputs, seed after seed."""

    experiments: tuple[str, ...]
    seeds: int = 1
    quick: bool = False
