"""Language pairs as data: archives with checksums, development and test sets, vocabulary, and what cleaning leaves.

The files are those of WMT14 that the paper used (section 5.1); sizes, checksums and line counts are of the files as
they are served. Adding a pair is adding an entry to PAIRS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from jobs.configs import Archive, ArchivesCorpus, CleaningConfig, Corpus, SacrebleuSet

STATMT = ("http://www.statmt.org", "https://www.statmt.org", "https://data.statmt.org")

Profile = Literal["paper", "clean"]
VocabularyKind = Literal["bpe", "unigram"]
PROFILES: Mapping[Profile, CleaningConfig] = {
    "paper": CleaningConfig(),  # nothing but empty and over-long pairs goes
    "clean": CleaningConfig(
        max_words=250, max_ratio=1.5, duplicates=True, same_text=True, wrong_script=True, wrong_language=True
    ),
}


@dataclass(frozen=True, kw_only=True)
class Expected:
    """How many pairs others report where we would land: a figure far from it means that something went wrong."""

    pairs: int
    within: float  # of it, as a share
    why: str


@dataclass(frozen=True, kw_only=True)
class LanguagePair:
    name: str
    source: str
    target: str
    archives: tuple[Archive, ...]
    dev: Corpus
    dev_lines: int
    test: Corpus
    test_lines: int
    vocabulary_kind: VocabularyKind
    vocabulary_size: int
    pairs_paper: int  # about so many, the paper says
    expected: Mapping[Profile, Expected]  # after each of PROFILES

    @property
    def lines(self) -> int:
        """In all archives together."""
        return sum(archive.lines or 0 for archive in self.archives)


class WmtFile(NamedTuple):
    """A file of WMT's. In `member`, {pair} is de-en and {side} a language of it."""

    name: str
    path: str
    member: str
    bytes: int
    sha256: str


EUROPARL = WmtFile(
    "europarl-v7",
    "wmt13/training-parallel-europarl-v7.tgz",
    "training/europarl-v7.{pair}.{side}",
    657_632_379,
    "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
)
COMMON_CRAWL = WmtFile(
    "commoncrawl",
    "wmt13/training-parallel-commoncrawl.tgz",
    "commoncrawl.{pair}.{side}",
    918_311_367,
    "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
)
NEWS_COMMENTARY = WmtFile(
    "news-commentary-v9",
    "wmt14/training-parallel-nc-v9.tgz",
    "training/news-commentary-v9.{pair}.{side}",
    80_418_416,
    "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
)
UNITED_NATIONS = WmtFile(
    "un",
    "wmt13/training-parallel-un.tgz",
    "un/undoc.2000.{pair}.{side}",
    2_365_634_246,
    "29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47",
)
GIGA = WmtFile(
    "giga-fren",
    "wmt10/training-giga-fren.tar",
    "giga-fren.release2.fixed.{side}.gz",
    2_595_102_720,
    "3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a",
)
NEWSTEST_2013 = WmtFile(  # in the WMT19 pack of development sets, whose checksum is known
    "newstest2013",
    "wmt19/translation-task/dev.tgz",
    "dev/newstest2013-{role}.{side}.sgm",
    38_654_961,
    "7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7",
)


def archive(file: WmtFile, other: str, lines: int) -> Archive:
    """A file of WMT's with its English and its other member."""

    def member(side: str, role: str) -> str:
        return file.member.format(pair=f"{other}-en", side=side, role=role)

    return Archive(
        name=file.name,
        urls=tuple(f"{host}/{file.path}" for host in STATMT),
        source_member=member("en", "src"),
        target_member=member(other, "ref"),
        lines=lines,
        bytes=file.bytes,
        sha256=file.sha256,
    )


def newstest2013(other: str) -> ArchivesCorpus:
    """The paper's development set (Table 3)."""
    pack = archive(NEWSTEST_2013, other, 3_000)
    return ArchivesCorpus(archives=(pack,), source_language="en", target_language=other)


def newstest2014(other: str) -> SacrebleuSet:
    """The paper's test set (Table 2): the full one of 3,003 lines, not the filtered one."""
    return SacrebleuSet(name="wmt14/full", lines=3_003, source_language="en", target_language=other)


PAIRS: Mapping[str, LanguagePair] = {
    "en-de": LanguagePair(
        name="en-de",
        source="en",
        target="de",
        archives=(
            archive(EUROPARL, "de", 1_920_209),
            archive(COMMON_CRAWL, "de", 2_399_123),
            archive(NEWS_COMMENTARY, "de", 201_288),
        ),
        dev=newstest2013("de"),
        dev_lines=3_000,
        test=newstest2014("de"),
        test_lines=3_003,
        vocabulary_kind="bpe",
        vocabulary_size=37_000,
        pairs_paper=4_500_000,
        expected={
            "paper": Expected(pairs=4_508_785, within=0.01, why="all 4,520,620 lines but those with an empty side"),
            "clean": Expected(pairs=4_200_000, within=0.1, why="3.96M with the ratio after BPE, 4.5M with none"),
        },
    ),
    "en-fr": LanguagePair(
        name="en-fr",
        source="en",
        target="fr",
        archives=(
            archive(EUROPARL, "fr", 2_007_723),
            archive(COMMON_CRAWL, "fr", 3_244_152),
            archive(NEWS_COMMENTARY, "fr", 183_251),
            archive(UNITED_NATIONS, "fr", 12_886_831),
            archive(GIGA, "fr", 22_520_376),
        ),
        dev=newstest2013("fr"),
        dev_lines=3_000,
        test=newstest2014("fr"),
        test_lines=3_003,
        vocabulary_kind="unigram",
        vocabulary_size=32_000,
        pairs_paper=36_000_000,
        expected={
            "paper": Expected(pairs=40_836_715, within=0.01, why="all 40,842,333 lines but those with an empty side"),
            "clean": Expected(pairs=35_509_317, within=0.1, why="at most 175 words, ratio at most 1.5"),
        },
    ),
}
