"""Running text to the words of a treebank."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.parsing.penn_words import penn_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat sleeps.", "The cat sleeps ."),
        ('The cat (it\'s old) said "no."', "The cat -LRB- it 's old -RRB- said `` no . ''"),
        (
            "I can't, won't and cannot pay $3,000.50 at 10:30.",
            "I ca n't , wo n't and can not pay $ 3,000.50 at 10:30 .",
        ),
        ("The dogs' owner -- who's here? -- left.", "The dogs ' owner -- who 's here ? -- left ."),
        ("Mr. Smith et al. [3] say 5% of U.S. cells.", "Mr. Smith et al. -LSB- 3 -RSB- say 5 % of U.S. cells ."),
    ],
)
def test_words_are_cut_as_the_penn_treebank_cuts_them(text: str, words: str) -> None:
    assert penn_words(text) == words.split()
    assert penn_words(words) == words.split(), "what is cut already stays"


@given(st.text(max_size=40))
def test_no_word_holds_a_bracket_or_a_blank(text: str) -> None:
    for word in penn_words(text):
        assert word
        assert not set(word) & set("()")
        assert word.split() == [word]
