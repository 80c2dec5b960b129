"""Which words of the demo language go together, and which combinations are held out for the test.

A tenth of all adjective-noun and verb-object combinations of words with one sense is held out of training.
"""

from __future__ import annotations

import zlib
from collections import Counter
from functools import cache
from typing import TypeVar

from jobs.corpora.demo import lexicon
from jobs.corpora.demo.lexicon import ALL_ADJECTIVES, ALL_NOUNS, Adjective, Noun, Verb

T = TypeVar("T")
Choices = tuple[tuple[T, ...], tuple[T, ...]]  # what goes with a word: what everybody says, and what is held out


def is_held_out(left: str, right: str) -> bool:
    return zlib.crc32(f"{left} {right}".encode()) % 10 == 0


def verbs(table: str) -> tuple[Verb, ...]:
    return tuple(lexicon.verb(line) for line in lexicon.lines(table))


@cache
def of_kind(kinds: frozenset[str]) -> tuple[Noun, ...]:
    return tuple(noun for noun in ALL_NOUNS if noun.kinds & kinds)


TRANSITIVE = {who: verbs(table) for who, table in lexicon.VERBS.items()}
ACTING = {who: verbs(table) for who, table in lexicon.ACTING.items()}
GIVING, PLACING, GOING, RIDING = (
    verbs(lexicon.GIVING),
    verbs(lexicon.PLACING),
    verbs(lexicon.GOING),
    verbs(lexicon.RIDING),
)
TELLING, ASKING, TRYING = verbs(lexicon.TELLING), verbs(lexicon.ASKING), verbs(lexicon.TRYING)


def word(verb: Verb) -> str:
    return f"{verb.english[0]} {verb.particle}{verb.preposition}".strip()


SENSES = Counter(word(verb) for verb in TRANSITIVE["person"])  # more than one: the object decides
SURE = tuple(verb for verb in TRANSITIVE["person"] if SENSES[word(verb)] == 1)
MANY_SENSES = {name for name, count in Counter(adjective.english for adjective in ALL_ADJECTIVES).items() if count > 1}


def adjectives_of(noun: Noun) -> Choices[Adjective]:
    fitting = [adjective for adjective in ALL_ADJECTIVES if adjective.kinds & noun.kinds]
    out = [a for a in fitting if a.english not in MANY_SENSES and is_held_out(a.english, noun.english[0])]
    return tuple(a for a in fitting if a not in out), tuple(out)


def objects_of(verb: Verb) -> Choices[Noun]:
    fitting = of_kind(verb.kinds)
    out = [n for n in fitting if SENSES[word(verb)] == 1 and is_held_out(word(verb), n.english[0])]
    return tuple(n for n in fitting if n not in out), tuple(out)


ADJECTIVES_OF = {noun: adjectives_of(noun) for noun in ALL_NOUNS}
OBJECTS_OF = {verb: objects_of(verb) for verb in (*TRANSITIVE["person"], *TRANSITIVE["animal"], *GIVING, *PLACING)}
VERBS_OF = {noun: tuple(verb for verb in TRANSITIVE["person"] if noun in OBJECTS_OF[verb][0]) for noun in ALL_NOUNS}
COMPARATIVES = {
    old: (new.replace("_", " "), german) for old, new, german in map(str.split, lexicon.lines(lexicon.COMPARATIVES))
}

PERSONS, ANIMALS, SCHEDULED, PLANTS, SURFACES, BAGS, WATERS, PLACES, EVENTS, WEATHER = (
    of_kind(frozenset({kind}))
    for kind in ("person", "animal", "scheduled", "plant", "surface", "bag", "water", "place", "event", "weather")
)
RESTING = of_kind(frozenset({"upright", "flat"}))
FAMILIAR = frozenset(noun for noun in ALL_NOUNS if len(ADJECTIVES_OF[noun][0]) >= 3 and len(VERBS_OF[noun]) >= 3)
DESCRIBED = tuple(noun for noun in ALL_NOUNS if noun in FAMILIAR and noun.english[1])
MOVABLE = tuple(noun for noun in DESCRIBED if noun.kinds & {"person", "animal", "thing", "plant"})
NAMES = tuple(tuple(line.split()) for line in lexicon.lines(lexicon.NAMES))
NAMESAKES = {who: next(n for n in PERSONS if n.pronoun == who) for who in ("he", "she")}  # the noun behind a name
TIMES = {when: lexicon.phrases(table) for when, table in lexicon.TIMES.items()}
FREQUENCIES, MANNERS = lexicon.phrases(lexicon.FREQUENCIES), lexicon.phrases(lexicon.MANNERS)
