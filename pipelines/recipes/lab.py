"""The lab's experiments as steps: the text that some of them translate, a step per experiment and seed, one page.

attn lab scaling        attn lab all --quick        attn lab heads --set heads.heads=1,4 --seeds 3
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace

from jobs.configs import ShardConfig, VocabularyConfig
from jobs.errors import refuse_unknown
from jobs.lab.configs import QUICK, LabPageConfig, LabSettings
from jobs.lab.questions import QUESTIONS
from jobs.lab.stage import LAB
from jobs.lab_page.stage import LAB_PAGE
from pipelines.recipes import settings
from pipelines.recipes.experiment import DemoText, FilesText
from pipelines.recipes.recipes import require_seeds
from pipelines.steps import stages
from pipelines.steps.step import Step

ALL = "all"


@dataclass(frozen=True, kw_only=True)
class Lab(LabSettings):
    """Everything that `attn lab --set` reaches: a section per experiment, and the text."""

    corpus: DemoText | FilesText = field(
        default_factory=lambda: DemoText(train_pairs=20_000, dev_pairs=100, test_pairs=400)
    )
    vocabulary: VocabularyConfig = field(default_factory=lambda: VocabularyConfig(size=2_000))
    shards: ShardConfig = field(default_factory=lambda: ShardConfig(micro_batch_tokens=1_250, pool_pairs=10_000))


def settings_of(quick: bool, own_text: bool) -> Lab:
    """What `--set` changes: the full sizes or the quick ones, on the demo language or on the user's files."""
    sections = {one.name: getattr(QUICK, one.name) for one in fields(QUICK)} if quick else {}
    lab = Lab(**sections)
    return replace(lab, corpus=FilesText(), vocabulary=VocabularyConfig(size=8_000)) if own_text else lab


def names_of(chosen: Sequence[str]) -> list[str]:
    """The experiments that were named, in the order of the page."""
    for name in chosen:
        if name not in QUESTIONS and name != ALL:
            refuse_unknown("experiment", name, [*QUESTIONS, ALL])
    return [name for name in QUESTIONS if ALL in chosen or name in chosen]


def page(chosen: Sequence[str], changes: Iterable[str] = (), *, quick: bool = False, seeds: int = 1) -> Step:
    """The last step: the page of these experiments, each with so many seeds."""
    require_seeds(seeds)
    names = names_of(chosen)
    whole = [spelled_out(change, names) for change in changes]
    own_text = any(change.startswith("corpus.") and change[7:].partition("=")[0] in files_only() for change in whole)
    lab = settings.apply(settings_of(quick, own_text), whole)
    text = text_steps(lab) if any(QUESTIONS[name].text for name in names) else {}
    experiments = [step for name in names for step in experiment(name, lab, text, seeds)]
    config = LabPageConfig(experiments=tuple(names), seeds=seeds, quick=quick)
    label = names[0] if len(names) == 1 else f"{len(names)} experiments"
    inputs = {"experiments": tuple(experiments)}
    return Step(stage=LAB_PAGE, config=config, inputs=inputs, label=label)


def files_only() -> set[str]:
    """Settings that only a corpus of the user's own has."""
    return {one.name for one in fields(FilesText)} - {one.name for one in fields(DemoText)}


def spelled_out(change: str, names: Sequence[str]) -> str:
    """With one experiment, its section may be left out: `--set d_k=4,64` of `attn lab scaling`."""
    first = change.partition("=")[0].partition(".")[0].strip()
    own = {one.name for one in fields(getattr(QUICK, names[0]))}
    sections = {one.name for one in fields(Lab)}
    return f"{names[0]}.{change}" if len(names) == 1 and first in own and first not in sections else change


def text_steps(lab: Lab) -> dict[str, Step]:
    texts = {split: stages.corpora(config, split) for split, config in lab.corpus.corpora().items()}
    subwords = stages.vocabulary(lab.vocabulary, texts["train"])
    shards = stages.shards(lab.shards, texts["train"], subwords, "train")
    return {"shards": shards, "vocabulary": subwords, "test": texts["test"]}


def experiment(name: str, lab: Lab, text: dict[str, Step], seeds: int) -> list[Step]:
    """The experiment once per seed; the first seed is its own, so that it is the very step made before."""
    config = getattr(lab, name)
    inputs = text if QUESTIONS[name].text else {}
    made = []
    for seed in range(config.seed, config.seed + seeds):
        tags = {"attn.lab": name, "attn.seed": str(seed)}
        label = name if seeds == 1 else f"{name}@seed{seed}"
        own = replace(config, seed=seed)
        made.append(Step(stage=LAB, config=own, inputs=inputs, label=label, tags=tags))
    return made
