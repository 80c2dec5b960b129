"""Running text to the words of a treebank: punctuation, contractions and brackets as the Penn Treebank has them.

    The cat (it's old) said "no."      The cat -LRB- it 's old -RRB- said `` no . ''

What is cut into words already comes out as it went in.
"""

from __future__ import annotations

import re

BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r'(?:(?<=^)|(?<=[\s(\[{<]))"', " `` "),
        (r"[“„«]", " `` "),
        (r'["”»]', " '' "),
        (r"(?<!')''(?!')", " '' "),
        (r"``", " `` "),
        (r"\.\.\.|…", " ... "),
        (r"--+|—", " -- "),
        (r"([;?!])", r" \1 "),
        (r"([,:])(?!\d)", r" \1 "),  # 3,000 and 10:30 stay whole
        (r"([$£€#%&])(?=\s|\d|$)", r" \1 "),
        (r"[’]", "'"),
        (r"([^.\s])(\.)(?=[\])}\"'\s]*$)", r"\1 \2 "),  # the full stop that ends the sentence
        (r"(?i)(?<=\w)(n't)\b", r" \1"),
        (r"(?i)(?<=\w)('(?:s|m|d|re|ve|ll))\b", r" \1"),
        (r"(?<=s)(')(?=\s|$)", r" \1 "),
        (r"(?i)\b(can)(not)\b", r"\1 \2"),
    )
)


def penn_words(text: str) -> list[str]:
    """The words of a sentence."""
    for pattern, new in RULES:
        text = pattern.sub(new, text)
    for mark, name in BRACKETS.items():
        text = text.replace(mark, f" {name} ")
    return text.split()
