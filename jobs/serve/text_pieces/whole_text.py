"""A whole text translated: cut into sentences, translated, joined again with everything between them kept.

Line breaks, empty lines, tags, placeholders and numbers come through; a translation that loops is reported.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jobs.serve.text_pieces import protected
from jobs.serve.text_pieces.inline_tags import with_tags, word_links
from jobs.serve.text_pieces.loops import loops
from jobs.serve.text_pieces.put_back import put_back, taken_out
from jobs.serve.text_pieces.sentences import LETTER, LONGEST, Piece, pieces
from jobs.serve.text_pieces.spans import Span, spans
from transformer.config import SearchConfig
from transformer.translator import Alternative

Alternatives = tuple[Alternative, ...]
TranslateSentences = Callable[[Sequence[str], SearchConfig], Awaitable[list[Alternatives]]]
AttentionOf = Callable[[str, str], Awaitable[dict[str, Any]]]  # a source and its translation: their attention


@dataclass(frozen=True)
class SentenceResult:
    """A sentence and its translations, best first. `repaired`: a placeholder or number was lost and put back.

    `trees`: they are trees, in which one bracket may well follow another four times.
    """

    source: str
    alternatives: Alternatives
    repaired: bool = False
    trees: bool = False

    @property
    def loops(self) -> bool:
        return not self.trees and loops(self.source, self.alternatives[0].text)


@dataclass(frozen=True)
class TextResult:
    """A translated text: as a whole, its further versions, its sentences, and what a reader should know."""

    text: str
    alternatives: tuple[str, ...] = ()
    sentences: tuple[SentenceResult, ...] = ()
    warnings: tuple[str, ...] = field(default=())


def clean(text: str) -> str:
    """What a model can read: half surrogate pairs, which JSON may hold, and NUL become U+FFFD."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").replace("\x00", "\ufffd")


def with_protected_kept(source: str, alternatives: Alternatives) -> Alternatives | None:
    """The alternatives, those first that keep the placeholders and numbers of the source; None if none of them does."""
    good = [each for each in alternatives if protected.keeps(source, each.text)]
    return tuple(good + [each for each in alternatives if each not in good]) if good else None


async def translate_sentences(
    sentences: Sequence[str], search: SearchConfig, translate: TranslateSentences, attention: AttentionOf
) -> list[SentenceResult]:
    """Each sentence's translations; where a placeholder or a number was lost, it is put back."""
    # with something to protect, every hypothesis of the beam is a chance to find it kept
    found: list[Alternatives] = [()] * len(sentences)
    for group in (False, True):
        places = [at for at, text in enumerate(sentences) if protected.has_protected(text) is group]
        how = replace(search, n_best=search.beam) if places and group else search
        answers = await translate([sentences[at] for at in places], how) if places else []
        for at, alternatives in zip(places, answers, strict=True):
            found[at] = alternatives
    results = []
    for source, alternatives in zip(sentences, found, strict=True):
        kept = with_protected_kept(source, alternatives)
        if kept is None:
            results.append(SentenceResult(source, (await _repaired(source, translate, attention),), repaired=True))
        else:
            results.append(SentenceResult(source, kept[: search.n_best]))
    return results


async def _repaired(source: str, translate: TranslateSentences, attention: AttentionOf) -> Alternative:
    """A sentence translated without its placeholders and numbers, which are put back where attention has them."""
    bare, units = taken_out(source)
    if LETTER.search(bare) and len(bare) <= LONGEST:
        ((best, *_),) = await translate([bare], SearchConfig())
        if best.text.strip():
            text = put_back(best.text, word_links(await attention(bare, best.text)), units)
            if protected.keeps(source, text):
                return Alternative(text, best.score, best.tokens)
    return await _around(source, translate)


async def _around(source: str, translate: TranslateSentences) -> Alternative:
    """A sentence translated in the parts around its placeholders and numbers."""
    cut = [
        (piece.text, piece.translate)
        for part, free in protected.parts(source)
        for piece in (pieces(part) if free else [Piece(part, False)])
    ]
    answers = iter(await translate([text for text, free in cut if free], SearchConfig()))
    best = [next(answers)[0] if free else Alternative(text, 0.0, 0) for text, free in cut]
    return Alternative(
        "".join(each.text for each in best), sum(each.score for each in best), sum(each.tokens for each in best)
    )


async def translate_text(
    text: str, html: bool, search: SearchConfig, translate: TranslateSentences, attention: AttentionOf
) -> TextResult:
    """Translate a text; `search.n_best` versions of it, the k-th made of each sentence's k-th best."""
    parts = spans(clean(text), html)
    results = await translate_sentences([part.text for part in parts if part.translate], search, translate, attention)
    versions = [await joined(parts, results, translate, attention, version) for version in range(search.n_best)]
    distinct = tuple(version for version in dict.fromkeys(versions[1:]) if version != versions[0])
    return TextResult(versions[0], distinct, tuple(results), warnings(results))


async def joined(
    parts: Sequence[Span],
    results: Sequence[SentenceResult],
    translate: TranslateSentences,
    attention: AttentionOf,
    version: int = 0,
) -> str:
    """The text again, each sentence by its `version`-th translation, or its best where it has fewer."""
    found = iter(results)
    out = []
    for part in parts:
        if not part.translate:
            out.append(part.written(part.text))
            continue
        alternatives = next(found).alternatives
        chosen = alternatives[version if version < len(alternatives) else 0].text
        out.append(await _tagged(part, chosen, translate, attention) if part.tags else part.written(chosen))
    return "".join(out)


async def _tagged(part: Span, translation: str, translate: TranslateSentences, attention: AttentionOf) -> str:
    """A sentence of HTML with the tags inside it: where attention puts them, or between parts translated alone."""
    links = word_links(await attention(part.text, translation)) if translation.strip() else []
    whole = with_tags(part.text, part.tags, translation, links, part.written)
    if whole is not None:
        return whole
    places = [0, *(tag.place for tag in part.tags), len(part.text)]
    texts = [part.text[begin:end] for begin, end in itertools.pairwise(places)]
    cut = [pieces(text) for text in texts]
    answers = iter(await translate([each.text for some in cut for each in some if each.translate], SearchConfig()))
    written = [
        "".join(part.written(next(answers)[0].text if each.translate else each.text) for each in some) for some in cut
    ]
    tags = [tag.written for tag in part.tags]
    return "".join(text + tag for text, tag in zip(written, [*tags, ""], strict=True))


def warnings(results: Sequence[SentenceResult]) -> tuple[str, ...]:
    """What a reader should know of the sentences."""
    found = []
    for number, result in enumerate(results, start=1):
        if result.loops:
            found.append(f"The translation of sentence {number} repeats itself: the model was caught in a loop.")
        if result.repaired:
            found.append(f"The model lost a placeholder or number of sentence {number}, and it was put back.")
    return tuple(found)
