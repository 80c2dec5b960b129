"""Language pairs as data: archives with their checksums, development and test sets, vocabulary. Adding a pair is adding an entry.

The files are those of WMT14 that the paper used (section 5.1). Sizes and checksums are of the files as they are served.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from jobs.configs import Archive, ArchivesCorpus, CorpusConfig, SacrebleuSet

STATMT = ("http://www.statmt.org", "https://www.statmt.org", "https://data.statmt.org")


@dataclass(frozen=True, kw_only=True)
class LanguagePair:
    name: str
    source: str
    target: str
    archives: tuple[Archive, ...]
    dev: CorpusConfig
    dev_lines: int
    test: CorpusConfig
    test_lines: int
    vocabulary_kind: Literal["bpe", "unigram"]
    vocabulary_size: int
    pairs_paper: int  # about so many, the paper says
    pairs_clean: int | None = None  # about so many after the usual cleaning


def archive(name: str, path: str, member: str, other: str, lines: int, size: int, sha256: str) -> Archive:
    """A WMT archive with the two members that hold English and `other`; `{}` in `member` is the language."""
    return Archive(
        name=name,
        urls=tuple(f"{host}/{path}" for host in STATMT),
        source_member=member.format("en"),
        target_member=member.format(other),
        lines=lines,
        bytes=size,
        sha256=sha256,
    )


EUROPARL = (657_632_379, "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7")
COMMON_CRAWL = (918_311_367, "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5")
NEWS = (80_418_416, "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485")
UN = (2_365_634_246, "29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47")
GIGA = (2_595_102_720, "3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a")
DEV = (38_654_961, "7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7")


def corpora(other: str, europarl: int, crawl: int, news: int) -> tuple[Archive, ...]:
    pair = f"{other}-en"
    training = "training-parallel"
    return (
        archive("europarl-v7", f"wmt13/{training}-europarl-v7.tgz", f"training/europarl-v7.{pair}.{{}}", other, europarl, *EUROPARL),
        archive("commoncrawl", f"wmt13/{training}-commoncrawl.tgz", f"commoncrawl.{pair}.{{}}", other, crawl, *COMMON_CRAWL),
        archive("news-commentary-v9", f"wmt14/{training}-nc-v9.tgz", f"training/news-commentary-v9.{pair}.{{}}", other, news, *NEWS),
    )  # fmt: skip


def newstest2013(other: str) -> ArchivesCorpus:
    """The paper's development set (Table 3), from the WMT19 pack of development sets."""
    name = f"newstest2013-{{}}.{{}}.sgm"
    pack = Archive(
        name="newstest2013",
        urls=tuple(f"{host}/wmt19/translation-task/dev.tgz" for host in reversed(STATMT)),
        source_member=f"dev/{name.format('src', 'en')}",
        target_member=f"dev/{name.format('ref', other)}",
        lines=3_000,
        bytes=DEV[0],
        sha256=DEV[1],
    )
    return ArchivesCorpus(archives=(pack,), source_language="en", target_language=other)


def newstest2014(other: str) -> SacrebleuSet:
    """The paper's test set (Table 2): the full one of 3,003 lines, not the filtered one."""
    return SacrebleuSet(name="wmt14/full", lines=3_003, source_language="en", target_language=other)


PAIRS: Mapping[str, LanguagePair] = {
    "en-de": LanguagePair(
        name="en-de",
        source="en",
        target="de",
        archives=corpora("de", 1_920_209, 2_399_123, 201_288),
        dev=newstest2013("de"),
        dev_lines=3_000,
        test=newstest2014("de"),
        test_lines=3_003,
        vocabulary_kind="bpe",
        vocabulary_size=37_000,
        pairs_paper=4_500_000,
    ),
    "en-fr": LanguagePair(
        name="en-fr",
        source="en",
        target="fr",
        archives=(
            *corpora("fr", 2_007_723, 3_244_152, 183_251),
            archive("un", "wmt13/training-parallel-un.tgz", "un/undoc.2000.fr-en.{}", "fr", 12_886_831, *UN),
            archive(
                "giga-fren", "wmt10/training-giga-fren.tar", "giga-fren.release2.fixed.{}.gz", "fr", 22_520_376, *GIGA
            ),
        ),  # fmt: skip
        dev=newstest2013("fr"),
        dev_lines=3_000,
        test=newstest2014("fr"),
        test_lines=3_003,
        vocabulary_kind="unigram",
        vocabulary_size=32_000,
        pairs_paper=36_000_000,
    ),
}
