"""The demo language: English to German by a grammar of ours, so that the default needs no network and no foreign text.

Translating it needs what the Transformer is for: gender, case and number that agree across a phrase, verbs that go to
the second or the last place, verbs that separate, pronouns that agree with a noun far back, and words whose translation
depends on their neighbours. A sentence is a function of (seed, split, index), its translation one of the sentence.

Words: lexicon.py. Which go together: combinations.py. Forms, word order: grammar.py. Phrases, clauses: speaker.py.
Sentences and splits are here.
By hand: python -m jobs.corpora.demo.language 20
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Literal, NamedTuple

from jobs.corpora.demo.combinations import (
    ANIMALS,
    ASKING,
    DESCRIBED,
    EVENTS,
    FAMILIAR,
    MOVABLE,
    PLANTS,
    SCHEDULED,
    SURE,
    TELLING,
    TRANSITIVE,
    TRYING,
    WEATHER,
)
from jobs.corpora.demo.grammar import Phrase, is_unsaid, join, pronoun_for, zu_infinitive
from jobs.corpora.demo.lexicon import ACCUSATIVE, DATIVE, GENITIVE, NOMINATIVE, PLURAL, Verb
from jobs.corpora.demo.speaker import Complement, Speaker

Split = Literal["train", "dev", "test"]
SentencePair = tuple[str, str]
DEEDS = tuple(verb for verb in SURE if not verb.past)  # what is done, as opposed to what is felt or had


class Pair(NamedTuple):
    source: str
    target: str
    part: str  # seen, or novel: with a combination of words that training never sees


# --- sentences: each says one thing, in English and in German -------------------------------------------------------


def statement(speaker: Speaker) -> SentencePair:
    """Yesterday the man bought a book. / Gestern hat der Mann ein Buch gekauft."""
    tense = speaker.tense()
    chance = speaker.random()
    if chance < 0.3 and tense in ("past", "present", "future"):
        time = speaker.time(tense) if chance < 0.2 else speaker.place()
        clause = speaker.clause(speaker.somebody(), tense, adverbs=0)
        return f"{time[0]} {clause.statement()}.", f"{clause.verb_second(time[1])}."
    if chance < 0.4:
        tense = "like"
    clause = speaker.clause(speaker.somebody(), tense, adverbs=0.9)
    return f"{clause.statement()}.", f"{clause.verb_second()}."


def other_statement(speaker: Speaker) -> SentencePair:
    """Animals, trains and plants do things too: The dog eats (frisst), the train leaves (fährt ab)."""
    nouns, who = speaker.pick(((ANIMALS, "animal"), (ANIMALS, "animal"), (SCHEDULED, "scheduled"), (PLANTS, "plant")))
    subject = speaker.phrase(speaker.pick(nouns), NOMINATIVE)
    clause = speaker.clause(subject, speaker.pick(("past", "present", "perfect", "future")), who, adverbs=0.9)
    return f"{clause.statement()}.", f"{clause.verb_second()}."


def description(speaker: Speaker) -> SentencePair:
    """The old church is bigger than the school. With a relative clause between subject and verb, often."""
    subject = speaker.phrase(speaker.pick(DESCRIBED), NOMINATIVE)
    english = german = ""
    if speaker.random() < 0.5:
        english, german = speaker.relative(subject, speaker.pick(("past", "present", "perfect")))
    clause = speaker.description(subject, speaker.pick(("present", "past")))
    return f"{join(subject.english, english)} {clause.english}.", said_with(clause.verb_second(), subject, german)


def far_pronoun(speaker: Speaker) -> SentencePair:
    """The lamp that the woman bought in the city is expensive, but it is beautiful: die Lampe ... sie."""
    subject = speaker.until(
        lambda made: made.form == PLURAL or is_clear(made),
        lambda: speaker.phrase(speaker.pick(DESCRIBED), NOMINATIVE),
    )
    english, german = speaker.relative(subject, speaker.pick(("past", "perfect")))
    first = speaker.description(subject, "present")
    second = speaker.until(
        lambda made: made.middle.split()[-1] != first.middle.split()[-1],
        lambda: speaker.description(pronoun_for(subject, NOMINATIVE), "present"),
    )
    source = f"{subject.english} {english} {first.english}, but {second.statement()}."
    return source, f"{said_with(first.verb_second(), subject, german)[:-1]}, aber {second.verb_second()}."


def said_with(german: str, subject: Phrase, relative: str) -> str:
    """Put a relative clause behind the subject that a German clause begins with."""
    return f"{subject.german}{relative}{german[len(subject.german) :]}."


def object_of(
    speaker: Speaker, verbs: Sequence[Verb], subject: Phrase, tense: str, *, clear: bool = False
) -> tuple[Complement, Phrase]:
    """Something to do and to what; if `clear`, to what a pronoun can take up."""
    complement = speaker.until(
        lambda made: not (is_unsaid(made.verb, subject.person, tense) or (clear and not is_clear(made.object))),
        lambda: speaker.transitive(speaker.pick(verbs), subject),
    )
    assert complement.object is not None
    return complement, complement.object


def object_relative(speaker: Speaker) -> SentencePair:
    """The farmer sold the horse that the boy had seen. / ..., das der Junge gesehen hat, ..."""
    subject, tense = speaker.somebody(), speaker.pick(("past", "present", "perfect", "future"))
    complement, found = object_of(speaker, SURE, subject, tense)
    english, german = speaker.relative(found, speaker.pick(("past", "perfect")))
    middle, late = complement.middle, complement.late
    if late:
        late += german
    else:
        middle += german
    with_relative = complement._replace(english=f"{complement.english} {english}", middle=middle, late=late)
    clause = speaker.around(with_relative, subject, tense, denied=False, adverbs=0)
    return f"{clause.statement()}.", f"{clause.verb_second()}."


def reason(speaker: Speaker) -> SentencePair:
    """The woman bought the lamp because it was cheap. / ..., weil sie billig war."""
    subject, tense = speaker.somebody(), speaker.pick(("past", "past", "present"))
    complement, found = object_of(speaker, TRANSITIVE["person"], subject, tense, clear=True)
    main = speaker.around(complement, subject, tense, denied=False, adverbs=0.2)
    if speaker.random() < 0.5:
        other = speaker.description(pronoun_for(found, NOMINATIVE), tense)
    else:
        other = speaker.about(found, tense, again(subject), complement.verb)
    word, wort = speaker.pick((("because", "weil"), ("because", "weil"), ("although", "obwohl")))
    return f"{main.statement()} {word} {other.statement()}.", f"{main.verb_second()}, {other.verb_last(wort)}."


def is_clear(phrase: Phrase | None) -> bool:
    """Whether a pronoun can take it up without a doubt, among persons: a thing or an animal."""
    return phrase is not None and phrase.noun in FAMILIAR and phrase.noun.pronoun == "it"


def again(subject: Phrase) -> Phrase:
    """The subject once more, as a pronoun; a child stays a child."""
    if subject.noun is None:
        return subject
    if subject.noun.pronoun or subject.form == PLURAL:
        return pronoun_for(subject, NOMINATIVE)
    noun = subject.noun
    return Phrase(f"the {noun.english[0]}", f"das {noun.german[0][0]}", noun.gender, subject.person, noun)


def and_then(speaker: Speaker) -> SentencePair:
    """The man bought a lamp and put it on the table. / ... und hat sie auf den Tisch gestellt."""
    subject, tense = speaker.somebody(), speaker.pick(("past", "perfect"))
    complement, found = object_of(speaker, DEEDS, subject, tense, clear=True)
    first = speaker.around(complement, subject, tense, denied=False, adverbs=0.2)
    second = speaker.about(found, tense, again(subject), complement.verb)
    return f"{first.statement()}, and {second.statement()}.", f"{first.verb_second()}, und {second.verb_second()}."


def subordinate(speaker: Speaker) -> SentencePair:
    """When the man came back, ... : als of the past, wenn of the present. The clause may come first."""
    tense = speaker.pick(("past", "present"))
    conjunctions = [
        ("when", "als" if tense == "past" else "wenn"),
        ("because", "weil"),
        ("although", "obwohl"),
        ("while", "während"),
    ]
    conjunctions += [("before", "bevor"), ("after", "nachdem")] if tense == "past" else [("if", "wenn"), ("if", "wenn")]
    word, wort = speaker.pick(conjunctions)
    first = speaker.somebody()
    inner = speaker.clause(first, "pluperfect" if word == "after" else tense, adverbs=0.2)
    main = speaker.clause(speaker.pick((again(first), speaker.somebody())), tense, adverbs=0.2)
    if speaker.random() < 0.5:
        clause = inner.verb_last(wort)
        return f"{word} {inner.statement()}, {main.statement()}.", f"{main.verb_second(clause + ',')}."
    return f"{main.statement()} {word} {inner.statement()}.", f"{main.verb_second()}, {inner.verb_last(wort)}."


def reported(speaker: Speaker) -> SentencePair:
    """The teacher knows (weiß) that ...; he asked if (ob), where, when, why ..."""
    subject, tense = speaker.somebody(plain=True), speaker.pick(("past", "present", "present"))
    if speaker.random() < 0.5:
        verb, (word, wort) = speaker.pick(TELLING), ("that", "dass")
    else:
        verb = speaker.pick(ASKING)
        word, wort = speaker.pick((("if", "ob"), ("where", "wo"), ("when", "wann"), ("why", "warum")))
    main = speaker.clause(subject, tense, given=Complement(verb), adverbs=0, deny=0.2)
    inner = speaker.clause(speaker.somebody(), speaker.tense(), adverbs=0 if word in ("where", "when") else 0.3)
    return f"{main.statement()} {word} {inner.statement()}.", f"{main.verb_second()}, {inner.verb_last(wort)}."


def trying(speaker: Speaker) -> SentencePair:
    """The boy tried to open the window. / Der Junge hat versucht, das Fenster aufzumachen."""
    subject, tense = speaker.somebody(), speaker.pick(("past", "present", "perfect", "future"))
    inner = speaker.complement("person", subject)
    aim = join(inner.early, inner.middle, inner.late, zu_infinitive(inner.verb))
    if speaker.random() < 0.3:
        going = speaker.going()
        clause = speaker.clause(subject, tense, given=going, adverbs=0, deny=0)
        link, aim = "in order to", f"um {aim}"
    else:
        clause = speaker.clause(subject, tense, given=Complement(speaker.pick(TRYING)), adverbs=0)
        link = "to"
    return (
        f"{clause.statement()} {link} {join(inner.verb.english[0], inner.english)}.",
        f"{clause.verb_second()}, {aim}.",
    )


def question(speaker: Speaker) -> SentencePair:
    """Did the man buy a book? Where does he work?"""
    word, wort = speaker.pick((("", ""), ("", ""), ("why", "warum"), ("where", "wo"), ("when", "wann")))
    adverbs = 0 if word in ("where", "when") else 0.3
    clause = speaker.clause(speaker.somebody(), speaker.tense(), deny=0, adverbs=adverbs)
    return f"{clause.question(word)}?", f"{clause.verb_first(wort)}?"


def who_question(speaker: Speaker) -> SentencePair:
    """Who saw the dog? (wer) Who did the dog see? (wen) Who does he help? (wem) What did he buy?"""
    tense = speaker.tense()
    if speaker.random() < 0.4:
        clause = speaker.clause(Phrase("who", "wer", 0, 1, None), tense, deny=0, adverbs=0.4)
        return f"{clause.statement()}?", f"{clause.verb_second()}?"
    verb = speaker.pick(SURE)
    person = "person" in verb.kinds and speaker.random() < 0.5
    if verb.german_preposition or (not person and (verb.case != ACCUSATIVE or not verb.kinds - {"person"})):
        return who_question(speaker)
    clause = speaker.around(
        Complement(verb, join(verb.preposition, verb.particle)), speaker.somebody(), tense, denied=False, adverbs=0.3
    )
    word, wort = ("who", "wen" if verb.case == ACCUSATIVE else "wem") if person else ("what", "was")
    return f"{clause.question(word)}?", f"{clause.verb_first(wort)}?"


def existence(speaker: Speaker) -> SentencePair:
    """There is a dog in the garden. / Es gibt einen Hund im Garten."""
    thing = speaker.until(
        lambda made: made.english.startswith(("a ", "an ", "many ", "two ", "three ", "some ")),
        lambda: speaker.phrase(speaker.pick(MOVABLE), ACCUSATIVE, owned=False),
    )
    where, wo = speaker.place()
    past = speaker.random() < 0.4
    plural = thing.form == PLURAL
    be = ("was", "were")[plural] if past else ("is", "are")[plural]
    gibt = "gab" if past else "gibt"
    if speaker.random() < 0.3:
        return f"{be} there {thing.english} {where}?", f"{gibt} es {thing.german} {wo}?"
    return f"there {be} {thing.english} {where}.", f"es {gibt} {thing.german} {wo}."


def circumstance(speaker: Speaker) -> SentencePair:
    """Because of the heavy rain (wegen des starken Regens), before the party (vor dem Fest): and then the verb."""
    tense = speaker.pick(("past", "present", "future", "had to"))
    if speaker.random() < 0.4:
        why = speaker.until(
            lambda made: made.english.startswith(("the ", "this ")),  # nobody owns the rain
            lambda: speaker.phrase(speaker.pick(WEATHER), GENITIVE),
        )
        first = f"because of {why.english}", f"wegen {why.german}"
    else:
        english, german, case = speaker.pick(
            (("before", "vor", DATIVE), ("after", "nach", DATIVE), ("during", "während", GENITIVE))
        )
        when = speaker.phrase(speaker.pick(EVENTS), case)
        first = f"{english} {when.english}", f"{german} {when.german}"
    clause = speaker.clause(speaker.somebody(), tense, adverbs=0.2)
    return f"{first[0]}, {clause.statement()}.", f"{clause.verb_second(first[1])}."


SENTENCES: tuple[tuple[Callable[[Speaker], SentencePair], int], ...] = (
    (statement, 24),
    (other_statement, 6),
    (description, 9),
    (far_pronoun, 7),
    (object_relative, 7),
    (reason, 9),
    (and_then, 5),
    (subordinate, 10),
    (reported, 8),
    (trying, 5),
    (question, 6),
    (who_question, 3),
    (existence, 3),
    (circumstance, 5),
)
WEIGHTED = tuple(sentence for sentence, weight in SENTENCES for _ in range(weight))


# --- splits ----------------------------------------------------------------------------------------------------------


def split_of(source: str) -> Split:
    """The split that a sentence belongs to, whatever the seed: a tenth is test, a tenth dev."""
    return {0: "test", 1: "dev"}.get(zlib.crc32(source.encode()) % 10, "train")  # type: ignore[return-value]


def random_pair(speaker: Speaker) -> SentencePair:
    source, target = speaker.pick(WEIGHTED)(speaker)
    target = target.replace(",,", ",").replace(",.", ".").replace(",?", "?")
    return source[0].upper() + source[1:], target[0].upper() + target[1:]


def pair(seed: int, split: Split, index: int) -> Pair:
    """The pair at a place of a corpus. A third of a test set is novel."""
    random = Random(f"{seed} {split} {index}")
    bold = split == "test" and index % 3 == 2
    while True:
        speaker = Speaker(random, bold=bold)
        source, target = random_pair(speaker)
        if split_of(source) == split and speaker.was_bold == bold:
            return Pair(source, target, "novel" if bold else "seen")


def pairs(seed: int, split: Split, start: int, stop: int) -> Iterator[Pair]:
    return (pair(seed, split, index) for index in range(start, stop))


if __name__ == "__main__":
    for one in pairs(1, "test", 0, int(sys.argv[1]) if len(sys.argv) > 1 else 20):
        print(f"{one.source}\n  {one.target}")
