"""The configuration of each job: one frozen dataclass per job, its defaults the paper's. Standard library only.

Two kinds of field are not taken as they stand into a step's fingerprint:
`where()`    a place, such as a directory to look in first: left out;
`content()`  a file of the user's: its content counts, its path does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from transformer.config import ModelConfig, SearchConfig, TrainingConfig, require, require_seed
from transformer.parsing.tree_symbols import Tags

WHERE = {"identity": "where"}
CONTENT = {"identity": "content"}


def where(default: Any = None) -> Any:
    return field(default=default, metadata=WHERE)


def content() -> Any:
    return field(metadata=CONTENT)


# --- corpora -----------------------------------------------------------------------------------------------------


class Corpus:
    """A kind of corpus. `kind` names the module of jobs/corpora/kinds that reads it."""

    kind: ClassVar[str]
    sentence_tokens: ClassVar[float] = 30.0  # subwords of a side, about: of a WMT pair
    source_language: str
    target_language: str

    def known_pairs(self) -> int | None:
        """How many pairs it has, where that is known before it is read."""
        return None

    def look_in(self, directory: str | None) -> Self:
        """The same corpus, with its files looked for in a directory first."""
        return self

    def form(self) -> Mapping[str, str]:
        """What its about.json says of the target side where that is no text."""
        return {}


@dataclass(frozen=True, kw_only=True)
class DemoCorpus(Corpus):
    """Sentences of the demo language. The splits of one seed share no sentence."""

    kind: ClassVar[str] = "demo"
    sentence_tokens: ClassVar[float] = 14.0

    split: Literal["train", "dev", "test"]
    pairs: int
    seed: int = 1
    source_language: str = "en"
    target_language: str = "de"

    def __post_init__(self) -> None:
        require_seed("corpus.seed", self.seed)
        require(self.pairs >= 1, f"a corpus needs at least one pair, not {self.pairs}")

    def known_pairs(self) -> int | None:
        return self.pairs


@dataclass(frozen=True, kw_only=True)
class FilesCorpus(Corpus):
    """Two text files of the user's, plain or gzip: line N of one translates line N of the other."""

    kind: ClassVar[str] = "files"

    source: str = content()
    target: str = content()
    source_language: str = "en"
    target_language: str = "de"
    max_unreadable: float = 0.05  # share of lines that are not UTF-8 above which a file is refused


@dataclass(frozen=True, kw_only=True)
class Archive:
    """One file of a corpus on the internet and the two members of it that we want.

    `urls` are tried in turn. `source_member` and `target_member` are paths inside the archive; a plain or gzip file
    that is no archive has both sides in it (TSV, TMX) or is given twice.
    """

    name: str
    urls: tuple[str, ...] = field(metadata=WHERE)
    source_member: str
    target_member: str
    bytes: int | None = None
    sha256: str | None = None
    md5: str | None = None
    lines: int | None = None  # expected in each member; another count is an error


@dataclass(frozen=True, kw_only=True)
class ArchivesCorpus(Corpus):
    """A corpus put together from archives, downloaded once per workspace and checked."""

    kind: ClassVar[str] = "archives"

    archives: tuple[Archive, ...]
    source_language: str
    target_language: str
    from_directory: str | None = where()  # look for the archives here before downloading them

    def known_pairs(self) -> int | None:
        lines = [archive.lines for archive in self.archives if archive.lines is not None]
        return sum(lines) if len(lines) == len(self.archives) else None

    def look_in(self, directory: str | None) -> Self:
        return replace(self, from_directory=directory)


@dataclass(frozen=True, kw_only=True)
class SacrebleuSet(Corpus):
    """A test set that sacreBLEU knows, such as wmt14/full; `lines` is asserted."""

    kind: ClassVar[str] = "sacrebleu_set"

    name: str
    lines: int
    source_language: str
    target_language: str

    def known_pairs(self) -> int | None:
        return self.lines


@dataclass(frozen=True, kw_only=True)
class TreeCount:
    """How many trees a part of a treebank is known to have."""

    name: str
    files: tuple[str, ...]
    trees: int


@dataclass(frozen=True, kw_only=True)
class TreesCorpus(Corpus):
    """Penn-bracket trees of the user's (section 6.3). A pair is a sentence and its tree, written as symbols."""

    kind: ClassVar[str] = "trees"
    sentence_tokens: ClassVar[float] = 60.0

    files: tuple[str, ...] = content()  # directories, globs, archives (with #folder inside), files
    tags: Tags = "XX"  # what stands for a word in the target
    known_counts: tuple[TreeCount, ...] = where(())  # checked before anything is read
    expected: int | None = where()  # trees, where it is known
    source_language: str = "en"
    target_language: str = "trees"

    def known_pairs(self) -> int | None:
        return self.expected

    def form(self) -> Mapping[str, str]:
        return {"targets": "trees", "tags": self.tags}


@dataclass(frozen=True, kw_only=True)
class DemoTreesCorpus(Corpus):
    """Trees by a grammar of ours. The splits share no sentence."""

    kind: ClassVar[str] = "demo_trees"
    sentence_tokens: ClassVar[float] = 35.0

    split: Literal["train", "dev", "test"]
    trees: int
    seed: int = 1
    tags: Tags = "XX"
    source_language: str = "en"
    target_language: str = "trees"

    def __post_init__(self) -> None:
        require_seed("corpus.seed", self.seed)
        require(self.trees >= 1, f"a treebank needs at least one tree, not {self.trees}")

    def known_pairs(self) -> int | None:
        return self.trees

    def form(self) -> Mapping[str, str]:
        return {"targets": "trees", "tags": self.tags}


# --- vocabulary ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """One subword vocabulary shared by both languages (section 5.1)."""

    kind: Literal["bpe", "unigram"] = "bpe"
    size: int = 37_000
    sample_pairs: int = 2_000_000  # the vocabulary is learned from a seeded sample of at most so many pairs
    seed: int = 1

    def __post_init__(self) -> None:
        require_seed("vocabulary.seed", self.seed)
        require(self.size <= 1_000_000, f"vocabulary.size must be at most 1,000,000, not {self.size:,}")
        require(self.size >= 300, f"vocabulary.size must be at least 300 (256 bytes and the letters), not {self.size}")
        require(self.sample_pairs >= 1, f"vocabulary.sample_pairs must be at least 1, not {self.sample_pairs}")


# --- shards ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CleaningConfig:
    """Which pairs training never sees. The defaults are the paper's: nothing but empty and over-long pairs goes."""

    normalise_unicode: bool = True  # NFC, and white space folded to single blanks
    normalise_punctuation: bool = False  # quotation marks, dashes and blanks of one kind
    max_subwords: int = 256  # on either side
    min_words: int = 1  # on either side
    max_words: int | None = None  # on either side
    max_ratio: float | None = None  # words of the longer side over words of the shorter
    duplicates: bool = False  # drop all but one of equal pairs
    same_text: bool = False  # drop pairs whose sides are equal (untranslated)
    wrong_encoding: bool = False  # drop pairs with control characters, or UTF-8 that was read as something else
    wrong_script: bool = False  # drop pairs with a side mostly in another script or mostly not letters
    wrong_language: bool = False  # drop pairs with a side that is plainly in another language

    def __post_init__(self) -> None:
        require(self.max_subwords >= 1, f"cleaning.max_subwords must be at least 1, not {self.max_subwords}")
        require(self.min_words >= 1, f"cleaning.min_words must be at least 1, not {self.min_words}")
        require(
            self.max_words is None or self.max_words >= self.min_words,
            f"cleaning.max_words={self.max_words} is below cleaning.min_words={self.min_words}",
        )
        require(self.max_ratio is None or self.max_ratio >= 1, f"cleaning.max_ratio must be >= 1, not {self.max_ratio}")


@dataclass(frozen=True, kw_only=True)
class ShardConfig:
    """Pools and micro-batches: DESIGN of the data that training reads."""

    micro_batch_tokens: int = 3_125  # target tokens: an eighth of the paper's 25,000, the share of one of its GPUs
    pool_pairs: int = 100_000  # about so many pairs are sorted by length together, and stand in one file
    seed: int = 1  # which pairs share a pool, and the order of micro-batches
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)

    def __post_init__(self) -> None:
        require_seed("shards.seed", self.seed)
        require(
            self.micro_batch_tokens >= 16, f"shards.micro_batch_tokens must be >= 16, not {self.micro_batch_tokens}"
        )
        require(self.pool_pairs >= 1, f"shards.pool_pairs must be at least 1, not {self.pool_pairs}")


# --- train, average, translate, score, report --------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """A model and how it is trained: the whole identity of a training run beside its data."""

    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)


@dataclass(frozen=True, kw_only=True)
class AverageConfig:
    """Section 6.1: the last 5 checkpoints for base, 20 for big; 1 is no averaging (Table 3)."""

    last: int = 5  # checkpoints averaged into one model; big: 20; 1: none  (6.1)

    def __post_init__(self) -> None:
        require(self.last >= 1, f"average.last must be at least 1, not {self.last}")


@dataclass(frozen=True, kw_only=True)
class TranslateConfig:
    search: SearchConfig = field(default_factory=SearchConfig)


@dataclass(frozen=True, kw_only=True)
class ScoreConfig:
    """What to measure. `lines` is the known size of the test set; a different count is refused."""

    lines: int | None = None  # that the test set must have; none: as the corpus says
    bootstrap: int = 1_000  # resamples for the confidence interval
    seed: int = 12_345  # of the resamples

    def __post_init__(self) -> None:
        require(self.lines is None or self.lines >= 1, f"scoring.lines must be at least 1, not {self.lines}")
        require(self.bootstrap >= 1, f"scoring.bootstrap must be at least 1 (no interval), not {self.bootstrap}")
        require_seed("scoring.seed", self.seed)


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """`title` and the names of the rows, in the order in which the row's inputs are given."""

    title: str
    recipe: str
    rows: tuple[str, ...] = ("model",)
    table: int | None = None  # the table of the paper to stand beside
    samples: int = 20  # translations shown


# --- where: never part of a fingerprint --------------------------------------------------------------------------


Precision = Literal["fp32", "tf32", "bf16", "auto"]


@dataclass(frozen=True, kw_only=True)
class TrainResources:
    workers: int = 2
    min_workers: int | None = None  # with fewer than `workers` nodes left, go on with as few as this
    cpus_per_worker: float = 1
    gpus_per_worker: float = 0
    precision: Precision = "fp32"  # of products. tf32: a GPU's, in 10 bits; bf16: mixed precision; auto: bf16 where
    # the hardware of all workers multiplies it, else fp32
    micro_batches_per_pass: int | None = None  # packed, where the GPU can (A100 and newer, bf16); None: one, padded
    compile: bool = False  # packed micro-batches only
    sum_gradients: Literal["at_end", "overlapped", "overlapped_bf16"] = "at_end"  # of all workers; overlapped: a GPU
    # sums during the backward pass, the same bits; overlapped_bf16: half as much is sent, rounded
    copy_shards: bool = False  # to each node's disk while training reads them from an object store, as it has room
    max_failures: int = 3  # lost workers or nodes survived before the step is called failed

    def __post_init__(self) -> None:
        require(self.workers >= 1, f"train.workers must be at least 1, not {self.workers}")
        require(self.cpus_per_worker > 0, f"train.cpus_per_worker must be above 0, not {self.cpus_per_worker}")
        require(
            self.micro_batches_per_pass is None or self.micro_batches_per_pass >= 1,
            f"train.micro_batches_per_pass must be at least 1, not {self.micro_batches_per_pass}",
        )


@dataclass(frozen=True, kw_only=True)
class DataResources:
    tasks: int = 2  # pieces of work at once
    cpus_per_task: float = 1
    memory_gb: float = 2.0  # object store that data may fill
    downloads: int = 4  # at once


@dataclass(frozen=True, kw_only=True)
class TranslateResources:
    actors: int = 2
    cpus_per_actor: float = 1
    gpus_per_actor: float = 0
    batch_tokens: int = 2_000  # source tokens decoded together


@dataclass(frozen=True, kw_only=True)
class ServeResources:
    min_replicas: int = 1  # copies of each model
    max_replicas: int = 1  # under load; nodes for more than there are come from the cluster's autoscaler
    cpus_per_replica: float = 1
    gpus_per_replica: float = 0
    batch_tokens: int = 2_000  # source tokens decoded together
    batch_wait_s: float = 0.005  # how long the first of a batch waits for others
    queued_requests: int = 256  # that wait for a place in a replica; more get 503 and Retry-After

    def __post_init__(self) -> None:
        require(
            1 <= self.min_replicas <= self.max_replicas,
            f"serve.min_replicas must be from 1 to max_replicas ({self.max_replicas}), not {self.min_replicas}",
        )
        require(self.cpus_per_replica > 0, f"serve.cpus_per_replica must be above 0, not {self.cpus_per_replica}")
        require(self.batch_tokens >= 16, f"serve.batch_tokens must be at least 16, not {self.batch_tokens}")


@dataclass(frozen=True, kw_only=True)
class Resources:
    """A profile: where a recipe runs and how much of it at once. A recipe gives the same results on any of them."""

    name: str = "laptop"
    description: str = ""
    cpus: float | None = None  # what the profile expects of the cluster, for checks and estimates
    gpus: float | None = None
    device_tflops: float | None = None  # sustained, per GPU (or per CPU core), for estimates
    watts: float | None = None  # per GPU (or per CPU core), for estimates
    estimates_only: bool = False  # hardware that PyTorch no longer runs on
    train: TrainResources = field(default_factory=TrainResources)
    data: DataResources = field(default_factory=DataResources)
    translate: TranslateResources = field(default_factory=TranslateResources)
    serve: ServeResources = field(default_factory=ServeResources)
