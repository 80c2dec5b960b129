"""An experiment: everything that a recipe can be set to, section by section, and the row of steps that it becomes.

The sections are what `--set section.field=value` reaches. Every default is the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from jobs.configs import (
    ArchivesCorpus,
    AverageConfig,
    CleaningConfig,
    CorpusConfig,
    DemoCorpus,
    FilesCorpus,
    ScoreConfig,
    ShardConfig,
    TrainConfig,
    TranslateConfig,
    VocabularyConfig,
)
from jobs.errors import UserError
from pipelines.recipes.language_pairs import PAIRS, PROFILES, Profile
from pipelines.steps import stages
from transformer.config import ModelConfig, SearchConfig, TrainingConfig


@dataclass(frozen=True, kw_only=True)
class DemoText:
    """How much of the demo language."""

    train_pairs: int = 40_000
    dev_pairs: int = 500
    test_pairs: int = 1_000
    seed: int = 1

    def corpora(self) -> Mapping[str, CorpusConfig]:
        return {
            "train": DemoCorpus(split="train", pairs=self.train_pairs, seed=self.seed),
            "dev": DemoCorpus(split="dev", pairs=self.dev_pairs, seed=self.seed),
            "test": DemoCorpus(split="test", pairs=self.test_pairs, seed=self.seed),
        }

    def lines(self, split: str) -> int | None:
        return self.test_pairs if split == "test" else self.dev_pairs


@dataclass(frozen=True, kw_only=True)
class FilesText:
    """The user's own parallel text, plain or gzip: line N of a source translates line N of its target."""

    train_source: str = ""
    train_target: str = ""
    dev_source: str = ""
    dev_target: str = ""
    test_source: str = ""
    test_target: str = ""
    source_language: str = "en"
    target_language: str = "de"

    def corpora(self) -> Mapping[str, CorpusConfig]:
        missing = [name for name in self.__dataclass_fields__ if not getattr(self, name)]
        if missing:
            raise UserError(
                "The recipe `files` needs your text: "
                + " ".join(f"--set corpus.{name}=FILE" for name in missing)
                + ". Line N of a source file translates line N of its target file; gzip is fine."
            )
        return {split: self._corpus(split) for split in ("train", "dev", "test")}

    def _corpus(self, split: str) -> FilesCorpus:
        return FilesCorpus(
            source=getattr(self, f"{split}_source"),
            target=getattr(self, f"{split}_target"),
            source_language=self.source_language,
            target_language=self.target_language,
        )

    def lines(self, split: str) -> int | None:
        return None


@dataclass(frozen=True, kw_only=True)
class WmtText:
    """A language pair of pipelines/recipes/language_pairs.py. `from` names a directory to look for the archives in.

    `cleaning` is the paper's (nothing but over-long pairs goes) or the usual one of today; `shards.cleaning` sets
    single filters.
    """

    pair: str = "en-de"
    cleaning: Profile = "paper"
    from_directory: str | None = field(default=None, metadata={"spelled": "from"})

    def corpora(self) -> Mapping[str, CorpusConfig]:
        pair = PAIRS[self.pair]
        train = ArchivesCorpus(
            archives=pair.archives,
            source_language=pair.source,
            target_language=pair.target,
            from_directory=self.from_directory,
        )
        dev = pair.dev
        if isinstance(dev, ArchivesCorpus):
            dev = replace(dev, from_directory=self.from_directory)
        return {"train": train, "dev": dev, "test": pair.test}

    def lines(self, split: str) -> int | None:
        return PAIRS[self.pair].dev_lines if split == "dev" else PAIRS[self.pair].test_lines


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One model, from its text to its score."""

    corpus: DemoText | FilesText | WmtText = field(default_factory=WmtText, metadata={"aliases": ("corpora",)})
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    shards: ShardConfig = field(default_factory=ShardConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    average: AverageConfig = field(default_factory=AverageConfig)
    translation: SearchConfig = field(default_factory=SearchConfig, metadata={"aliases": ("search",)})
    scoring: ScoreConfig = field(default_factory=ScoreConfig)


def cleaned(experiment: Experiment) -> ShardConfig:
    """The shards with the cleaning that the corpus asks for, unless single filters were set."""
    if isinstance(experiment.corpus, WmtText) and experiment.shards.cleaning == CleaningConfig():
        return replace(experiment.shards, cleaning=PROFILES[experiment.corpus.cleaning])
    return experiment.shards


def row(
    name: str, experiment: Experiment, *, scored_on: Literal["dev", "test"], tags: Mapping[str, str] | None = None
) -> stages.Row:
    """The steps from the text to the score of one model."""
    texts = {split: stages.corpora(config, split) for split, config in experiment.corpus.corpora().items()}
    subwords = stages.vocabulary(experiment.vocabulary, texts["train"])
    shards = stages.shards(cleaned(experiment), texts["train"], subwords, "train")
    unfiltered = ShardConfig(cleaning=CleaningConfig(max_subwords=experiment.shards.cleaning.max_subwords))
    dev = stages.shards(unfiltered, texts["dev"], subwords, "dev")
    training = stages.training(TrainConfig(model=experiment.model, training=experiment.training), shards, dev, name)
    model = stages.averaged(experiment.average, training, subwords, name)
    translated = stages.translations(TranslateConfig(search=experiment.translation), model, texts[scored_on], name)
    lines = experiment.corpus.lines(scored_on)
    scoring = ScoreConfig(lines=lines, bootstrap=experiment.scoring.bootstrap, seed=experiment.scoring.seed)
    return stages.Row(
        name=name,
        corpora=texts["train"],
        vocabulary=subwords,
        shards=shards,
        training=training,
        model=model,
        translations=translated,
        scores=stages.scores(scoring, translated, name, {"attn.set": scored_on, "attn.row": name, **(tags or {})}),
    )
