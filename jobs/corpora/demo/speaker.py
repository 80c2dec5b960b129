"""Random phrases and clauses of the demo language, in English and German, of words that go together.

A speaker says a combination that is held out of training only if it is `bold`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple, TypeVar

from jobs.corpora.demo import lexicon
from jobs.corpora.demo.combinations import (
    ACTING,
    ADJECTIVES_OF,
    BAGS,
    COMPARATIVES,
    FREQUENCIES,
    GIVING,
    GOING,
    MANNERS,
    NAMES,
    NAMESAKES,
    OBJECTS_OF,
    PERSONS,
    PLACES,
    PLACING,
    RESTING,
    RIDING,
    SCHEDULED,
    SURFACES,
    TIMES,
    TRANSITIVE,
    VERBS_OF,
    WATERS,
    Choices,
    of_kind,
)
from jobs.corpora.demo.grammar import (
    DETERMINERS,
    FIRST,
    REFLEXIVE,
    RELATIVES,
    SEIN,
    SEVERAL,
    THIRD,
    WHEN,
    Clause,
    Phrase,
    after_preposition,
    conjugate,
    is_unsaid,
    join,
    pronoun,
    pronoun_for,
)
from jobs.corpora.demo.lexicon import (
    ACCUSATIVE,
    DATIVE,
    GENITIVE,
    NOMINATIVE,
    PLURAL,
    Noun,
    Verb,
)

T = TypeVar("T")

SINGULAR = ("the",) * 8 + ("a",) * 6 + ("this", "my", "his", "her", "our", "their")
PLURALS = ("the",) * 6 + ("these", "many", "some", "two", "three", "my", "her")
MASS = ("the",) * 5 + ("",) * 5 + ("this", "our", "his")
TENSES: tuple[str, ...] = ("past",) * 7 + ("present",) * 6 + ("perfect",) * 2 + ("future",) * 2
TENSES += ("can", "must", "should", "want", "could", "had to", "wanted")


class Complement(NamedTuple):
    """A verb and what it needs. German puts `early` before adverbs, `late` after `nicht`."""

    verb: Verb
    english: str = ""
    early: str = ""
    middle: str = ""
    late: str = ""
    object: Phrase | None = None
    denied: bool = False  # the object says kein


class Speaker:
    """Says things at random. Two speakers with the same generator say the same."""

    def __init__(self, random: Random, *, bold: bool = False) -> None:
        self.random = random.random
        self.bold = bold
        self.was_bold = False  # a held-out combination has been said

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self.random() * len(choices))]

    def until(self, good: Callable[[T], bool], make: Callable[[], T]) -> T:
        """The first that is good; what was not, was never said."""
        before = self.was_bold
        while True:
            self.was_bold = before
            made = make()
            if good(made):
                return made

    def combine(self, choices: Choices[T]) -> T | None:
        """One of the usual combinations; a bold speaker takes a held-out one where it can."""
        usual, held_out = choices
        if self.bold and held_out and self.random() < 0.5:
            self.was_bold = True
            return self.pick(held_out)
        return self.pick(usual) if usual else None

    # --- noun phrases ----------------------------------------------------------------------------------------------

    def phrase(self, noun: Noun, case: int, *, denied: bool = False, plain: bool = False, owned: bool = True) -> Phrase:
        """`denied` says kein where English denies something indefinite; `plain` leaves adjectives out."""
        plural = bool(noun.english[1]) and self.random() < 0.25
        determiner = self.pick(MASS if not noun.english[1] else PLURALS if plural else SINGULAR)
        if denied and determiner in ("some", "many", "two", "three"):
            determiner = "these"
        form = PLURAL if plural else noun.gender
        person = SEVERAL if plural else THIRD
        if owned and not denied and case != GENITIVE and noun.pronoun == "it" and self.random() < 0.06:
            return self.owned(noun, form, person, case)
        if case == GENITIVE and determiner in ("two", "three", "", "some", "many"):
            determiner = "the"
        if denied:
            determiner = {"a": "not a", "": "not any"}.get(determiner, determiner)
        chosen = DETERMINERS[determiner]
        adjective = None if plain or self.random() < 0.6 else self.combine(ADJECTIVES_OF[noun])
        english, german = noun.english[plural], noun.german[plural][case]
        if adjective:
            english = f"{adjective.english} {english}"
            german = f"{adjective.stem}{chosen.endings[form][case]} {german}"
        article = chosen.english
        if article == "a" and english[0] in "aeiou":
            article = "an"
        return Phrase(join(article, english), join(chosen.german[form][case], german), form, person, noun)

    def owned(self, noun: Noun, form: int, person: int, case: int) -> Phrase:
        """the old man's dog: der Hund des alten Mannes"""
        owner = self.phrase(self.pick(PERSONS), GENITIVE)
        plural = form == PLURAL
        mark = "'" if owner.english.endswith("s") else "'s"
        german = f"{DETERMINERS['the'].german[form][case]} {noun.german[plural][case]} {owner.german}"
        return Phrase(f"{owner.english}{mark} {noun.english[plural]}", german, form, person, noun)

    def somebody(self, *, plain: bool = False) -> Phrase:
        """A person, as a subject."""
        chance = self.random()
        if chance < 0.2:
            return pronoun(self.pick(("I", "you", "he", "she", "we", "they")), NOMINATIVE)
        if chance < 0.3:
            name, gender = self.pick(NAMES)
            noun = NAMESAKES[gender]
            return Phrase(name, name, noun.gender, THIRD, noun)
        if chance < 0.34:
            noun = self.pick(PERSONS)
            determiner = DETERMINERS["every"].german[noun.gender][NOMINATIVE]
            return Phrase(f"every {noun.english[0]}", f"{determiner} {noun.german[0][0]}", noun.gender, THIRD, noun)
        return self.phrase(self.pick(PERSONS), NOMINATIVE, plain=plain)

    def place(self) -> tuple[str, str]:
        """Where: in, at or on, and the dative."""
        if self.random() < 0.1:
            water = self.phrase(self.pick(WATERS), GENITIVE, plain=True)
            return f"on the bank of {water.english}", f"am Ufer {water.german}"
        noun = self.pick(PLACES)
        where = self.phrase(noun, DATIVE)
        english, german = ("in", "in") if "in" in noun.kinds else ("at", "an")
        return f"{english} {where.english}", after_preposition(german, where.german)

    def direction(self) -> tuple[str, str]:
        """Where to: into a house (in and the accusative), but to a station (zu and the dative)."""
        noun = self.pick(PLACES)
        inside = "in" in noun.kinds
        to = self.phrase(noun, ACCUSATIVE if inside else DATIVE)
        return f"to {to.english}", after_preposition("in" if inside else "zu", to.german)

    # --- what a verb needs -----------------------------------------------------------------------------------------

    def transitive(
        self, verb: Verb, subject: Phrase, thing: Phrase | None = None, *, denied: bool = False
    ) -> Complement:
        """A verb and its object, a new one or the pronoun `thing`."""
        early = REFLEXIVE.get(subject.german, "sich") if verb.reflexive else ""
        if thing is None:
            noun = self.combine(OBJECTS_OF[verb])
            assert noun is not None
            found = self.phrase(noun, verb.case, denied=denied and not verb.german_preposition)
            english = join(verb.particle or verb.preposition, found.english)
            if verb.german_preposition:
                return Complement(
                    verb, english, early, "", after_preposition(verb.german_preposition, found.german), found
                )
            return Complement(verb, english, early, found.german, "", found, is_kein(found.german))
        english = join(verb.preposition, thing.english, verb.particle)
        if verb.german_preposition:
            return Complement(verb, english, early, "", f"{verb.german_preposition} {thing.german}", thing)
        return Complement(verb, english, thing.german, "", "", thing)

    def giving(self) -> Complement:
        verb = self.pick(GIVING)
        person = self.phrase(self.pick(PERSONS), DATIVE, owned=False)
        gift = self.phrase(self.pick(OBJECTS_OF[verb][0]), ACCUSATIVE, owned=False)
        shifted = verb.english[0] != "explain" and self.random() < 0.5
        english = f"{person.english} {gift.english}" if shifted else f"{gift.english} to {person.english}"
        return Complement(verb, english, "", f"{person.german} {gift.german}", "", gift)

    def placing(self) -> Complement:
        """put: stellen what stands, legen what lies; and where to, in the accusative."""
        verb = self.pick(PLACING)
        thing = self.phrase(self.pick(OBJECTS_OF[verb][0]), ACCUSATIVE)
        on = self.random() < 0.7
        onto = self.phrase(self.pick(SURFACES if on else BAGS), ACCUSATIVE, plain=True, owned=False)
        english = f"{thing.english} {'on' if on else 'into'} {onto.english}"
        return Complement(verb, english, "", thing.german, after_preposition("auf" if on else "in", onto.german), thing)

    def going(self) -> Complement:
        """go: gehen, but fahren by train."""
        english, german = self.direction()
        if self.random() < 0.5:
            return Complement(self.pick(GOING), english, "", "", german)
        means = self.pick(SCHEDULED)
        by = after_preposition("mit", f"{DETERMINERS['the'].german[means.gender][DATIVE]} {means.german[0][DATIVE]}")
        return Complement(self.pick(RIDING), f"{english} by {means.english[0]}", "", by, german)

    def complement(self, who: str, subject: Phrase, *, denied: bool = False) -> Complement:
        chance = self.random()
        if who == "person":
            if chance < 0.12:
                return self.going()
            if chance < 0.20 and not denied:
                return self.giving()
            if chance < 0.27 and not denied:
                return self.placing()
        if who in TRANSITIVE and chance < 0.87:
            return self.transitive(self.pick(TRANSITIVE[who]), subject, denied=denied)
        verb = self.pick(ACTING[who])
        return Complement(verb, verb.particle)

    # --- clauses ---------------------------------------------------------------------------------------------------

    def tense(self) -> str:
        return self.pick(TENSES)

    def time(self, tense: str) -> tuple[str, str]:
        return self.pick(TIMES[WHEN[tense]])

    def clause(
        self,
        subject: Phrase,
        tense: str,
        who: str = "person",
        *,
        given: Complement | None = None,
        deny: float = 0.15,
        adverbs: float = 0.5,
    ) -> Clause:
        """Say something of a subject. `deny` and `adverbs` are how likely these are."""
        denied = tense != "like" and self.random() < deny
        complement = given or self.until(
            lambda made: not is_unsaid(made.verb, subject.person, tense),
            lambda: self.complement(who, subject, denied=denied),
        )
        return self.around(complement, subject, tense, denied=denied, adverbs=adverbs)

    def around(self, complement: Complement, subject: Phrase, tense: str, *, denied: bool, adverbs: float) -> Clause:
        """Put the verb, its objects, adverbs and negation in their places."""
        verb = complement.verb
        forms = conjugate(verb, subject.person, "must not" if denied and tense == "must" else tense)
        often = time = manner = place = ("", "")
        if tense == "like":
            often = ("", "gern")
        chance = self.random() / adverbs if adverbs else 9.0
        if chance < 0.2 and not denied and tense in ("present", "past"):
            often = self.pick(FREQUENCIES)
        elif chance < 0.5 and tense in WHEN:
            time = self.time(tense)
        elif chance < 0.75 and not complement.late:
            place = self.place()
        elif chance < 1 and not denied and tense != "like":
            manner = self.pick(MANNERS)
        tail = join(complement.english, manner[0], place[0], time[0])
        no = "nicht" if denied and not complement.denied else ""
        if denied:
            english = join("cannot" if forms.helper == "can" else f"{forms.helper} not", forms.rest, tail)
        else:
            english = join(forms.before, often[0], forms.after, tail)
        middle = join(complement.early, time[1], often[1], complement.middle, no, manner[1], place[1], complement.late)
        return Clause(
            subject,
            english,
            forms.helper,
            join(often[0], forms.rest, tail),
            forms.finite,
            middle,
            forms.end,
            forms.last,
        )

    def description(self, subject: Phrase, tense: str) -> Clause:
        """The house is (not, too, very) old, is older than the church; a cup or a book is on the table."""
        noun = subject.noun
        assert noun is not None
        german = SEIN[tense][subject.person]
        english = {"present": ("am", "is", "are"), "past": ("was", "was", "were")}[tense][subject.person]
        if self.random() < 0.25 and noun in RESTING and subject.person != FIRST:
            surface = self.phrase(self.pick(SURFACES), DATIVE, plain=True)
            forms = lexicon.RESTING["upright" if "upright" in noun.kinds else "flat"][tense == "past"]
            finite = forms.split()[subject.person == SEVERAL]
            phrase = f"on {surface.english}"
            return Clause(subject, f"{english} {phrase}", english, phrase, finite, f"auf {surface.german}", "", finite)
        adjective = self.until(
            lambda made: made is not None and made.english not in subject.english,
            lambda: self.combine(ADJECTIVES_OF[noun]),
        )
        assert adjective is not None
        chance = self.random()
        if chance < 0.25 and adjective.english in COMPARATIVES:
            more, mehr = COMPARATIVES[adjective.english]
            other = self.phrase(self.pick(of_kind(adjective.kinds & noun.kinds)), NOMINATIVE, plain=True)
            phrase, german_phrase = f"{more} than {other.english}", f"{mehr} als {other.german}"
        else:
            degree = self.pick((("", ""), ("", ""), ("very", "sehr"), ("too", "zu"), ("not", "nicht")))
            phrase, german_phrase = join(degree[0], adjective.english), join(degree[1], adjective.german)
        return Clause(subject, f"{english} {phrase}", english, phrase, german, german_phrase, "", german)

    def relative(self, phrase: Phrase, tense: str) -> tuple[str, str]:
        """who bought the dog; that the woman waits for"""
        noun = phrase.noun
        assert noun is not None
        kind = "person" if "person" in noun.kinds else "animal" if "animal" in noun.kinds else ""
        if kind and (self.random() < 0.6 or not VERBS_OF[noun]):
            word = Phrase(
                "who" if kind == "person" else "that", RELATIVES[phrase.form][0], phrase.form, phrase.person, noun
            )
            inner = self.clause(word, tense, kind, adverbs=0.2)
            return inner.statement(), f", {inner.verb_last('')},"
        subject = self.somebody(plain=True)
        verb = self.pick([verb for verb in VERBS_OF[noun] if not is_unsaid(verb, subject.person, tense)])
        early = REFLEXIVE.get(subject.german, "sich") if verb.reflexive else ""
        gap = Complement(verb, join(verb.preposition, verb.particle), early)
        inner = self.around(gap, subject, tense, denied=False, adverbs=0.3)
        which = join(verb.german_preposition, RELATIVES[phrase.form][verb.case])
        return f"that {inner.statement()}", f", {inner.verb_last(which)},"

    def about(self, phrase: Phrase, tense: str, subject: Phrase, but: Verb) -> Clause:
        """A clause in which somebody does something else to what was spoken of: because he bought it."""
        noun = phrase.noun
        assert noun is not None
        fitting = [verb for verb in VERBS_OF[noun] if verb is not but and not verb.german_preposition]
        verb = self.pick([verb for verb in fitting if not is_unsaid(verb, subject.person, tense)])
        it = pronoun_for(phrase, verb.case)
        return self.clause(subject, tense, given=self.transitive(verb, subject, it), adverbs=0.3)


def is_kein(german: str) -> bool:
    return german.startswith("kein")
