"""Which pairs training never sees, and why. Pure functions on text; each is switched by a field of CleaningConfig.

The paper drops nothing but over-long pairs. What else is dropped here is what the field drops from WMT's web text:
untranslated lines, lines in another language or script, broken encodings, lengths that cannot be translations.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.configs import CleaningConfig
from jobs.shards.language_check import looks_like_another_language, looks_like_another_script, looks_wrongly_encoded

SAMPLES = 5  # kept of each reason, for the user to look at
PUNCTUATION = str.maketrans(
    {
        **dict.fromkeys("“”„‟«»″〝〞＂", '"'),
        **dict.fromkeys("‘’‚‛‹›′`´＇", "'"),
        **dict.fromkeys("‐‑‒–—―−﹘－", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2009\u200a\u202f\u3000", " "),
        "…": "...",
    }
)

Refuses = Callable[[str, str], bool]  # of a pair's two sides


@dataclass
class Dropped:
    """What was dropped, by reason: how many, and the pairs with the smallest keys as a sample that no order changes."""

    counts: Counter[str] = field(default_factory=Counter)
    samples: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)

    def add(self, reason: str, key: int, source: str, target: str) -> None:
        self.counts[reason] += 1
        self._keep(reason, [(key, source[:1000], target[:1000])])

    def merge(self, other: Dropped) -> None:
        self.counts.update(other.counts)
        for reason, samples in other.samples.items():
            self._keep(reason, samples)

    def _keep(self, reason: str, samples: Sequence[tuple[int, str, str]]) -> None:
        kept = self.samples.setdefault(reason, [])
        if len(kept) < SAMPLES or min(samples) < kept[-1]:
            self.samples[reason] = sorted({*kept, *samples})[:SAMPLES]

    def as_json(self) -> dict[str, Any]:
        return {"counts": self.counts, "samples": self.samples}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Dropped:
        samples = {reason: [(key, s, t) for key, s, t in kept] for reason, kept in saved["samples"].items()}
        return cls(Counter(saved["counts"]), samples)


def tidy(text: str, config: CleaningConfig) -> str:
    """The text as training sees it."""
    if config.normalise_unicode:
        text = unicodedata.normalize("NFC", " ".join(text.split()))
    if config.normalise_punctuation:
        text = text.translate(PUNCTUATION)
    return text


def refusals(config: CleaningConfig, source_language: str, target_language: str) -> list[tuple[str, Refuses]]:
    """The reasons to drop a pair that the config asks for, cheap ones first. A pair is counted under the first."""
    reasons: list[tuple[str, Refuses]] = [("empty", is_empty)]
    if config.same_text:
        reasons.append(("same text", lambda source, target: source == target))
    if config.min_words > 1:
        reasons.append(("too few words", lambda source, target: min(words(source, target)) < config.min_words))
    if (most := config.max_words) is not None:
        reasons.append(("too many words", lambda source, target: max(words(source, target)) > most))
    if (ratio := config.max_ratio) is not None:
        reasons.append(("length ratio", lambda source, target: length_ratio(source, target) > ratio))
    if config.wrong_encoding:
        reasons.append(("wrong encoding", either(looks_wrongly_encoded)))
    languages = source_language, target_language
    if config.wrong_script:
        reasons.append(("wrong script", by_language(looks_like_another_script, *languages)))
    if config.wrong_language:
        reasons.append(("wrong language", by_language(looks_like_another_language, *languages)))
    return reasons


def is_empty(source: str, target: str) -> bool:
    return not source or not target or source.isspace() or target.isspace()


def words(source: str, target: str) -> tuple[int, int]:
    return len(source.split()), len(target.split())


def length_ratio(source: str, target: str) -> float:
    """Words of the longer side over words of the shorter."""
    shorter, longer = sorted(words(source, target))
    return longer / max(shorter, 1)


def either(refuses: Callable[[str], bool]) -> Refuses:
    return lambda source, target: refuses(source) or refuses(target)


def by_language(refuses: Callable[[str, str], bool], source_language: str, target_language: str) -> Refuses:
    return lambda source, target: refuses(source, source_language) or refuses(target, target_language)
