"""Text through the service: nothing but sentences changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.serve.text_pieces.detection import detect
from jobs.serve.text_pieces.inline_tags import Tag, with_tags, word_links
from jobs.serve.text_pieces.loops import loops, most_repeats
from jobs.serve.text_pieces.markup import parts, written
from jobs.serve.text_pieces.protected import keeps
from jobs.serve.text_pieces.protected import parts as protected_parts
from jobs.serve.text_pieces.put_back import put_back, taken_out
from jobs.serve.text_pieces.sentences import LONGEST, pieces
from jobs.serve.text_pieces.spans import spans
from jobs.serve.text_pieces.whole_text import translate_text
from transformer.config import SearchConfig
from transformer.translator import Alternative

ODD = st.text(alphabet=st.one_of(st.sampled_from(" .!?\n\r\t\u2028,;<>&{}%1aÄ。\u00a0"), st.characters(codec="utf-8")))


async def shout(sentences: Sequence[str], search: SearchConfig) -> list[Any]:
    """A translation that can be told from its source."""
    return [tuple(Alternative(text.upper(), -1.0, 1) for _ in range(search.n_best)) for text in sentences]


async def forget(sentences: Sequence[str], search: SearchConfig) -> list[Any]:
    """A translation that loses everything that is not a letter."""
    return [(Alternative("".join(c for c in text.upper() if c.isalpha() or c == " "), -1.0, 1),) for text in sentences]


async def in_order(source: str, target: str) -> dict[str, Any]:
    """Attention of word n to word n."""
    words, spoken = [f"▁{word}" for word in source.split()], [f"▁{word}" for word in target.split()]
    rows = [[1000 if row == column else 0 for column in range(len(words) + 1)] for row in range(len(spoken) + 1)]
    return {"source": [*words, "</s>"], "target": ["<s>", *spoken], "cross": [[rows]]}


def translated(text: str, html: bool = False, by: Any = shout) -> str:
    return asyncio.run(translate_text(text, html, SearchConfig(), by, in_order)).text


def sentences(text: str) -> list[str]:
    return [piece.text for piece in pieces(text) if piece.translate]


@given(ODD)
@settings(max_examples=300, deadline=None)
def test_pieces_join_to_the_text_again(text: str) -> None:
    assert "".join(piece.text for piece in pieces(text)) == text
    assert all(len(piece.text) <= LONGEST for piece in pieces(text) if piece.translate)


@given(ODD)
@settings(max_examples=300, deadline=None)
def test_protected_parts_join_to_the_text_again(text: str) -> None:
    assert "".join(part for part, _ in protected_parts(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Miller is here. He waits.", ["Dr. Miller is here.", "He waits."]),
        ("It costs 3.50 euros. Good.", ["It costs 3.50 euros.", "Good."]),
        ("At 5 p.m. we go, e.g. Home is far.", ["At 5 p.m. we go, e.g. Home is far."]),
        ("He said \"Go.\" She went.", ["He said \"Go.\"", "She went."]),
        ("Am 3. Mai kam er. Dann ging er.", ["Am 3. Mai kam er.", "Dann ging er."]),
        ("J. Smith wrote it.", ["J. Smith wrote it."]),
        ("他来了。她走了。", ["他来了。", "她走了。"]),
        ("wait ... what", ["wait ... what"]),
    ],
)  # fmt: skip
def test_sentences_are_found(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_line_breaks_and_what_has_no_letters_stay() -> None:
    text = "One line.\r\n\r\n\n  Indented line. And more.\n---\n12 %\n\tEnd"
    assert translated(text) == text.upper()
    assert sentences("--- 12 % :-)") == []


def test_a_sentence_without_end_is_cut_at_words() -> None:
    text = "word " * 300
    assert len(sentences(text)) > 1
    assert all(not sentence.startswith("ord") for sentence in sentences(text))
    assert translated(text) == text.upper()


@pytest.mark.parametrize(
    "text",
    [
        "Hello {name}, you have %d messages.",
        "See https://example.org/a?b=c, then write to me@example.org.",
        "Use `code` and %(count)s of {{ total }} at 1,234.5 euros.",
    ],
)
def test_placeholders_and_numbers_survive_a_model_that_loses_them(text: str) -> None:
    assert keeps(text, translated(text, by=forget))


@pytest.mark.parametrize(
    ("text", "bare", "expected"),
    [
        ("The 3 cats sleep.", "The cats sleep.", "THE 3 CATS SLEEP"),
        ("Hello {name}, you have %d messages.", "Hello, you have messages.", "HELLO {name} YOU HAVE %d MESSAGES"),
        ("Write to me@example.org!", "Write to!", "WRITE TO me@example.org"),
        ("12 cats (about 30%) sleep", "cats (about) sleep", "12 CATS ABOUT 30% SLEEP"),
    ],
)
def test_what_is_lost_is_put_back_at_its_place(text: str, bare: str, expected: str) -> None:
    assert taken_out(text)[0] == bare
    assert translated(text, by=forget) == expected


def test_what_is_put_back_follows_the_words_that_attention_moves() -> None:
    bare, units = taken_out("we see 3 cats at {place}.")
    assert bare == "we see cats at."
    assert put_back("katzen sehen wir bei.", [2, 1, 0, 3], units) == "3 katzen sehen wir bei {place}."


@given(ODD)
@settings(max_examples=200, deadline=None)
def test_nothing_that_was_taken_out_is_lost(text: str) -> None:
    bare, units = taken_out(text)
    assert keeps(text, put_back(bare, range(len(bare.split())), units))


def test_a_number_in_another_format_is_the_same_number() -> None:
    assert keeps("It costs 1,000.5 euros.", "Es kostet 1.000,5 Euro.")
    assert not keeps("It costs 1,000.5 euros.", "Es kostet 1.000 Euro.")
    assert not keeps("{a} and {a}", "{a}")


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("no", "nein nein nein nein", True),
        ("no", "das Haus und das Haus und das Haus und das Haus und", True),
        ("very very very very big", "sehr sehr sehr sehr groß", False),
        ("The cat sleeps.", "Die Katze schläft.", False),
        ("x", "ha" * 20, True),
    ],
)
def test_a_loop_is_found_unless_the_source_has_it(source: str, translation: str, expected: bool) -> None:
    assert loops(source, translation) is expected


def test_repeats_are_counted() -> None:
    assert [most_repeats(text) for text in ("", "a", "a b a b a b", "a b c")] == [0, 1, 3, 1]


def test_html_keeps_its_tags_scripts_and_entities() -> None:
    document = '<p class="x">One &amp; two.</p><!-- no --><script>let a = "text";</script><pre>kept</pre>\n<br>Three<'
    found = translated(document, html=True)
    assert found == (
        '<p class="x">ONE &amp; TWO.</p><!-- no --><script>let a = "text";</script><pre>kept</pre>\n<br>THREE&lt;'
    )
    assert translated('<p translate="no">Kept.</p>', html=True) == '<p translate="no">Kept.</p>'


@given(ODD)
@settings(max_examples=200, deadline=None)
def test_markup_parts_join_to_the_document_again(document: str) -> None:
    document = document.replace("&", "")  # entities are read
    assert "".join(part.text for part in parts(document)) == document
    assert "".join(span.text for span in spans(document, html=True) if not span.tags).count("<") <= document.count("<")


def test_inline_tags_stay_around_their_words() -> None:
    document = 'The <b>old</b> cat <a href="x">sleeps <i>well</i></a>. <b>All of it.</b>'
    assert translated(document, html=True) == document.replace("The", "THE").replace("old", "OLD").replace(
        "cat", "CAT"
    ).replace("sleeps", "SLEEPS").replace("well", "WELL").replace("All of it.", "ALL OF IT.")


def test_tags_follow_the_words_that_attention_moves() -> None:
    maps = {
        "source": ["▁the", "▁old", "▁cat", "</s>"],
        "target": ["<s>", "▁cat", "a", "▁old", "▁the"],
        "cross": [[[[0, 0, 9, 0], [0, 0, 9, 0], [0, 9, 0, 0], [9, 0, 0, 0], [0, 0, 0, 9]]]],
    }
    assert word_links(maps) == [2, 1, 0]
    tags = [Tag("<b>", 4), Tag("</b>", 7)]
    assert with_tags("the old cat", tags, "cata old the", [2, 1, 0], written) == "cata <b>old</b> the"
    crossing = [Tag("<b>", 0), Tag("</b>", 7), Tag("<i>", 8), Tag("</i>", 11)]
    assert with_tags("the old cat", crossing, "a b c d", [0, 2, 1, 0], written) is not None
    nested = [Tag("<b>", 0), Tag("<i>", 4), Tag("</i>", 7), Tag("</b>", 11)]
    assert with_tags("the old cat", nested, "a b c", [2, 1, 0], written) == "<b>a <i>b</i> c</b>"


def test_languages_are_told_apart() -> None:
    assert detect("The cat is in the house.", ["de", "en"])[0]["language"] == "en"
    assert detect("Die Katze ist in dem Haus.", ["de", "en"])[0]["language"] == "de"
    assert detect("кошка", ["de", "ru"])[0]["language"] == "ru"
    assert sum(found["confidence"] for found in detect("", ["de", "en", "fr"])) == pytest.approx(100, abs=0.5)
