"""Random phrases and clauses in English as Penn trees, of the demo language's words that go together.

Where a phrase belongs depends on the words: `opened the box with a key` is done with it, `saw the box with a key` tells
which box; `in the garden` says where somebody works, but which tree he likes. Sentences: treebank.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple, TypeVar

from jobs.corpora.demo import combinations as known
from jobs.corpora.demo import lexicon
from jobs.corpora.demo.lexicon import ALL_NOUNS, Noun, Verb
from transformer.parsing.trees import Leaf, Tree

T = TypeVar("T")
Node = Tree | Leaf

NAMED = {noun.english[0]: noun for noun in ALL_NOUNS}
DONE_WITH = {  # a verb, and what it is done with: this `with` belongs to the verb, every other one to the noun
    "open": "key knife",
    "close": "key",
    "eat": "spoon knife",
    "drink": "spoon glass",
    "wash": "water milk",
    "clean": "water bucket",
    "repair": "knife spoon key",
    "carry": "bag bucket box suitcase",
    "feed": "spoon bottle",
    "save": "boat horse",
    "follow": "car bicycle horse",
    "pick": "car bicycle boat",
    "steal": "knife bag",
    "paint": "spoon glass",
}
HAVING = {  # a kind of noun, and what such a one may have
    "person": "hat coat dress scarf jacket bag suitcase knife key book newspaper dog car bicycle horse spoon glass",
    "animal": "blanket ring bottle flower",
    "place": "door window wall tree garden bench",
    "bag": "key ring picture knife spoon",
    "upright": "flower rose water milk spoon",
    "surface": "book lamp cup glass vase knife bottle",
    "vehicle": "door window box suitcase",
    "food": "cheese egg apple milk potato",
    "picture": "flower tree horse boat",
}
NOTICED = ("see", "love", "hate", "like", "know", "remember", "miss", "have", "buy", "sell", "hear", "understand")
PRONOUNS = ("I", "you", "he", "she", "we", "they")
PLURAL_PRONOUNS = frozenset(("I", "you", "we", "they"))  # as far as a verb is concerned
TENSES = ("past",) * 6 + ("present",) * 5 + ("perfect", "perfect", "future", "can", "must", "should")
BE = {
    ("present", False): "VBZ is",
    ("present", True): "VBP are",
    ("past", False): "VBD was",
    ("past", True): "VBD were",
}
TIMES = tuple(english for when in known.TIMES.values() for english, _ in when)


class Phrase(NamedTuple):
    """Somebody or something: its tree, how its verb agrees, and its noun, if it has one."""

    tree: Tree
    plural: bool
    noun: Noun | None = None


def leaf(tagged: str) -> Leaf:
    tag, word = tagged.split()
    return Leaf(tag, word)


def node(label: str, *children: Node | str | None) -> Tree:
    """A constituent of what there is; a string is a leaf: its tag and its word."""
    return Tree(label, tuple(leaf(child) if isinstance(child, str) else child for child in children if child))


class Grammar:
    """Says phrases and clauses at random. `depth` is how many a phrase may still hold within each other."""

    def __init__(self, random: Random) -> None:
        self.random = random.random

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self.random() * len(choices))]

    def may(self, chance: float) -> bool:
        return self.random() < chance

    # --- noun phrases ------------------------------------------------------------------------------------------------

    def base(self, noun: Noun, *, plain: bool = False) -> Phrase:
        """the old man, two dogs, her mother's coat, milk"""
        singular, plural = noun.english
        many = bool(plural) and self.may(0.25)
        word = Leaf("NNS", plural) if many else Leaf("NN", singular)
        determiners: tuple[str, ...] = ("DT the", "DT these", "JJ many", "CD two", "PRP$ my", "PRP$ her")
        if not many:
            determiners = ("DT the", "DT the", "DT this", "PRP$ his", "PRP$ her", "DT a" if plural else "DT this")
        adjective = self.pick(known.ADJECTIVES_OF[noun][0] or (None,)) if not plain and self.may(0.3) else None
        described = Leaf("JJ", adjective.english) if adjective else None
        if self.may(0.05) and not plain:
            owner = node("NP", "DT the", Leaf("NN", self.pick(known.PERSONS).english[0]), "POS 's")
            return Phrase(node("NP", owner, described, word), many, noun)
        determiner = self.pick(determiners)
        if determiner == "DT a" and (described or word).word[0] in "aeiou":
            determiner = "DT an"
        return Phrase(node("NP", determiner, described, word), many, noun)

    def phrase(self, noun: Noun, depth: int) -> Phrase:
        """With what tells which one is meant, or with another one."""
        found = self.base(noun)
        chance = self.random() if depth > 0 else 1.0
        if chance < 0.05:
            return found._replace(tree=node("NP", found.tree, self.of(depth)))
        if chance < 0.09 and self.having(noun, None):
            return found._replace(tree=node("NP", found.tree, self.with_(self.having(noun, None))))
        if chance < 0.12:
            return found._replace(tree=node("NP", found.tree, self.place()))
        if chance < 0.24:
            return found._replace(tree=node("NP", found.tree, self.relative(found, depth - 1)))
        if chance < 0.33:
            others = known.of_kind(noun.kinds - {noun.english[0]}) or (noun,)
            other = self.phrase(self.pick(others), depth - 1).tree
            word = self.pick(("CC and", "CC and", "CC or"))
            return Phrase(node("NP", found.tree, word, other), True, None)
        if chance < 0.37:
            aside = node("NP", f"CD {self.pick(('two', 'three', 'five', 'ten'))}")
            return found._replace(tree=node("NP", found.tree, node("PRN", "-LRB- -LRB-", aside, "-RRB- -RRB-")))
        return found

    def somebody(self, depth: int) -> Phrase:
        chance = self.random()
        if chance < 0.25:
            word = self.pick(PRONOUNS)
            return Phrase(node("NP", Leaf("PRP", word)), word in PLURAL_PRONOUNS)
        if chance < 0.4:
            return Phrase(node("NP", Leaf("NNP", self.pick(known.NAMES)[0])), False)
        return self.phrase(self.pick(known.PERSONS if chance < 0.85 else known.ANIMALS), depth)

    def something(self, nouns: Sequence[Noun], depth: int) -> Phrase:
        if self.may(0.08):
            return Phrase(node("NP", self.pick(("PRP it", "PRP them", "PRP him", "PRP her"))), False)
        return self.phrase(self.pick(nouns), depth)

    def relative(self, phrase: Phrase, depth: int) -> Tree:
        """who bought the dog; that the woman waits for; the woman saw (without that)"""
        assert phrase.noun is not None
        verbs = known.VERBS_OF[phrase.noun]
        if "person" in phrase.noun.kinds and (self.may(0.6) or not verbs):
            return node("SBAR", node("WHNP", "WP who"), node("S", self.predicate(phrase.plural, depth)))
        if not verbs:
            return node(
                "SBAR", node("WHNP", "WDT that"), node("S", self.verb_phrase(self.pick(LASTING), phrase.plural))
            )
        verb, who = self.pick(verbs), self.somebody(0)
        gap = node("PP", f"IN {verb.preposition}") if verb.preposition else None
        inner = node("S", who.tree, self.verb_phrase(verb, who.plural, self.particle(verb), gap))
        return node("SBAR", None if self.may(0.3) else node("WHNP", "WDT that"), inner)

    # --- prepositional phrases ---------------------------------------------------------------------------------------

    def of(self, depth: int) -> Tree:
        return node("PP", "IN of", self.phrase(self.pick(known.PERSONS), depth - 1).tree)

    def having(self, noun: Noun, verb: Verb | None) -> list[Noun]:
        """What it may have that the verb is not done with."""
        out = DONE_WITH.get(verb.english[0], "").split() if verb else []
        words = [word for kind in sorted(noun.kinds) for word in HAVING.get(kind, "").split()]
        return [NAMED[word] for word in words if word not in out and word != noun.english[0]]

    def with_(self, nouns: Sequence[Noun]) -> Tree:
        return node("PP", "IN with", self.base(self.pick(nouns)).tree)

    def place(self) -> Tree:
        noun = self.pick(known.PLACES if self.may(0.75) else known.SURFACES)
        word = "on" if noun in known.SURFACES else "in" if "in" in noun.kinds else "at"
        return node("PP", f"IN {word}", self.base(noun, plain=True).tree)

    def time(self) -> Tree:
        """yesterday, last week, on Monday, now"""
        words = self.pick(TIMES).split()
        if words[0] in ("on", "in"):
            inner = node("NP", *(Leaf("NNP" if w[0].isupper() else "DT" if w == "the" else "NN", w) for w in words[1:]))
            return node("PP", Leaf("IN", words[0]), inner)
        if len(words) == 2:
            return node("NP", Leaf("DT" if words[0] == "every" else "JJ", words[0]), Leaf("NN", words[1]))
        return node("ADVP", Leaf("RB", words[0])) if words[0] in ("now", "soon") else node("NP", Leaf("NN", words[0]))

    # --- verb phrases ------------------------------------------------------------------------------------------------

    def particle(self, verb: Verb) -> Tree | None:
        return node("PRT", f"RP {verb.particle}") if verb.particle else None

    def verb_phrase(self, verb: Verb, plural: bool, *rest: Tree | None, tense: str = "", deny: float = 0.0) -> Tree:
        """A verb in some tense, or denied, and what follows it."""
        base, third, past, _ = verb.english
        tense = tense or self.pick(TENSES)
        denied = self.pick(("RB not", "RB n't")) if self.may(deny) else None
        if tense in ("past", "present") and not denied:
            often = node("ADVP", f"RB {self.pick(known.FREQUENCIES)[0]}") if deny and self.may(0.1) else None
            form = f"VBD {past}" if tense == "past" else f"VBP {base}" if plural else f"VBZ {third}"
            return node("VP", often, form, *rest)
        return node("VP", self.helper(tense, plural), denied, node("VP", self.form(verb, tense), *rest))

    def helper(self, tense: str, plural: bool) -> str:
        if tense in ("past", "present"):
            return "VBD did" if tense == "past" else "VBP do" if plural else "VBZ does"
        have = "VBP have" if plural else "VBZ has"
        return {"perfect": have, "future": "MD will"}.get(tense, f"MD {tense}")

    def form(self, verb: Verb, tense: str) -> str:
        return f"VBN {verb.english[3]}" if tense == "perfect" else f"VB {verb.english[0]}"

    def complement(self, depth: int) -> tuple[Verb, list[Tree | None]]:
        """A verb, what it needs, and where, when, how or with what: the place of each depends on the words."""
        chance = self.random()
        if chance < 0.18:
            verb = self.pick(LASTING)
            return verb, [self.particle(verb), self.adverbial()]
        if chance < 0.27:
            verb = self.pick(known.GIVING)
            gift = self.something(known.OBJECTS_OF[verb][0], depth - 1).tree
            person = self.base(self.pick(known.PERSONS)).tree
            turned = verb.english[0] != "explain" and self.may(0.5)
            return verb, [person, gift] if turned else [gift, node("PP", "TO to", person)]
        if chance < 0.34:
            verb = self.pick(known.GOING)
            return verb, [node("PP", "TO to", self.base(self.pick(known.PLACES)).tree), self.adverbial()]
        verb = self.pick(known.TRANSITIVE["person"])
        found = self.something(known.OBJECTS_OF[verb][0], depth)
        simple = found.noun is not None and not any(isinstance(child, Tree) for child in found.tree.children)
        here, there = self.attached(verb, found.noun) if simple and found.noun and self.may(0.5) else (None, None)
        thing = node("NP", found.tree, here) if here else found.tree
        thing = node("PP", f"IN {verb.preposition}", thing) if verb.preposition else thing
        return verb, [self.particle(verb), thing, there, None if here or there else self.adverbial()]

    def attached(self, verb: Verb, noun: Noun) -> tuple[Tree | None, Tree | None]:
        """A prepositional phrase after an object: the noun's or the verb's."""
        base = verb.english[0]
        tools, had = DONE_WITH.get(base, "").split(), self.having(noun, verb)
        if tools and self.may(0.6):
            return None, self.with_([NAMED[word] for word in tools])
        if had and self.may(0.6):
            return self.with_(had), None
        place = self.place()
        return (place, None) if base in NOTICED else (None, place)

    def adverbial(self) -> Tree | None:
        chance = self.random()
        if chance < 0.12:
            return self.place()
        if chance < 0.3:
            return self.time()
        return node("ADVP", f"RB {self.pick(known.MANNERS)[0]}") if chance < 0.36 else None

    def predicate(self, plural: bool, depth: int) -> Tree:
        """A whole verb phrase, which may be two, an infinitive, a passive, or be and an adjective."""
        chance = self.random()
        if depth > 0 and chance < 0.08:
            first, second = self.predicate(plural, 0), self.predicate(plural, depth - 1)
            return node("VP", first, self.pick(("CC and", "CC or", "CC but")), second)
        if depth > 0 and chance < 0.16:
            verb, rest = self.complement(depth - 1)
            aim = node("S", node("VP", "TO to", node("VP", f"VB {verb.english[0]}", *rest)))
            return self.verb_phrase(self.pick(known.TRYING), plural, aim, deny=0.1)
        if depth > 0 and chance < 0.24:
            verbs, word = (known.TELLING, "IN that") if self.may(0.6) else (known.ASKING, "IN if")
            return self.verb_phrase(self.pick(verbs), plural, node("SBAR", word, self.clause(depth - 1)), deny=0.1)
        be = BE[self.pick(("present", "past")), plural]
        if chance < 0.3:
            verb = self.pick(PASSIVE)
            by = node("PP", "IN by", self.phrase(self.pick(known.PERSONS), depth - 1).tree) if self.may(0.6) else None
            return node("VP", be, node("VP", f"VBN {verb.english[3]}", by, self.adverbial()))
        if chance < 0.4:
            return node("VP", be, self.quality(depth))
        verb, rest = self.complement(depth)
        return self.verb_phrase(verb, plural, *rest, deny=0.15)

    def quality(self, depth: int) -> Tree:
        """old, very old, older than the church, old and tired"""
        chance = self.random()
        if chance < 0.25:
            more = self.pick([more for more, _ in known.COMPARATIVES.values() if " " not in more])
            than = node("PP", "IN than", self.phrase(self.pick(known.DESCRIBED), depth - 1).tree)
            return node("ADJP", f"JJR {more}", than)
        first, second = (Leaf("JJ", self.pick(lexicon.ALL_ADJECTIVES).english) for _ in range(2))
        if chance < 0.4:
            return node("ADJP", first, "CC and", second)
        return node("ADJP", f"RB {self.pick(('very', 'too', 'not'))}" if chance < 0.7 else None, first)

    def clause(self, depth: int, *after: Node) -> Tree:
        who = self.somebody(depth - 1)
        return node("S", who.tree, self.predicate(who.plural, depth), *after)


LASTING = known.ACTING["person"]
PASSIVE = tuple(verb for verb in known.SURE if not verb.preposition and not verb.particle and not verb.past)
