"""What must come through a translation unchanged: placeholders, addresses and numbers.

A translation is held against its source. Where something was lost, another of the n-best that kept it is taken, and
where there is none the sentence is translated in the parts around what must stay (whole_text.py).
"""

from __future__ import annotations

import re
from collections import Counter

PLACEHOLDER = re.compile(
    r"https?://[^\s<>\"']*[^\s<>\"'.,;:!?)]"  # addresses
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|\{\{[^{}\n]{0,64}\}\}|\$?\{[^{}\n]{0,64}\}"  # {{name}}, ${name}, {0}
    r"|%\(\w{1,64}\)[sdifgr]|%(?:\d+\$)?[-+0#]*\d*(?:\.\d+)?[sdifgxr@](?!\w)"  # %(name)s, %1$s, %.2f
    r"|\$[A-Za-z_]\w*|@[A-Za-z_]\w+|#\w+"  # $NAME, @name, #tag
    r"|`[^`\n]{1,200}`|\[\[[^\[\]\n]{1,64}\]\]|</?[A-Za-z][^<>\n]{0,200}>"
)
NUMBER = re.compile(r"\d(?:[\d.,:/'\u202f\u00a0-]*\d)?")


def placeholders(text: str) -> list[str]:
    return [match.group() for match in PLACEHOLDER.finditer(text)]


def numbers(text: str) -> list[str]:
    """The numbers outside of placeholders by their digits alone: 1,000.5 is 1.000,5 in German."""
    bare = PLACEHOLDER.sub(" ", text)
    return ["".join(filter(str.isdigit, match.group())) for match in NUMBER.finditer(bare)]


def keeps(source: str, translation: str) -> bool:
    """Whether every placeholder and every number of the source stands in the translation, as often as there."""
    if Counter(placeholders(source)) - Counter(placeholders(translation)):
        return False
    return not Counter(numbers(source)) - Counter(numbers(translation))


def has_protected(text: str) -> bool:
    return PLACEHOLDER.search(text) is not None or NUMBER.search(text) is not None


def parts(text: str) -> list[tuple[str, bool]]:
    """The text in order: what is between the protected things (True: translate it), and they themselves."""
    spans = [match.span() for match in PLACEHOLDER.finditer(text)]
    bare = list(text)
    for start, end in spans:
        bare[start:end] = " " * (end - start)
    spans = sorted([*spans, *(match.span() for match in NUMBER.finditer("".join(bare)))])
    found, begin = [], 0
    for start, end in spans:
        found += [(text[begin:start], True), (text[start:end], False)]
        begin = end
    return [(part, translate) for part, translate in [*found, (text[begin:], True)] if part]
