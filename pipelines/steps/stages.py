"""A step of each stage, and the row that they form: one model from its data to its score.

    corpora -> vocabulary -> shards -> train -> average -> translate -> score -> report

What a stage is stands in `jobs/<stage>/stage.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobs.average.stage import AVERAGE
from jobs.configs import (
    AverageConfig,
    Corpus,
    ReportConfig,
    ScoreConfig,
    ShardConfig,
    TrainConfig,
    TranslateConfig,
    VocabularyConfig,
)
from jobs.corpora.stage import CORPORA
from jobs.report.stage import REPORT
from jobs.score.stage import SCORE
from jobs.shards.stage import SHARDS
from jobs.train.stage import TRAIN
from jobs.translate.stage import TRANSLATE
from jobs.vocabulary.stage import VOCABULARY
from pipelines.steps.step import Step


def corpora(config: Corpus, label: str = "") -> Step:
    return Step(stage=CORPORA, config=config, label=label)


def vocabulary(config: VocabularyConfig, corpora: Step) -> Step:
    return Step(stage=VOCABULARY, config=config, inputs={"corpora": corpora})


def shards(config: ShardConfig, corpora: Step, vocabulary: Step, label: str = "") -> Step:
    return Step(stage=SHARDS, config=config, inputs={"corpora": corpora, "vocabulary": vocabulary}, label=label)


def train(config: TrainConfig, shards: Step, dev: Step, label: str = "") -> Step:
    return Step(stage=TRAIN, config=config, inputs={"shards": shards, "dev": dev}, label=label)


def average(config: AverageConfig, training: Step, vocabulary: Step, label: str = "") -> Step:
    return Step(stage=AVERAGE, config=config, inputs={"training": training, "vocabulary": vocabulary}, label=label)


def translate(config: TranslateConfig, model: Step, testset: Step, label: str = "") -> Step:
    return Step(stage=TRANSLATE, config=config, inputs={"model": model, "testset": testset}, label=label)


@dataclass(frozen=True)
class Trees:
    """What scoring trees needs beside the free translations: the treebank's trees, and the well-formed translations."""

    treebank: Step
    well_formed: Step


def score(
    config: ScoreConfig,
    translations: Step,
    label: str = "",
    tags: Mapping[str, str] | None = None,
    trees: Trees | None = None,
) -> Step:
    inputs = {"translations": translations}
    if trees is not None:
        inputs |= {"treebank": trees.treebank, "well_formed": trees.well_formed}
    return Step(stage=SCORE, config=config, inputs=inputs, label=label, tags=tags or {})


@dataclass(frozen=True)
class Row:
    """One model from its data to its score: a line of a table."""

    name: str
    corpora: Step
    vocabulary: Step
    shards: Step
    training: Step
    model: Step
    translations: Step
    scores: Step

    def steps(self) -> dict[str, Step]:
        """By the names of the report's inputs, of which its fingerprint is made: those of the fields, and `models`."""
        fields = [name for name in self.__dataclass_fields__ if name != "name"]
        return {"models" if name == "model" else name: getattr(self, name) for name in fields}


def report(config: ReportConfig, rows: Sequence[Row]) -> Step:
    return Step(stage=REPORT, config=config, rows=tuple(row.steps() for row in rows), label=config.recipe)


def rows_of(report: Step) -> list[Row]:
    """The rows that a report was made of: where a run's models and scores are found."""
    return [
        Row(name=name, **{"model" if key == "models" else key: step for key, step in row.items()})
        for name, row in zip(report.config.rows, report.rows, strict=True)
    ]
