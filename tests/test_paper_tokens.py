"""The words that the paper's BLEU counted. The expected lines are those of Moses's own Perl tokeniser as of 2017."""

from __future__ import annotations

import pytest

from transformer.paper_tokens import paper_tokens

MOSES = [
    ("Der Zug kostet 3,50 Euro, nicht 1.234,5.", "Der Zug kostet 3,50 Euro , nicht 1.234,5 ."),
    ("Frau Dr. Keller wohnt z.B. in der Nr. 12 am Markt.", "Frau Dr. Keller wohnt z.B. in der Nr. 12 am Markt ."),
    ("Das war's... oder doch nicht?!", "Das war &apos; s ... oder doch nicht ? !"),
    ("Sie lesen Bücher, Hefte usw.", "Sie lesen Bücher , Hefte usw."),
    ("Um 18:30 Uhr (werktags).", "Um 18 : 30 Uhr ( werktags ) ."),
    ('"Na gut", sagte er & ging <leise> weg.', "&quot; Na gut &quot; , sagte er &amp; ging &lt; leise &gt; weg ."),
    ("Er kam am 3. Mai und blieb bis zum 10. Juni.", "Er kam am 3. Mai und blieb bis zum 10. Juni ."),
    ("50% sind weg; a,b,c bleiben.", "50 % sind weg ; a , b , c bleiben ."),
    ("[Hinweis] A|B gilt nicht.", "&#91; Hinweis &#93; A &#124; B gilt nicht ."),
]


@pytest.mark.parametrize(("line", "words"), MOSES)
def test_words_are_those_of_moses(line: str, words: str) -> None:
    assert paper_tokens(line, "de") == words


def test_compounds_are_split_at_their_hyphens() -> None:
    assert paper_tokens("die Nord-Süd-Linie", "de") == "die Nord ##AT##-##AT## Süd ##AT##-##AT## Linie"
    assert paper_tokens("vis-à-vis", "fr") == "vis ##AT##-##AT## à ##AT##-##AT## vis"  # à is two bytes
    assert paper_tokens("A-B-C", "de") == "A ##AT##-##AT## B-C"  # B is one, and belongs to the first match
    assert paper_tokens("hin- und her", "de") == "hin- und her"
    assert paper_tokens("a - b", "de") == "a - b"


@pytest.mark.parametrize("quoted", ["„Ja“", "“Ja”", "»Ja«", "«Ja»", '"Ja"'])
def test_every_kind_of_quotation_mark_is_the_same(quoted: str) -> None:
    assert paper_tokens(quoted, "de") == "&quot; Ja &quot;"


def test_apostrophes_and_ellipses_are_plain() -> None:
    assert paper_tokens("geht’s …", "de") == "geht &apos; s ..."


def test_french_apostrophes_stay_on_the_left() -> None:
    assert paper_tokens("l'eau d'été", "fr") == "l&apos; eau d&apos; été"


def test_an_empty_line_stays_empty() -> None:
    assert paper_tokens("", "de") == ""
    assert paper_tokens("  ", "de") == ""
