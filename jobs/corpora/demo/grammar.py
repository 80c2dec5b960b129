"""The grammar of the demo language: every phrase in English and in German.

Morphology is tables (articles, endings, pronouns, verb forms); syntax is one record, `Clause`, that can be put in any
of the orders that German has: verb second, verb first (questions), verb last (subordinate clauses).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from jobs.corpora.demo.lexicon import FEMININE, MASCULINE, NEUTER, NOMINATIVE, PLURAL, Noun, Verb

FIRST, THIRD, SEVERAL = range(3)  # the persons that a verb form tells apart: ich, er, sie/wir/Sie

# German forms by gender (masculine, feminine, neuter, plural) and case (nominative, accusative, dative, genitive).
THE = ("der den dem des", "die die der der", "das das dem des", "die die den der")
THIS = ("er en em es", "e e er er", "es es em es", "e e en er")  # endings of dies-, jed-, viel-, einig-
A = ("- en em es", "e e er er", "- - em es", "e e en er")  # endings of ein-, kein-, mein-
WEAK = ("e en en en", "e e en en", "e e en en", "en en en en")  # an adjective after der, dieser, jeder
MIXED = ("er en en en", "e e en en", "es es en en", "en en en en")  # after ein, kein, mein
STRONG = ("er en em en", "e e er er", "es es em en", "e e en er")  # after nothing, zwei, viele
RELATIVE = ("der den dem dessen", "die die der deren", "das das dem dessen", "die die denen deren")

Table = tuple[tuple[str, ...], ...]


def table(rows: tuple[str, ...], stem: str = "") -> Table:
    return tuple(tuple(stem + ending.replace("-", "") for ending in row.split()) for row in rows)


class Determiner(NamedTuple):
    english: str
    german: Table
    endings: Table  # of an adjective after it


NOTHING: Table = (("",) * 4,) * 4
DETERMINERS = {
    "the": Determiner("the", table(THE), table(WEAK)),
    "this": Determiner("this", table(THIS, "dies"), table(WEAK)),
    "these": Determiner("these", table(THIS, "dies"), table(WEAK)),
    "every": Determiner("every", table(THIS, "jed"), table(WEAK)),
    "a": Determiner("a", table(A, "ein"), table(MIXED)),
    "not a": Determiner("a", table(A, "kein"), table(MIXED)),
    "not any": Determiner("", table(A, "kein"), table(MIXED)),
    "no": Determiner("no", table(A, "kein"), table(MIXED)),
    "my": Determiner("my", table(A, "mein"), table(MIXED)),
    "his": Determiner("his", table(A, "sein"), table(MIXED)),
    "her": Determiner("her", table(A, "ihr"), table(MIXED)),
    "our": Determiner("our", table(A, "unser"), table(MIXED)),
    "your": Determiner("your", table(A, "Ihr"), table(MIXED)),
    "their": Determiner("their", table(A, "ihr"), table(MIXED)),
    "many": Determiner("many", table(THIS, "viel"), table(STRONG)),
    "some": Determiner("some", table(THIS, "einig"), table(STRONG)),
    "two": Determiner("two", (("zwei",) * 4,) * 4, table(STRONG)),
    "three": Determiner("three", (("drei",) * 4,) * 4, table(STRONG)),
    "": Determiner("", NOTHING, table(STRONG)),
}
RELATIVES = table(RELATIVE)
CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("von", "dem"): "vom",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}
PERSONAL = {  # English subject and object; German nominative, accusative, dative; person of the verb
    "I": ("I", "me", ("ich", "mich", "mir"), FIRST),
    "you": ("you", "you", ("Sie", "Sie", "Ihnen"), SEVERAL),
    "he": ("he", "him", ("er", "ihn", "ihm"), THIRD),
    "she": ("she", "her", ("sie", "sie", "ihr"), THIRD),
    "we": ("we", "us", ("wir", "uns", "uns"), SEVERAL),
    "they": ("they", "them", ("sie", "sie", "ihnen"), SEVERAL),
}
IT = {  # `it` follows the gender of its noun
    MASCULINE: ("er", "ihn", "ihm"),
    FEMININE: ("sie", "sie", "ihr"),
    NEUTER: ("es", "es", "ihm"),
}
REFLEXIVE = {"ich": "mich", "wir": "uns"}


class Phrase(NamedTuple):
    """A noun phrase or pronoun, in the case it was asked for in."""

    english: str
    german: str
    form: int  # its gender, or PLURAL
    person: int  # of the verb, as a subject
    noun: Noun | None  # what it is, or what a pronoun stands for


def pronoun(name: str, case: int) -> Phrase:
    subject, object_, german, person = PERSONAL[name]
    form = PLURAL if person == SEVERAL else MASCULINE
    return Phrase(subject if case == NOMINATIVE else object_, german[case], form, person, None)


def pronoun_for(phrase: Phrase, case: int) -> Phrase:
    """The pronoun that takes up a noun phrase again: `it` becomes er, sie or es."""
    assert phrase.noun is not None
    if phrase.form == PLURAL:
        return pronoun("they", case)._replace(noun=phrase.noun)
    if phrase.noun.pronoun != "it":
        return pronoun(phrase.noun.pronoun, case)._replace(form=phrase.form, noun=phrase.noun)
    return Phrase("it", IT[phrase.form][case], phrase.form, THIRD, phrase.noun)


def after_preposition(preposition: str, german: str) -> str:
    """in + dem Garten = im Garten."""
    first, _, rest = german.partition(" ")
    short = CONTRACTIONS.get((preposition, first)) if rest else None
    return f"{short} {rest}" if short else f"{preposition} {german}"


# --- verbs ---------------------------------------------------------------------------------------------------------

HABEN = {"present": ("habe", "hat", "haben"), "past": ("hatte", "hatte", "hatten")}
SEIN = {"present": ("bin", "ist", "sind"), "past": ("war", "war", "waren")}
WERDEN = ("werde", "wird", "werden")
MODALS = {  # English: as it is said plainly, its helper when asked or denied, the rest of it then; German by person
    "can": ("can", "can", "", ("kann", "kann", "können")),
    "must": ("must", "must", "", ("muss", "muss", "müssen")),
    "must not": ("must", "must", "", ("darf", "darf", "dürfen")),  # what English must not do, German may not
    "should": ("should", "should", "", ("sollte", "sollte", "sollten")),
    "want": ("want to", "do", "want to", ("will", "will", "wollen")),
    "could": ("could", "could", "", ("konnte", "konnte", "konnten")),
    "had to": ("had to", "did", "have to", ("musste", "musste", "mussten")),
    "wanted": ("wanted to", "did", "want to", ("wollte", "wollte", "wollten")),
}
WHEN = {  # which adverbs of time go with a tense
    "present": "present", "past": "past", "future": "future", "can": "future", "must": "future", "should": "future",
    "want": "future", "could": "past", "had to": "past", "wanted": "past",
}  # fmt: skip


class Forms(NamedTuple):
    """A verb in one tense and person."""

    before: str  # English, before an adverb: "has"
    after: str  # English, after it: "bought"
    helper: str  # English, when asked or denied: "does"
    rest: str  # "buy"
    finite: str  # German, in second place: "hat"
    end: str  # German, at the end: "gekauft"
    last: str  # German, both at the end: "gekauft hat"


def present(verb: Verb, person: int) -> str:
    if person == SEVERAL:
        return verb.infinitive
    if person == THIRD or verb.present in ("weiß", "mag"):
        return verb.present
    if verb.infinitive.endswith("eln"):
        return verb.infinitive[:-3] + "le"
    return verb.infinitive.removesuffix("n").removesuffix("e") + "e"


def simple_past(verb: Verb, person: int) -> str:
    if person != SEVERAL:
        return verb.past
    return verb.past + ("n" if verb.past.endswith("e") else "en")


@cache
def conjugate(verb: Verb, person: int, tense: str) -> Forms:
    base, third, past, participle = verb.english
    do, have = ("does", "has") if person == THIRD else ("do", "have")
    perfect = SEIN if verb.auxiliary == "sein" else HABEN
    whole = verb.prefix + verb.infinitive
    if tense == "present" or (tense == "past" and verb.past):
        finite = present(verb, person) if tense == "present" else simple_past(verb, person)
        plain = past if tense == "past" else third if person == THIRD else base
        helper = "did" if tense == "past" else do
        return Forms("", plain, helper, base, finite, verb.prefix, verb.prefix + finite)
    if tense == "past":
        finite = perfect["present"][person]
        return Forms("", past, "did", base, finite, verb.participle, f"{verb.participle} {finite}")
    if tense in ("perfect", "pluperfect"):
        finite = perfect["present" if tense == "perfect" else "past"][person]
        helper = have if tense == "perfect" else "had"
        return Forms(helper, participle, helper, participle, finite, verb.participle, f"{verb.participle} {finite}")
    if tense == "future":
        return Forms("will", base, "will", base, WERDEN[person], whole, f"{whole} {WERDEN[person]}")
    if tense == "like":  # likes to swim: schwimmt gern; the adverb is put in with the others
        plain = "likes to" if person == THIRD else "like to"
        finite = present(verb, person)
        return Forms("", f"{plain} {base}", do, f"like to {base}", finite, verb.prefix, verb.prefix + finite)
    plain, helper, rest, german = MODALS[tense]
    if tense == "want" and person == THIRD:
        plain = "wants to"
    before, after = (plain, base) if plain == helper else ("", f"{plain} {base}")
    if helper == "do":
        helper = do
    return Forms(before, after, helper, f"{rest} {base}".strip(), german[person], whole, f"{whole} {german[person]}")


def zu_infinitive(verb: Verb) -> str:
    return f"{verb.prefix}zu{verb.infinitive}" if verb.prefix else f"zu {verb.infinitive}"


def is_unsaid(verb: Verb, person: int, tense: str) -> bool:
    """They put: today or yesterday? Nobody says so here, nor that somebody likes to like."""
    base, _, past, _ = verb.english
    if tense == "like":
        return bool(verb.past)
    return base == past and tense in ("past", "present") and person != THIRD


# --- clauses -------------------------------------------------------------------------------------------------------


def join(*words: str) -> str:
    return " ".join([word for word in words if word])


class Clause(NamedTuple):
    """One clause in both languages; its methods are the orders it can be said in. `join` drops what is empty."""

    subject: Phrase
    english: str  # without its subject: "has bought a book"
    helper: str  # the same, asked: "has" ... "bought a book"
    rest: str
    finite: str
    middle: str
    end: str
    last: str

    def statement(self) -> str:
        return f"{self.subject.english} {self.english}"

    def verb_second(self, first: str = "") -> str:
        """Der Mann hat ein Buch gekauft. With something else first: Gestern hat der Mann ein Buch gekauft."""
        if first:
            return join(first, self.finite, self.subject.german, self.middle, self.end)
        return join(self.subject.german, self.finite, self.middle, self.end)

    def verb_last(self, conjunction: str) -> str:
        """weil der Mann ein Buch gekauft hat"""
        return join(conjunction, self.subject.german, self.middle, self.last)

    def question(self, word: str = "") -> str:
        return join(word, self.helper, self.subject.english, self.rest)

    def verb_first(self, word: str = "") -> str:
        """Hat der Mann ein Buch gekauft? With a question word: Wann hat der Mann ..."""
        return join(word, self.finite, self.subject.german, self.middle, self.end)
