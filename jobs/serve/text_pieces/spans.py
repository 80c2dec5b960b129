"""A text in order: sentences to translate, and what stands between them; of HTML with the tags inside each sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jobs.serve.text_pieces import markup
from jobs.serve.text_pieces.inline_tags import Tag, is_inline
from jobs.serve.text_pieces.sentences import pieces


@dataclass(frozen=True)
class Span:
    """Some of a text: kept as it is, or a sentence that is translated. `html`: written with entities.

    `tags` are those inside the sentence, each with its place in `text`, which does not hold them.
    """

    text: str
    translate: bool
    html: bool = False
    tags: tuple[Tag, ...] = ()

    def written(self, text: str) -> str:
        return markup.written(text) if self.html else text


def spans(text: str, html: bool) -> list[Span]:
    """The text in order. Of plain text, the texts of all spans joined give it again."""
    if not html:
        return [Span(piece.text, piece.translate) for piece in pieces(text)]
    found: list[Span] = []
    run: list[markup.Part] = []
    for part in markup.parts(text):
        if part.translate or is_inline(part.text):
            run.append(part)
        else:
            found += [*_spans_of_run(run), Span(part.text, False)]
            run = []
    return [*found, *_spans_of_run(run)]


def _spans_of_run(run: list[markup.Part]) -> Iterator[Span]:
    """Text and inline tags between two other tags: cut into sentences as if there were no tags."""
    whole, tags = "", []
    for part in run:
        if part.translate:
            whole += part.text
        else:
            tags.append(Tag(part.text, len(whole)))
    begin = 0
    for piece in pieces(whole):
        end = begin + len(piece.text)
        inside = []
        while tags and _belongs(tags[0], begin, end):
            inside.append(tags.pop(0))
        if piece.translate:
            yield Span(piece.text, True, True, tuple(Tag(tag.written, tag.place - begin) for tag in inside))
        else:
            at = begin
            for tag in inside:
                yield Span(whole[at : tag.place], False, True)
                yield Span(tag.written, False)
                at = tag.place
            yield Span(whole[at:end], False, True)
        begin = end
    yield from (Span(tag.written, False) for tag in tags)


def _belongs(tag: Tag, begin: int, end: int) -> bool:
    """A closing tag at the end of a piece belongs to it, an opening one to the next."""
    return tag.place <= end if tag.written.startswith("</") else tag.place < end
