"""The demo language as a corpus: the laws that make it a fair test."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest

from jobs.corpora.demo.combinations import (
    ACTING,
    ADJECTIVES_OF,
    ASKING,
    COMPARATIVES,
    GIVING,
    GOING,
    OBJECTS_OF,
    PLACING,
    RIDING,
    TELLING,
    TRANSITIVE,
    TRYING,
)
from jobs.corpora.demo.grammar import (
    FIRST,
    SEVERAL,
    THIRD,
    conjugate,
)
from jobs.corpora.demo.language import SENTENCES, Pair, pair, pairs, split_of
from jobs.corpora.demo.lexicon import ALL_NOUNS
from jobs.corpora.demo.shown import SHOWN

ALL_VERBS = (
    [verb for table in (TRANSITIVE, ACTING) for verbs in table.values() for verb in verbs]
    + [*GIVING, *PLACING, *GOING, *RIDING, *TELLING, *ASKING, *TRYING]
)  # fmt: skip


GOLDEN = {  # read by a person
    4: (
        "When his customer put the old cup on the bed, Emma came back.",
        "Als sein Kunde die alte Tasse auf das Bett gestellt hat, ist Emma zurückgekommen.",
    ),
    7: (
        "The spoon that the fathers found is on my shelf, but it is not new.",
        "Der Löffel, den die Väter gefunden haben, liegt auf meinem Regal, aber er ist nicht neu.",
    ),
    10: (
        "Her woman asks where Thomas wanted to change the money.",
        "Ihre Frau fragt, wo Thomas das Geld wechseln wollte.",
    ),
    14: ("After they had closed a door, Paul laughed.", "Nachdem sie eine Tür zugemacht hatten, hat Paul gelacht."),
    20: (
        "A kitchen that I dreamed of is empty, but it is not quiet.",
        "Eine Küche, von der ich geträumt habe, ist leer, aber sie ist nicht ruhig.",
    ),
    38: (
        "Her quiet judge stole their woman's jacket although he had it.",
        "Ihr ruhiger Richter hat die Jacke ihrer Frau gestohlen, obwohl er sie hatte.",
    ),
    44: (
        "Although the boy repairs the doctor's walls, he always brings the coffee to our rich nurse.",
        "Obwohl der Junge die Wände des Arztes repariert, bringt er immer unserer reichen Krankenschwester den Kaffee.",
    ),
}


@pytest.fixture(scope="module")
def corpus() -> list[Pair]:
    return list(pairs(1, "train", 0, 6_000))


def test_a_translation_is_a_function_of_its_sentence(corpus: list[Pair]) -> None:
    said: dict[str, str] = {}
    for source, target, _ in [*corpus, *pairs(2, "train", 0, 4_000)]:
        assert said.setdefault(source, target) == target


@pytest.mark.slow
def test_a_translation_is_a_function_of_its_sentence_at_length() -> None:
    said: dict[str, str] = {}
    for source, target, _ in pairs(3, "train", 0, 200_000):
        assert said.setdefault(source, target) == target


def test_sentences_are_well_formed(corpus: list[Pair]) -> None:
    shape = re.compile(r"[A-ZÄÖÜ][a-zäöüß']*(,? [A-ZÄÖÜa-zäöüß']+)*[.?]")
    for source, target, _ in corpus:
        assert shape.fullmatch(source), source
        assert shape.fullmatch(target), target
        assert source[-1] == target[-1]
    lengths = [len(pair.source.split()) for pair in corpus]
    assert 8 <= sum(lengths) / len(lengths) <= 16
    assert max(lengths) <= 40


def test_subordinate_clauses_end_in_a_finite_verb(corpus: list[Pair]) -> None:
    """A law of the output, not of how it is made: after weil, dass, ob and the like the finite verb is last."""
    finite = {
        conjugate(verb, person, tense).last.split()[-1]
        for verb in ALL_VERBS
        for person in (FIRST, THIRD, SEVERAL)
        for tense in ("present", "past", "pluperfect", "future", "can", "must", "must not", "should", "want", "could",
                      "had to", "wanted")
    }  # fmt: skip
    finite |= {
        "bin",
        "ist",
        "sind",
        "war",
        "waren",
        "steht",
        "stehen",
        "stand",
        "standen",
        "liegt",
        "liegen",
        "lag",
        "lagen",
    }
    found = 0
    for _, target, _ in corpus:
        for clause in re.findall(
            r"(?:^|, )(?:[Ww]eil|[Oo]bwohl|dass|ob|[Bb]evor|[Nn]achdem|Als|[Ww]enn) ([^,.?]+)[,.?]", target
        ):
            found += 1
            assert clause.split()[-1] in finite, target
    assert found > len(corpus) / 10


def test_german_has_no_bare_mistakes(corpus: list[Pair]) -> None:
    """Forms that no correct sentence holds."""
    wrong = re.compile(
        r"(?<!,) (in dem|an dem|von dem|zu dem|zu der|in das) [A-Z]|ee\b(?<!Kaffee)(?<!Tee)(?<!See)(?<!Schnee)|  |,,|^,"
    )
    for _, target, _ in corpus:
        assert not wrong.search(target), target


def test_the_same_place_says_the_same_anywhere(corpus: list[Pair]) -> None:
    assert [pair(1, "train", index) for index in (0, 7, 5_999)] == [corpus[0], corpus[7], corpus[5_999]]
    assert corpus[:50] != list(pairs(2, "train", 0, 50))


def test_golden_sentences() -> None:
    for index, said in GOLDEN.items():
        assert pair(1, "test", index)[:2] == said


def test_splits_share_no_sentence(corpus: list[Pair]) -> None:
    dev, test = list(pairs(1, "dev", 0, 150)), list(pairs(1, "test", 0, 150))
    sources = [{source for source, _, _ in split} for split in (corpus, dev, test)]
    assert all(one.isdisjoint(other) for one, other in combinations(sources, 2))
    assert {split_of(one.source) for one in test} == {"test"}


def test_training_never_sees_what_is_held_out(corpus: list[Pair]) -> None:
    said: set[tuple[str, ...]] = set()
    for source, _, _ in corpus:
        words = re.findall(r"[\w']+", source.lower())
        for length in (2, 3, 4):
            said.update(tuple(words[start : start + length]) for start in range(len(words) - length + 1))
    adjectives = {(a.english, form) for word in ALL_NOUNS for a in ADJECTIVES_OF[word][1] for form in word.english}
    verbs = {
        (*f"{verb_form} {action.particle}{action.preposition}".split(), determiner, form)
        for action, (_, nouns) in OBJECTS_OF.items()
        for verb_form in action.english
        for determiner in ("the", "a", "my", "this")
        for word in nouns
        for form in word.english
    }
    assert len(adjectives) > 100
    assert len(verbs) > 1_000
    assert not said & (adjectives | verbs)


def more_of(adjective: str) -> list[str]:
    return COMPARATIVES[adjective][0].split() if adjective in COMPARATIVES else []


def test_the_novel_part_of_a_test_set_combines_words_anew() -> None:
    test = list(pairs(1, "test", 0, 150))
    novel = [one for one in test if one.part == "novel"]
    assert len(novel) == 50
    assert {one.part for one in test} == {"seen", "novel"}
    assert {one.part for one in pairs(1, "train", 0, 50)} == {"seen"}
    adjectives = [f"{a.english} {word.english[0]}" for word in ALL_NOUNS for a in ADJECTIVES_OF[word][1]]
    together = [({a.english, *more_of(a.english)}, word) for word in ALL_NOUNS for a in ADJECTIVES_OF[word][1]]
    together += [({*action.english}, word) for action, (_, nouns) in OBJECTS_OF.items() for word in nouns]
    for one in novel:
        words = {*re.findall(r"[\w']+", one.source.lower().replace("'s ", " ").replace("' ", " "))}
        assert [both for both in together if both[0] & words and {*both[1].english} & words], one
    assert not [one for one in test if one.part == "seen" for phrase in adjectives if f"{phrase} " in one.source]


def test_held_out_words_are_seen_apart() -> None:
    """What is novel is the combination: every word of it is met in training."""
    for word in ALL_NOUNS:
        usual, held_out = ADJECTIVES_OF[word]
        assert len(usual) >= len(held_out)
    for usual_nouns, out_nouns in OBJECTS_OF.values():
        assert len(usual_nouns) > len(out_nouns)


def test_every_phenomenon_is_met(corpus: list[Pair]) -> None:
    targets = "\n".join(target for _, target, _ in corpus)
    for phenomenon, pattern in {
        "relative clause": r", (der|die|das|den|dem|denen) ",
        "weil": r", weil ", "als of the past": r"^Als ", "wenn": r"(^W|, w)enn ",
        "indirect question": r", (ob|wo|wann|warum) ",
        "zu inside": r"aufzumachen", "um zu": r", um ", "kein": r"\bkein", "nicht": r"\bnicht\b", "gern": r"\bgern\b",
        "genitive": r"\bdes \w+en (Mannes|Königs|Lehrers)\b", "wegen": r"^Wegen de[sr] ", "es gibt": r"^Es gibt ",
        "wem": r"^Wem ", "wen": r"^Wen ", "reflexive": r"\bsich an\b", "frisst": r"\bfrisst\b",
        "steht": r"\bsteht auf\b",
        "stark of rain": r"starken (Regens|Windes|Schnees)", "Ufer": r"am Ufer ", "pluperfect": r"\b(hatte|war), ",
    }.items():  # fmt: skip
        assert re.search(pattern, targets, re.MULTILINE), phenomenon
    assert len(SENTENCES) >= 14


# --- what we show ----------------------------------------------------------------------------------------------------

WORD_CLASSES = {form: "person" if "person" in noun.kinds else "noun" for noun in ALL_NOUNS for form in noun.english} | {
    form: f"verb{min(at, 2)}"
    for verb in ALL_VERBS
    for at, form in enumerate(verb.english)  # past and participle: one
}


def form_of(source: str) -> str:
    """The sentence with its nouns and verbs replaced by what they are."""
    words = re.findall(r"[\w']+|[.,?]", source.lower())
    return " ".join("adjective" if word in ADJECTIVES else WORD_CLASSES.get(word, word) for word in words)


ADJECTIVES = {adjective.english for usual, _ in ADJECTIVES_OF.values() for adjective in usual}


@pytest.fixture(scope="module")
def spoken() -> set[str]:
    """The forms of a part of the demo's training text."""
    return {form_of(one.source) for one in pairs(1, "train", 0, 20_000)}


@pytest.mark.parametrize("source", SHOWN)
def test_a_sentence_that_we_show_is_of_the_language_and_never_trained_on(source: str, spoken: set[str]) -> None:
    assert split_of(source) != "train"
    assert form_of(source) in spoken


def test_a_form_that_the_language_does_not_have_is_told(spoken: set[str]) -> None:
    assert form_of("The teacher knows that the cat sleeps.") not in spoken


def test_only_those_sentences_are_suggested() -> None:
    root = Path(__file__).resolve().parents[1]
    for file in ("README.md", "pipelines/cli.py"):
        suggested = re.findall(r'attn translate demo "([^"]+)"', (root / file).read_text(encoding="utf-8"))
        assert suggested
        assert set(suggested) <= set(SHOWN), file
    page = (root / "jobs/serve/assets/main.js").read_text(encoding="utf-8")
    assert any(f'"{source}"' in page for source in SHOWN)
