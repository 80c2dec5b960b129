"""A treebank of English sentences by a grammar of ours, labels and tags as in the Penn Treebank (section 6.3).

So that parsing can be tried without anybody's data. Parsing it takes learning: where `with` and `in` belong depends on
the verb and the nouns, what `and` joins on what comes after it; `that`, `before`, `her` and most past forms have two
tags; there are questions, quotations, passives, infinitives (unary chains), relative clauses within each other.
A tree is a function of (seed, split, index). Phrases: tree_phrases.py.

By hand: python -m jobs.corpora.demo.treebank 20
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from random import Random

from jobs.corpora.demo import combinations as known
from jobs.corpora.demo.language import Split, split_of
from jobs.corpora.demo.tree_phrases import BE, Grammar, node
from transformer.parsing.trees import Leaf, Tree

DEPTH = 2  # clauses and phrases within each other, on either side of a verb
COMMA = ", ,"


def statement(say: Grammar) -> Tree:
    """The old man in the garden ate the soup with a spoon."""
    return say.clause(DEPTH, full_stop())


def full_stop() -> Leaf:
    return Leaf(".", ".")


def fronted(say: Grammar) -> Tree:
    """Yesterday, in the garden, before the party: and then a clause."""
    event = say.base(say.pick(known.EVENTS)).tree
    first = say.pick(
        (
            say.time(),
            say.time(),
            say.place(),
            node("PP", f"IN {say.pick(('before', 'after', 'during'))}", event),
        )
    )
    who = say.somebody(1)
    return node("S", first, COMMA if say.may(0.7) else None, who.tree, say.predicate(who.plural, 1), full_stop())


def subordinate(say: Grammar) -> Tree:
    """Before the man came back, she slept. The clause may come last, as a part of the verb phrase."""
    word = say.pick(("IN because", "IN although", "IN while", "IN before", "IN after", "IN if", "WRB when"))
    inner = say.clause(1)
    tag, _ = word.split()
    first = node("WHADVP", word) if tag == "WRB" else word
    clause = node("SBAR", first, inner)
    who = say.somebody(1)
    if say.may(0.5):
        return node("S", clause, COMMA, who.tree, say.predicate(who.plural, 1), full_stop())
    verb, rest = say.complement(1)
    return node("S", who.tree, say.verb_phrase(verb, who.plural, *rest, clause, deny=0.1), full_stop())


def joined(say: Grammar) -> Tree:
    """Two clauses, with or without a comma, or with a semicolon."""
    middle = say.pick(((COMMA, "CC and"), (COMMA, "CC but"), (None, "CC and"), (None, "CC or"), (None, ": ;")))
    return node("S", say.clause(1), *middle, say.clause(1), full_stop())


def quotation(say: Grammar) -> Tree:
    """`` I slept , '' said Anna ."""
    who = say.somebody(0)
    speech = node("VP", f"VBD {say.pick(('said', 'asked', 'answered', 'thought'))}")
    inner = say.clause(1)
    if say.may(0.5):
        return node("SINV", "`` ``", inner, COMMA, "'' ''", speech, who.tree, full_stop())
    verb = node("VP", *speech.children, COMMA, "`` ``", inner)
    return node("S", who.tree, verb, full_stop(), "'' ''")


def question(say: Grammar) -> Tree:
    """Did the man buy a book? Why can he not sleep? Is the soup cold?"""
    word = say.pick((None, None, "why", "where", "when"))
    who = say.somebody(1)
    if word is None and say.may(0.25):
        return node("SQ", BE["present", who.plural], who.tree, say.quality(1), ". ?")
    verb, rest = say.complement(1)
    tense = say.pick(("past", "present", "perfect", "future", "can", "must"))
    inverted = (say.helper(tense, who.plural), who.tree, node("VP", say.form(verb, tense), *rest))
    if word is None:
        return node("SQ", *inverted, ". ?")
    return node("SBARQ", node("WHADVP", f"WRB {word}"), node("SQ", *inverted), ". ?")


def who_question(say: Grammar) -> Tree:
    """Who saw the dog? Who did the dog see? What did he wait for?"""
    if say.may(0.5):
        return node("SBARQ", node("WHNP", "WP who"), node("SQ", say.predicate(False, 1)), ". ?")
    verb, who = say.pick(known.SURE), say.somebody(1)
    tense = say.pick(("past", "present", "perfect", "future"))
    gap = node("PP", f"IN {verb.preposition}") if verb.preposition else None
    phrase = node("VP", say.form(verb, tense), say.particle(verb), gap, say.adverbial())
    word = say.pick(("WP who",) if verb.kinds == {"person"} else ("WP what", "WP what", "WDT which"))
    which = Leaf("NN", say.pick(known.OBJECTS_OF[verb][0]).english[0]) if word == "WDT which" else None
    inverted = node("SQ", say.helper(tense, who.plural), who.tree, phrase)
    return node("SBARQ", node("WHNP", word, which), inverted, ". ?")


def existence(say: Grammar) -> Tree:
    """There is a dog in the garden."""
    thing = say.base(say.pick(known.MOVABLE))
    be = BE[say.pick(("present", "past")), thing.plural]
    return node("S", node("NP", "EX there"), node("VP", be, thing.tree, say.place()), full_stop())


def order(say: Grammar) -> Tree:
    """Open the box with a key!"""
    verb, rest = say.complement(1)
    please = node("INTJ", "UH please") if say.may(0.3) else None
    return node("S", please, node("VP", f"VB {verb.english[0]}", *rest), ". !")


def headline(say: Grammar) -> Tree:
    """The house of the king"""
    return say.phrase(say.pick(known.DESCRIBED), DEPTH).tree


SENTENCES: tuple[tuple[Callable[[Grammar], Tree], int], ...] = (
    (statement, 40),
    (fronted, 10),
    (subordinate, 10),
    (joined, 8),
    (quotation, 6),
    (question, 8),
    (who_question, 5),
    (existence, 4),
    (order, 5),
    (headline, 4),
)
WEIGHTED = tuple(sentence for sentence, weight in SENTENCES for _ in range(weight))


def capitalised(tree: Tree) -> Tree:
    """The first word that is a word begins with a capital letter."""
    for place, child in enumerate(tree.children):
        if isinstance(child, Leaf) and not child.word[0].isalpha():
            continue
        first = (
            Leaf(child.tag, child.word[0].upper() + child.word[1:]) if isinstance(child, Leaf) else capitalised(child)
        )
        return Tree(tree.label, (*tree.children[:place], first, *tree.children[place + 1 :]))
    return tree


def tree(seed: int, split: Split, index: int) -> Tree:
    """The tree at a place of a split; a sentence belongs to one split, whatever the seed."""
    say = Grammar(Random(f"treebank {seed} {split} {index}"))
    while True:
        made = capitalised(say.pick(WEIGHTED)(say))
        if split_of(" ".join(made.words)) == split:
            return made


def trees(seed: int, split: Split, start: int, stop: int) -> Iterator[Tree]:
    return (tree(seed, split, index) for index in range(start, stop))


def treebank(split: Split, count: int, seed: int = 1) -> Iterator[Tree]:
    """The first trees of a split."""
    return trees(seed, split, 0, count)


if __name__ == "__main__":
    for one in treebank("train", int(sys.argv[1]) if len(sys.argv) > 1 else 20):
        print(f"{' '.join(one.words)}\n{one.pretty()}\n")
