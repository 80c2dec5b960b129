"""Which of a few languages a text is in: by its script, and by the commonest small words of each language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobs.shards.language_check import LETTER, SCRIPT_OF, SCRIPTS, SMALL_WORDS, WORD


def detect(text: str, languages: Sequence[str]) -> list[dict[str, Any]]:
    """The languages, likeliest first, with a confidence from 0 to 100 as LibreTranslate gives it; they sum to 100."""
    words = WORD.findall(text.lower())
    letters = max(1, len(LETTER.findall(text)))
    weights = {}
    for language in languages:
        in_script = len(SCRIPTS[SCRIPT_OF.get(language, "latin")].findall(text)) / letters
        small = sum(word in SMALL_WORDS.get(language, ()) for word in words) / max(1, len(words))
        weights[language] = in_script * (0.05 + small) + 1e-6
    whole = sum(weights.values())
    ranked = sorted(languages, key=lambda language: (-weights[language], language))
    return [{"confidence": round(100 * weights[language] / whole, 1), "language": language} for language in ranked]
