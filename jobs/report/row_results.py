"""What a report knows of each row of a table: read from the results that the other steps left.

Reads   record.json, about.json, curve.jsonl, config.json, scores.json and translations.parquet of a row's inputs.
Whatever is optional there is optional here: a missing figure is None and shows as a dash.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow.parquet as pq
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from jobs.storage.artifacts import RECORD, Artifact
from jobs.storage.object_store import filesystem
from transformer import paper_figures as paper

Json = Mapping[str, Any]
Point = Mapping[str, float]
T = TypeVar("T")
Inputs = Mapping[str, Artifact]  # the results that one row stands on: corpora, shards, ... (pipelines/steps/stages.py)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the results: our figures, the paper's beside them, and how the model learned."""

    name: str
    paper: paper.Figures | None
    records: Mapping[str, Json]  # by input: fingerprint, config, facts, made
    curve: Sequence[Point] = ()
    model: Json = field(default_factory=dict)  # the model's config.json

    def fact(self, name: str, *steps: str) -> float | None:
        """A figure from the first of the steps that knows it."""
        for step in steps:
            value = self.records.get(step, {}).get("facts", {}).get(name)
            if isinstance(value, int | float) and math.isfinite(value):
                return float(value)
        return None

    def text(self, name: str, step: str) -> str | None:
        value = self.records.get(step, {}).get("facts", {}).get(name)
        return value if isinstance(value, str) else None

    @property
    def bleu(self) -> float | None:
        return self.fact("bleu", "scores")

    @property
    def bleu_paper(self) -> float | None:
        return self.fact("bleu_paper", "scores")

    @property
    def perplexity(self) -> float | None:
        """Per subword on the scored set, without smoothing: what Table 3 gives."""
        return self.fact("perplexity", "scores", "translations") or self.fact("dev_perplexity", "training")

    @property
    def parameters(self) -> float | None:
        return self.fact("parameters", "scores", "translations", "models", "training")

    @property
    def updates(self) -> float | None:
        return self.fact("updates", "training") or (self.curve[-1].get("update") if self.curve else None)

    @property
    def train_seconds(self) -> float | None:
        return self.fact("seconds", "training") or seconds_of(self.records.get("training", {}))

    @property
    def parts(self) -> dict[str, float]:
        """BLEU of the named parts of the test set."""
        facts = self.records.get("scores", {}).get("facts", {})
        found = {name: value for name, value in facts.items() if name.startswith("bleu_part_")}
        return {name.removeprefix("bleu_part_"): float(value) for name, value in found.items()}


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One translated sentence; chrF and BLEU are of this sentence alone, 0 to 100."""

    line: int
    source: str
    reference: str
    hypothesis: str
    chrf: float
    bleu: float
    part: str | None = None


def read_row(name: str, inputs: Inputs, table: int | None, pair: str) -> Row:
    return Row(
        name=name,
        paper=paper.figures_of(table, name, pair),
        records={step: read_record(artifact) for step, artifact in inputs.items()},
        curve=read_curve(inputs["training"]),
        model=read_optional(inputs["models"], "config.json"),
    )


def read_record(artifact: Artifact) -> Json:
    return read_optional(artifact, RECORD)


def read_optional(artifact: Artifact, name: str) -> Json:
    """A JSON file's object; {} where there is no such file, or something else in it."""
    try:
        value = artifact.read_json(name)
    except (FileNotFoundError, ValueError):
        return {}
    return value if isinstance(value, Mapping) else {}


def seconds_of(record: Json) -> float | None:
    value = record.get("made", {}).get("seconds")
    return float(value) if isinstance(value, int | float) else None


def read_curve(training: Artifact) -> list[Point]:
    """The training curve; figures that are no numbers are left out, and so is a line that a crash cut short."""
    try:
        lines = training.read_text("curve.jsonl").splitlines()
    except FileNotFoundError:
        return []
    points: dict[float, Point] = {}
    for line in lines:
        try:
            values = json.loads(line)
            point = {name: float(value) for name, value in values.items() if is_finite(value)}
        except (ValueError, AttributeError):
            continue
        if "update" in point:
            points[point["update"]] = {**points.get(point["update"], {}), **point}
    return [points[update] for update in sorted(points)]


def is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def language_pair(corpora: Artifact) -> str:
    about = read_optional(corpora, "about.json")
    return f"{about.get('source_language', '?')}-{about.get('target_language', '?')}"


def read_samples(translations: Artifact) -> list[Sample]:
    """Every translation with the scores of its sentence. Some seconds for a test set: called inside a Ray task."""
    store, path = filesystem(translations, "translations.parquet")
    rows = pq.read_table(path, filesystem=store).to_pylist()
    chrf, bleu = CHRF(), BLEU(effective_order=True)
    return [
        Sample(
            line=int(row.get("line", position)),
            source=row["source"] or "",
            reference=row["reference"] or "",
            hypothesis=row["hypothesis"] or "",
            chrf=chrf.sentence_score(row["hypothesis"] or "", [row["reference"] or ""]).score,
            bleu=bleu.sentence_score(row["hypothesis"] or "", [row["reference"] or ""]).score,
            part=row.get("part"),
        )
        for position, row in enumerate(rows)
    ]


def choose_samples(samples: Sequence[Sample], most: int) -> dict[str, list[Sample]]:
    """By chrF; of the perfect ones the longest."""
    worst = sorted(samples, key=lambda sample: (sample.chrf, sample.bleu, sample.line))
    best = sorted(samples, key=lambda sample: (-round(sample.chrf, 1), -len(sample.source), sample.line))
    return choose(worst, best, lambda sample: sample.line, most)


def choose(worst: Sequence[T], best: Sequence[T], line: Callable[[T], int], most: int) -> dict[str, list[T]]:
    """The first of both orders of the same sentences, and some evenly spread over the set: a third each, none twice."""
    share = max(1, most // 3)
    chosen: dict[str, list[T]] = {}
    taken: set[int] = set()

    def take(kind: str, candidates: Sequence[T], count: int) -> None:
        for each in [each for each in candidates if line(each) not in taken][:count]:
            taken.add(line(each))
            chosen.setdefault(kind, []).append(each)

    take("Worst", worst, share)
    take("Best", best, share)
    scattered = sorted(worst, key=lambda each: (line(each) * 2_654_435_761) % 2**32)
    take("At random", scattered, max(0, most - len(taken)))
    return chosen


def attention_sentences(samples: Sequence[Sample], count: int = 3, words: tuple[int, int] = (7, 18)) -> list[str]:
    """Sentences worth looking into: translated well, long enough to have structure, with a clause if there is one."""
    fitting = [sample for sample in samples if words[0] <= len(sample.source.split()) <= words[1]] or list(samples)
    ranked = sorted(fitting, key=lambda sample: ("," not in sample.source, -round(sample.chrf), -len(sample.source)))
    return list(dict.fromkeys(sample.source for sample in ranked if sample.source.strip()))[:count]
