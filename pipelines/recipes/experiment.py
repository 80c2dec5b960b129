"""An experiment: everything that a recipe can be set to, section by section, and the row of steps that it becomes.

The sections are what `--set section.field=value` reaches. Every default is the paper's.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from jobs.configs import (
    ArchivesCorpus,
    AverageConfig,
    CleaningConfig,
    Corpus,
    DemoCorpus,
    FilesCorpus,
    ScoreConfig,
    ShardConfig,
    TrainConfig,
    TranslateConfig,
    VocabularyConfig,
)
from jobs.errors import UserError, refuse_unknown
from pipelines.recipes.language_pairs import PAIRS, PROFILES, Profile, VocabularyKind
from pipelines.recipes.settings import FILE, a_file
from pipelines.steps import stages
from transformer.config import ModelConfig, SearchConfig, TrainingConfig, require, require_seed

LANGUAGE = re.compile("[a-z]{2,3}")


class Text(ABC):
    """Where an experiment's text comes from: a kind of corpus for each split."""

    @abstractmethod
    def corpora(self) -> Mapping[str, Corpus]:
        """By split: train, dev, test."""

    @abstractmethod
    def vocabulary(self) -> tuple[VocabularyKind, int]:
        """Kind and size of the vocabulary, unless they are set."""

    def lines(self, split: str) -> int | None:
        """How many lines a development or test set is known to have."""
        return None

    def cleaning(self) -> CleaningConfig:
        """What is dropped unless single filters are set."""
        return CleaningConfig()

    @property
    def scored(self) -> Literal["dev", "test"]:
        """The split that a single model is scored on."""
        return "test"

    @property
    def is_trees(self) -> bool:
        """Whether the target side is trees: they are decoded in both ways and scored against the treebank's own."""
        return False


def require_some(text: Text, fields: Sequence[str]) -> None:
    for name in fields:
        require(getattr(text, name) >= 1, f"corpus.{name} must be at least 1, not {getattr(text, name)}")


@dataclass(frozen=True, kw_only=True)
class VocabularySettings:
    """The section `vocabulary`. `kind` and `size` are the corpus's own (section 5.1) unless they are set."""

    kind: VocabularyKind | None = None  # bpe or unigram; none: the corpus's own  (5.1)
    size: int | None = None  # subwords, shared by both languages; none: the corpus's own  (5.1)
    sample_pairs: int = VocabularyConfig.sample_pairs  # learned from a sample of at most so many pairs
    seed: int = VocabularyConfig.seed  # of the sample

    def __post_init__(self) -> None:
        self.config(VocabularyConfig.kind, VocabularyConfig.size)  # refuses what is out of range

    def config(self, kind: VocabularyKind, size: int) -> VocabularyConfig:
        """With the corpus's kind and size where none is set."""
        return VocabularyConfig(
            kind=kind if self.kind is None else self.kind,
            size=size if self.size is None else self.size,
            sample_pairs=self.sample_pairs,
            seed=self.seed,
        )


@dataclass(frozen=True, kw_only=True)
class DemoText(Text):
    """How much of the demo language."""

    train_pairs: int = 40_000  # to train on
    dev_pairs: int = 500  # to watch training with
    test_pairs: int = 1_000  # to score
    seed: int = 1  # of the sentences

    def __post_init__(self) -> None:
        require_some(self, ("train_pairs", "dev_pairs", "test_pairs"))
        require_seed("corpus.seed", self.seed)

    def corpora(self) -> Mapping[str, Corpus]:
        return {
            "train": DemoCorpus(split="train", pairs=self.train_pairs, seed=self.seed),
            "dev": DemoCorpus(split="dev", pairs=self.dev_pairs, seed=self.seed),
            "test": DemoCorpus(split="test", pairs=self.test_pairs, seed=self.seed),
        }

    def lines(self, split: str) -> int | None:
        return self.test_pairs if split == "test" else self.dev_pairs

    def vocabulary(self) -> tuple[VocabularyKind, int]:
        return "bpe", 2_000


@dataclass(frozen=True, kw_only=True)
class FilesText(Text):
    """The user's own parallel text, plain or gzip: line N of a source translates line N of its target."""

    train_source: str = a_file()  # a file to train on; line N of a source translates line N of its target
    train_target: str = a_file()  # its translations
    dev_source: str = a_file()  # a file to watch training with
    dev_target: str = a_file()  # its translations
    test_source: str = a_file()  # a file to score
    test_target: str = a_file()  # its translations
    source_language: str = "en"  # a code such as en, for the tokens of scores
    target_language: str = "de"  # the same
    max_unreadable: float = 0.05  # share of lines that are not UTF-8 above which a file is refused

    def __post_init__(self) -> None:
        for name in ("source_language", "target_language"):  # with another word, scores would be of other tokens
            code = getattr(self, name)
            require(LANGUAGE.fullmatch(code) is not None, f"corpus.{name} is a code such as en or de, not {code!r}")
        sentence = f"corpus.max_unreadable must be from 0 to 1, not {self.max_unreadable}"
        require(0 <= self.max_unreadable <= 1, sentence)

    def corpora(self) -> Mapping[str, Corpus]:
        missing = [name for name in self.__dataclass_fields__ if getattr(self, name) == ""]
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
            max_unreadable=self.max_unreadable,
        )

    def vocabulary(self) -> tuple[VocabularyKind, int]:
        return "bpe", 8_000


@dataclass(frozen=True, kw_only=True)
class WmtText(Text):
    """A language pair of pipelines/recipes/language_pairs.py. `from` names a directory to look for the archives in.

    `cleaning` is the paper's (nothing but over-long pairs goes) or the usual one of today; `shards.cleaning` sets
    single filters.
    """

    pair: str = "en-de"  # a language pair of pipelines/recipes/language_pairs.py  (5.1)
    cleaning_profile: Profile = field(default="paper", metadata={"spelled": "cleaning"})  # what is dropped
    from_directory: str | None = field(default=None, metadata={"spelled": "from", **FILE})  # look for archives here

    def __post_init__(self) -> None:
        if self.pair not in PAIRS:
            refuse_unknown("language pair", self.pair, PAIRS)

    def corpora(self) -> Mapping[str, Corpus]:
        pair = PAIRS[self.pair]
        train = ArchivesCorpus(
            archives=pair.archives,
            source_language=pair.source,
            target_language=pair.target,
        )
        corpora = {"train": train, "dev": pair.dev, "test": pair.test}
        return {split: corpus.look_in(self.from_directory) for split, corpus in corpora.items()}

    def lines(self, split: str) -> int | None:
        return PAIRS[self.pair].dev_lines if split == "dev" else PAIRS[self.pair].test_lines

    def cleaning(self) -> CleaningConfig:
        return PROFILES[self.cleaning_profile]

    def vocabulary(self) -> tuple[VocabularyKind, int]:
        return PAIRS[self.pair].vocabulary_kind, PAIRS[self.pair].vocabulary_size


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One model, from its text to its score."""

    corpus: Text = field(default_factory=WmtText, metadata={"aliases": ("corpora",)})
    vocabulary: VocabularySettings = field(default_factory=VocabularySettings)
    shards: ShardConfig = field(default_factory=ShardConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    average: AverageConfig = field(default_factory=AverageConfig)
    translation: SearchConfig = field(default_factory=SearchConfig, metadata={"aliases": ("search",)})
    scoring: ScoreConfig = field(default_factory=ScoreConfig)


def cleaned(experiment: Experiment) -> ShardConfig:
    """The shards with the cleaning that the corpus asks for, unless single filters were set."""
    if experiment.shards.cleaning == CleaningConfig():
        return replace(experiment.shards, cleaning=experiment.corpus.cleaning())
    return experiment.shards


def row(
    name: str, experiment: Experiment, *, scored_on: Literal["dev", "test"], tags: Mapping[str, str] | None = None
) -> stages.Row:
    """The steps from the text to the score of one model."""
    kept = experiment.training.keep_checkpoints
    if experiment.average.last > kept:
        raise UserError(
            f"average.last={experiment.average.last} asks for more checkpoints than training keeps: set "
            f"training.keep_checkpoints={experiment.average.last}, too (it is {kept})."
        )
    texts = {split: stages.corpora(config, split) for split, config in experiment.corpus.corpora().items()}
    subwords = stages.vocabulary(experiment.vocabulary.config(*experiment.corpus.vocabulary()), texts["train"])
    shards = stages.shards(cleaned(experiment), texts["train"], subwords, "train")
    unfiltered = ShardConfig(cleaning=CleaningConfig(max_subwords=experiment.shards.cleaning.max_subwords))
    dev = stages.shards(unfiltered, texts["dev"], subwords, "dev")
    training = stages.train(TrainConfig(model=experiment.model, training=experiment.training), shards, dev, name)
    model = stages.average(experiment.average, training, subwords, name)
    search, testset = experiment.translation, texts[scored_on]
    translated = stages.translate(TranslateConfig(search=search), model, testset, name)
    trees = None
    if experiment.corpus.is_trees:
        well_formed = TranslateConfig(search=replace(search, well_formed=True))
        trees = stages.Trees(testset, stages.translate(well_formed, model, testset, f"{name} well-formed"))
    known, given = experiment.corpus.lines(scored_on), experiment.scoring.lines
    if known is not None and given not in (None, known):
        raise UserError(
            f"scoring.lines={given} would be refused after training: the {scored_on} set has {known:,} lines."
        )
    scoring = replace(experiment.scoring, lines=known if given is None else given)
    return stages.Row(
        name=name,
        corpora=texts["train"],
        vocabulary=subwords,
        shards=shards,
        training=training,
        model=model,
        translations=translated,
        scores=stages.score(
            scoring, translated, name, {"attn.set": scored_on, "attn.row": name, **(tags or {})}, trees
        ),
    )
