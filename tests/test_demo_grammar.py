"""The demo language: correct German for each phenomenon, checked by hand."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from random import Random

import pytest

from jobs.corpora.demo.combinations import (
    ACTING,
    ASKING,
    GIVING,
    GOING,
    PLACING,
    RIDING,
    TELLING,
    TRANSITIVE,
    TRYING,
)
from jobs.corpora.demo.grammar import (
    DETERMINERS,
    FIRST,
    RELATIVES,
    SEVERAL,
    THIRD,
    Phrase,
    after_preposition,
    conjugate,
    pronoun_for,
    zu_infinitive,
)
from jobs.corpora.demo.lexicon import ACCUSATIVE, ALL_ADJECTIVES, ALL_NOUNS, DATIVE, NOMINATIVE, PLURAL, Noun, Verb
from jobs.corpora.demo.speaker import Complement, Speaker

ALL_VERBS = (
    [verb for table in (TRANSITIVE, ACTING) for verbs in table.values() for verb in verbs]
    + [*GIVING, *PLACING, *GOING, *RIDING, *TELLING, *ASKING, *TRYING]
)  # fmt: skip


def noun(german: str) -> Noun:
    return next(noun for noun in ALL_NOUNS if noun.german[0][0] == german)


def verb(german: str) -> Verb:
    return next(verb for verb in ALL_VERBS if verb.prefix + verb.infinitive == german)


def nominal(determiner: str, adjective: str, german: str, case: int, *, plural: bool = False) -> str:
    word, which = noun(german), DETERMINERS[determiner]
    form = PLURAL if plural else word.gender
    stem = next(adjective_.stem for adjective_ in ALL_ADJECTIVES if adjective_.german == adjective)
    return f"{which.german[form][case]} {stem}{which.endings[form][case]} {word.german[plural][case]}".strip()


# Each row: nominative, accusative, dative, genitive.
PARADIGMS = {
    ("the", "alt", "Mann", False): "der alte Mann, den alten Mann, dem alten Mann, des alten Mannes",
    ("the", "alt", "Frau", False): "die alte Frau, die alte Frau, der alten Frau, der alten Frau",
    ("the", "neu", "Buch", False): "das neue Buch, das neue Buch, dem neuen Buch, des neuen Buches",
    ("the", "neu", "Buch", True): "die neuen Bücher, die neuen Bücher, den neuen Büchern, der neuen Bücher",
    (
        "this",
        "klug",
        "Junge",
        False,
    ): "dieser kluge Junge, diesen klugen Jungen, diesem klugen Jungen, dieses klugen Jungen",
    ("every", "arm", "Kind", False): "jedes arme Kind, jedes arme Kind, jedem armen Kind, jedes armen Kindes",
    ("a", "alt", "Mann", False): "ein alter Mann, einen alten Mann, einem alten Mann, eines alten Mannes",
    ("a", "müde", "Frau", False): "eine müde Frau, eine müde Frau, einer müden Frau, einer müden Frau",
    ("a", "teuer", "Hemd", False): "ein teures Hemd, ein teures Hemd, einem teuren Hemd, eines teuren Hemdes",
    ("not a", "rot", "Hut", False): "kein roter Hut, keinen roten Hut, keinem roten Hut, keines roten Hutes",
    (
        "my",
        "dunkel",
        "Jacke",
        True,
    ): "meine dunklen Jacken, meine dunklen Jacken, meinen dunklen Jacken, meiner dunklen Jacken",
    ("our", "groß", "Bär", False): "unser großer Bär, unseren großen Bären, unserem großen Bären, unseres großen Bären",
    (
        "many",
        "klein",
        "Vogel",
        True,
    ): "viele kleine Vögel, viele kleine Vögel, vielen kleinen Vögeln, vieler kleiner Vögel",
    ("", "kalt", "Kaffee", False): "kalter Kaffee, kalten Kaffee, kaltem Kaffee, kalten Kaffees",
    ("", "kalt", "Milch", False): "kalte Milch, kalte Milch, kalter Milch, kalter Milch",
    ("", "kalt", "Wasser", False): "kaltes Wasser, kaltes Wasser, kaltem Wasser, kalten Wassers",
}


@pytest.mark.parametrize(("key", "forms"), PARADIGMS.items(), ids=str)
def test_articles_adjectives_and_nouns_agree(key: tuple[str, str, str, bool], forms: str) -> None:
    determiner, adjective, german, plural = key
    made = [nominal(determiner, adjective, german, case, plural=plural) for case in range(4)]
    assert made == forms.split(", ")


VERB_FORMS = {  # ich, er, sie (several), in the tense; then verb-last by er
    ("kaufen", "present"): "kaufe kauft kaufen / kauft",
    ("lesen", "present"): "lese liest lesen / liest",
    ("ändern", "present"): "ändere ändert ändern / ändert",
    ("wechseln", "present"): "wechsle wechselt wechseln / wechselt",
    ("wissen", "present"): "weiß weiß wissen / weiß",
    ("wissen", "past"): "wusste wusste wussten / wusste",
    ("mögen", "past"): "mochte mochte mochten / mochte",
    ("haben", "past"): "hatte hatte hatten / hatte",
    ("aufmachen", "present"): "mache macht machen / aufmacht",
    ("aufmachen", "past"): "habe hat haben / aufgemacht hat",
    ("einladen", "present"): "lade lädt laden / einlädt",
    ("folgen", "past"): "bin ist sind / gefolgt ist",
    ("aufstehen", "pluperfect"): "war war waren / aufgestanden war",
    ("kaufen", "future"): "werde wird werden / kaufen wird",
    ("wegwerfen", "can"): "kann kann können / wegwerfen kann",
    ("essen", "want"): "will will wollen / essen will",
    ("essen", "must not"): "darf darf dürfen / essen darf",
}


@pytest.mark.parametrize(("key", "forms"), VERB_FORMS.items(), ids=str)
def test_verbs_are_conjugated(key: tuple[str, str], forms: str) -> None:
    german, tense = key
    persons, last = forms.split(" / ")
    assert [conjugate(verb(german), person, tense).finite for person in (FIRST, THIRD, SEVERAL)] == persons.split()
    assert conjugate(verb(german), THIRD, tense).last == last


MAN = Phrase("the man", "der Mann", noun("Mann").gender, THIRD, noun("Mann"))
CLAUSES = {  # (verb, tense, denied): English; verb second; with something first; verb last
    ("lesen", "past", False): (
        "read the book",
        "der Mann hat das Buch gelesen",
        "gestern hat der Mann das Buch gelesen",
        "weil der Mann das Buch gelesen hat",
    ),
    ("zumachen", "present", True): (
        "does not close the door",
        "der Mann macht die Tür nicht zu",
        "gestern macht der Mann die Tür nicht zu",
        "weil der Mann die Tür nicht zumacht",
    ),
    ("anziehen", "must", True): (
        "must not put on the coat",
        "der Mann darf den Mantel nicht anziehen",
        "gestern darf der Mann den Mantel nicht anziehen",
        "weil der Mann den Mantel nicht anziehen darf",
    ),
    ("helfen", "perfect", False): (
        "has helped the child",
        "der Mann hat dem Kind geholfen",
        "gestern hat der Mann dem Kind geholfen",
        "weil der Mann dem Kind geholfen hat",
    ),
    ("warten", "had to", True): (
        "did not have to wait for the bus",
        "der Mann musste nicht auf den Bus warten",
        "gestern musste der Mann nicht auf den Bus warten",
        "weil der Mann nicht auf den Bus warten musste",
    ),
    ("erinnern", "present", False): (
        "remembers the woman",
        "der Mann erinnert sich an die Frau",
        "gestern erinnert der Mann sich an die Frau",
        "weil der Mann sich an die Frau erinnert",
    ),
    ("kennen", "past", True): (
        "did not know the teacher",
        "der Mann kannte den Lehrer nicht",
        "gestern kannte der Mann den Lehrer nicht",
        "weil der Mann den Lehrer nicht kannte",
    ),
}
THINGS = {
    "lesen": "Buch",
    "zumachen": "Tür",
    "anziehen": "Mantel",
    "helfen": "Kind",
    "warten": "Bus",
    "erinnern": "Frau",
}


@pytest.mark.parametrize(("key", "said"), CLAUSES.items(), ids=str)
def test_verbs_stand_where_german_puts_them(key: tuple[str, str, bool], said: tuple[str, str, str, str]) -> None:
    german, tense, denied = key
    thing, action = noun(THINGS.get(german, "Lehrer")), verb(german)
    the = DETERMINERS["the"].german[thing.gender][action.case]
    found = Phrase(f"the {thing.english[0]}", f"{the} {thing.german[0][action.case]}", thing.gender, THIRD, thing)
    english = f"{action.particle or action.preposition} {found.english}".strip()
    early = "sich" if action.reflexive else ""
    late = after_preposition(action.german_preposition, found.german) if action.german_preposition else ""
    complement = Complement(action, english, early, "" if late else found.german, late, found)
    clause = Speaker(Random(1)).around(complement, MAN, tense, denied=denied, adverbs=0)
    assert (clause.english, clause.verb_second(), clause.verb_second("gestern"), clause.verb_last("weil")) == said


def test_pronouns_follow_the_gender_of_a_noun() -> None:
    def it(german: str, case: int, *, plural: bool = False) -> tuple[str, str]:
        word = noun(german)
        phrase = Phrase("", "", PLURAL if plural else word.gender, SEVERAL if plural else THIRD, word)
        return pronoun_for(phrase, case)[:2]

    assert it("Hut", NOMINATIVE) == ("it", "er")
    assert it("Hut", ACCUSATIVE) == ("it", "ihn")
    assert it("Lampe", ACCUSATIVE) == ("it", "sie")
    assert it("Buch", DATIVE) == ("it", "ihm")
    assert it("Mann", DATIVE) == ("him", "ihm")
    assert it("Frau", DATIVE) == ("her", "ihr")
    assert it("Lampe", DATIVE, plural=True) == ("them", "ihnen")
    assert [row[DATIVE] for row in RELATIVES] == ["dem", "der", "dem", "denen"]


def test_infinitives_take_zu_inside_a_verb_that_separates() -> None:
    assert zu_infinitive(verb("aufmachen")) == "aufzumachen"
    assert zu_infinitive(verb("lesen")) == "zu lesen"


def test_prepositions_and_articles_contract() -> None:
    assert after_preposition("in", "dem alten Garten") == "im alten Garten"
    assert after_preposition("zu", "der Schule") == "zur Schule"
    assert after_preposition("in", "einem Garten") == "in einem Garten"
    assert after_preposition("auf", "das Bett") == "auf das Bett"


def test_the_kind_of_noun_always_decides_between_senses() -> None:
    """know, put, miss, spend, save, change, paint, heavy, light, hard, short ... : two lines never fit one noun."""
    person_verbs = [*TRANSITIVE["person"], *PLACING]
    for words in (ALL_ADJECTIVES, person_verbs):
        for one, other in combinations(words, 2):
            key = (
                (lambda w: w.english) if words is ALL_ADJECTIVES else (lambda w: (w.english, w.particle, w.preposition))
            )
            if key(one) == key(other):
                both = [word.english[0] for word in ALL_NOUNS if word.kinds & one.kinds and word.kinds & other.kinds]
                assert not both, f"{one.english} is {one} and {other} of {both}"
    senses = Counter(word.english for word in ALL_ADJECTIVES) + Counter(
        v.english[0] for v in {*ALL_VERBS} if not v.particle
    )
    assert len([word for word, count in senses.items() if count > 1]) >= 12


def test_every_kind_that_a_word_asks_for_exists() -> None:
    kinds = {kind for word in ALL_NOUNS for kind in word.kinds}
    for word in [*ALL_ADJECTIVES, *ALL_VERBS]:
        assert word.kinds <= kinds, f"{word}: {word.kinds - kinds}"
