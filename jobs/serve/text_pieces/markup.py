"""HTML into text and what is around it. Tags, comments, scripts, code and attributes are kept as they are written.

Only the text between tags is translated, with its entities read (&amp; is &) and written again.
"""

from __future__ import annotations

import html
import re
from typing import NamedTuple

VERBATIM = ("script", "style", "pre", "code", "textarea", "svg", "math", "kbd", "samp")
MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<!\[CDATA\[.*?(?:\]\]>|\Z)"
    rf"|<(?P<verbatim>{'|'.join(VERBATIM)})\b[^>]{{0,1000}}?(?:/>|>.*?(?:</(?P=verbatim)\s*>|\Z))"
    r"|<(?P<kept>[a-z][a-z0-9-]*)\b(?=[^>]{0,500}\btranslate=[\"']?no\b)[^>]*>.*?(?:</(?P=kept)\s*>|\Z)"
    r"|<[!/?A-Za-z](?:[^<>\"']|\"[^\"]*\"|'[^']*')*>",
    re.DOTALL | re.IGNORECASE,
)


class Part(NamedTuple):
    """Some of a document: text (its entities read) to translate, or markup that is kept as it is."""

    text: str
    translate: bool


def parts(document: str) -> list[Part]:
    """The document in order."""
    found: list[Part] = []
    begin = 0
    for match in MARKUP.finditer(document):
        if match.start() > begin:
            found.append(Part(html.unescape(document[begin : match.start()]), True))
        found.append(Part(match.group(), False))
        begin = match.end()
    if begin < len(document):
        found.append(Part(html.unescape(document[begin:]), True))
    return found


def written(text: str) -> str:
    """Text as it stands in a document."""
    return html.escape(text, quote=False)
