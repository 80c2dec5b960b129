"""The stages of the pipeline: what each is called, which job makes it, and from what.

    corpora -> vocabulary -> shards -> train -> average -> translate -> score -> report

A job whose meaning changes gets its `version` raised here, in the same commit; the plan says what is made anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobs.configs import (
    AverageConfig,
    CorpusConfig,
    ReportConfig,
    ScoreConfig,
    ShardConfig,
    TrainConfig,
    TranslateConfig,
    VocabularyConfig,
)
from pipelines.steps.step import Step


def corpora(config: CorpusConfig, label: str = "") -> Step:
    return Step(stage="corpora", job="jobs.corpora.job", config=config, label=label)


def vocabulary(config: VocabularyConfig, corpora: Step) -> Step:
    return Step(stage="vocabulary", job="jobs.vocabulary.job", config=config, inputs={"corpora": corpora})


def shards(config: ShardConfig, corpora: Step, vocabulary: Step, label: str = "") -> Step:
    inputs = {"corpora": corpora, "vocabulary": vocabulary}
    return Step(stage="shards", job="jobs.shards.job", config=config, inputs=inputs, label=label, version=2)


def training(config: TrainConfig, shards: Step, dev: Step, label: str = "") -> Step:
    inputs = {"shards": shards, "dev": dev}
    return Step(stage="train", job="jobs.train.job", config=config, inputs=inputs, label=label, version=2)


def averaged(config: AverageConfig, training: Step, vocabulary: Step, label: str = "") -> Step:
    inputs = {"training": training, "vocabulary": vocabulary}
    return Step(stage="average", job="jobs.average.job", config=config, inputs=inputs, label=label)


def translations(config: TranslateConfig, model: Step, testset: Step, label: str = "") -> Step:
    inputs = {"model": model, "testset": testset}
    return Step(stage="translate", job="jobs.translate.job", config=config, inputs=inputs, label=label)


def scores(config: ScoreConfig, translations: Step, label: str = "", tags: Mapping[str, str] | None = None) -> Step:
    inputs = {"translations": translations}
    return Step(stage="score", job="jobs.score.job", config=config, inputs=inputs, label=label, tags=tags or {})


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


def report(config: ReportConfig, rows: Sequence[Row]) -> Step:
    inputs = {
        "corpora": tuple(row.corpora for row in rows),
        "vocabulary": tuple(row.vocabulary for row in rows),
        "shards": tuple(row.shards for row in rows),
        "training": tuple(row.training for row in rows),
        "models": tuple(row.model for row in rows),
        "translations": tuple(row.translations for row in rows),
        "scores": tuple(row.scores for row in rows),
    }
    return Step(stage="report", job="jobs.report.job", config=config, inputs=inputs, label=config.recipe)
