"""A translation that says the same again and again: found by its words, so that the service can say so."""

from __future__ import annotations

REPEATS = 4  # times a word or phrase follows itself before it is called a loop
LONGEST_PHRASE = 8  # words


def most_repeats(text: str) -> int:
    """How often the most repeated word or phrase of up to LONGEST_PHRASE words follows itself; 1 if nothing does."""
    words = text.split()
    most = 1 if words else 0
    for size in range(1, min(LONGEST_PHRASE, len(words) // 2) + 1):
        run = 0  # places in a row at which a word equals the one `size` before
        for at in range(size, len(words)):
            run = run + 1 if words[at] == words[at - size] else 0
            most = max(most, run // size + 1)
    longest = max(words, key=len, default="")
    return max(most, _repeats_inside(longest)) if len(longest) > 24 else most


def _repeats_inside(word: str) -> int:
    """The same for the letters of one long word, whose subwords may loop too."""
    most = 1
    for size in range(1, 9):
        run = 0
        for at in range(size, len(word)):
            run = run + 1 if word[at] == word[at - size] else 0
            most = max(most, run // size + 1)
    return most if most >= 2 * REPEATS else 1


def loops(source: str, translation: str) -> bool:
    """Whether the translation repeats itself REPEATS times or more, and more often than its source does."""
    repeats = most_repeats(translation)
    return repeats >= REPEATS and repeats > most_repeats(source)
