"""Labelled bracket scores of parses by EVALB's rules with COLLINS.prm, as all figures of Table 4 are (section 6.3).

Labels are cut at their first - or =. Words whose tag is punctuation or -NONE- go before spans are numbered, and with
them constituents without a word; TOP is not counted; ADVP and PRT are equal. A predicted constituent is right where the
gold tree has one of the same label over the same words, each used once. Precision and recall are over all sentences.

EVALB leaves a sentence whose words are not the gold tree's out of its totals, which rewards broken output. In `strict`
figures such a sentence counts as wrong: all of its constituents, predicted and gold, no word's tag, not complete.
Both are given, with the number of such sentences. Give gold tags to a prediction first (`rebuild`, `with_tags`): a
predicted tag of punctuation would remove a word.

    found = score(gold, predicted)
    found.strict.f1, found.evalb.f1, found.evalb.errors, found.strict_40.f1
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Final, NamedTuple

from transformer.parsing.trees import TOP, TRACE, Leaf, Tree

DELETED: Final = frozenset((TOP, TRACE, ",", ":", "``", "''", "."))  # labels of constituents and tags of words
EQUAL: Final = {"ADVP": "PRT"}
SHORT: Final = 40  # words of a short sentence, punctuation counted
BINS: Final = (10, 20, 30, 40, 60)  # the longest sentence of each group by length; a last group has no end
SIGNATURE: Final = "evalb|COLLINS.prm|labelled|gold-tags"
SIGNATURE_STRICT: Final = f"{SIGNATURE}|strict"  # sentences whose words do not match count as wrong
SIGNATURE_OWN_TAGS: Final = "evalb|COLLINS.prm|labelled|own-tags|strict"  # of a parse whose tags were predicted

_CUT = re.compile("[-=].*", re.DOTALL)


class Bracket(NamedTuple):
    """A constituent as it is compared: over the words that are left, from `start` up to but not including `end`."""

    label: str
    start: int
    end: int


@dataclass(frozen=True)
class Scored:
    """A tree as EVALB sees it. `constituents`: for every constituent in the order of `nodes`, None if not counted."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    constituents: tuple[Bracket | None, ...]

    @property
    def brackets(self) -> Counter[Bracket]:
        return Counter([bracket for bracket in self.constituents if bracket is not None])


def scored(tree: Tree) -> Scored:
    """What is left of a tree when punctuation, traces and empty constituents are gone."""
    leaves: list[Leaf] = []
    constituents: list[Bracket | None] = []
    waiting: list[Tree | Leaf | tuple[int, str, int]] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Leaf):
            leaves += [node] if node.tag not in DELETED else []
        elif isinstance(node, Tree):
            waiting.append((len(constituents), _compared(_CUT.sub("", node.label)), len(leaves)))
            waiting.extend(reversed(node.children))
            constituents.append(None)
        else:  # the end of a constituent
            place, label, start = node
            if start < len(leaves) and label not in DELETED:
                constituents[place] = Bracket(label, start, len(leaves))
    words, tags = tuple(leaf.word for leaf in leaves), tuple(leaf.tag for leaf in leaves)
    return Scored(words, tags, tuple(constituents))


def _compared(label: str) -> str:
    return EQUAL.get(label, label)


@dataclass(frozen=True)
class Counts:
    """What is added up over sentences; `errors`: sentences whose words are not the gold tree's."""

    sentences: int = 0
    errors: int = 0
    compared: int = 0  # sentences that the other counts are of
    gold: int = 0  # constituents
    predicted: int = 0
    matched: int = 0
    complete: int = 0  # sentences that are right as a whole
    crossing: int = 0  # predicted constituents that overlap a gold one, neither within the other
    without_crossing: int = 0  # sentences
    words: int = 0  # punctuation not counted
    right_tags: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*[mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)])


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Percentages, `crossing` a number per sentence, and what they were computed from."""

    precision: float
    recall: float
    f1: float
    complete: float
    crossing: float
    without_crossing: float
    tag_accuracy: float
    counts: Counts

    @property
    def errors(self) -> int:
        return self.counts.errors


def figures(counts: Counts) -> Figures:
    """Shares of nothing are 0."""
    return Figures(
        precision=_share(counts.matched, counts.predicted),
        recall=_share(counts.matched, counts.gold),
        f1=_share(2 * counts.matched, counts.gold + counts.predicted),
        complete=_share(counts.complete, counts.compared),
        crossing=_share(counts.crossing, counts.compared) / 100,
        without_crossing=_share(counts.without_crossing, counts.compared),
        tag_accuracy=_share(counts.right_tags, counts.words),
        counts=counts,
    )


def _share(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


@dataclass(frozen=True)
class SentenceScore:
    """One sentence: `length` counts all words of the gold tree, traces not. EVALB's counts, and the strict ones."""

    length: int
    evalb: Counts
    strict: Counts

    @property
    def f1(self) -> float:
        """Strict; 100 where neither tree has a constituent that counts."""
        counts = self.strict
        return figures(counts).f1 if counts.gold + counts.predicted else 100.0


def sentence_score(gold: Tree, predicted: Tree | None) -> SentenceScore:
    """Compare a parse with the gold tree; None: there is no parse.

    EVALB skips a prediction of nothing, or of nothing but punctuation, and calls it no error. Strictly it counts as
    wrong, unless the gold tree is nothing but punctuation, too.
    """
    length = sum(leaf.tag != TRACE for leaf in gold.leaves)
    right = scored(gold)
    found = scored(predicted) if predicted is not None else Scored((), (), ())
    theirs, ours = right.brackets, found.brackets
    if not right.words and not found.words:
        return SentenceScore(length, Counts(sentences=1), Counts(sentences=1))
    if right.words != found.words:
        wrong = Counts(
            sentences=1,
            errors=1,
            compared=1,
            gold=theirs.total(),
            predicted=ours.total(),
            words=len(right.words),
        )
        return SentenceScore(length, Counts(sentences=1, errors=int(bool(found.words))), wrong)
    crossing = sum(number * _crosses(bracket, theirs) for bracket, number in ours.items())
    counts = Counts(
        sentences=1,
        compared=1,
        gold=theirs.total(),
        predicted=ours.total(),
        matched=(theirs & ours).total(),
        complete=int(theirs == ours),
        crossing=crossing,
        without_crossing=int(crossing == 0),
        words=len(right.words),
        right_tags=sum(_compared(a) == _compared(b) for a, b in zip(right.tags, found.tags, strict=True)),
    )
    return SentenceScore(length, counts, counts)


def _crosses(bracket: Bracket, others: Iterable[Bracket]) -> bool:
    _, start, end = bracket
    return any(o.start < start < o.end < end or start < o.start < end < o.end for o in others)


@dataclass(frozen=True, kw_only=True)
class LengthGroup:
    """Strict figures of the sentences of `shortest` to `longest` words (None: no end)."""

    shortest: int
    longest: int | None
    strict: Figures


@dataclass(frozen=True, kw_only=True)
class ParseScores:
    """Figures of a treebank, those of sentences of at most 40 words, and of groups by length."""

    strict: Figures
    evalb: Figures
    strict_40: Figures
    evalb_40: Figures
    by_length: tuple[LengthGroup, ...]


def score(gold: Sequence[Tree], predicted: Sequence[Tree | None]) -> ParseScores:
    """All figures of a treebank; the trees of a sentence have the same place in both."""
    if len(gold) != len(predicted):
        raise ValueError(f"{len(predicted)} parses cannot be scored on {len(gold)} gold trees.")
    return total([sentence_score(right, found) for right, found in zip(gold, predicted, strict=True)])


def total(sentences: Sequence[SentenceScore]) -> ParseScores:
    """The figures of sentences that were compared before."""
    short = [sentence for sentence in sentences if sentence.length <= SHORT]
    groups = []
    for shortest, longest in zip((1, *[end + 1 for end in BINS]), (*BINS, None), strict=True):
        inside = [s for s in sentences if shortest <= s.length and (longest is None or s.length <= longest)]
        if inside:
            groups.append(LengthGroup(shortest=shortest, longest=longest, strict=_sum(s.strict for s in inside)))
    return ParseScores(
        strict=_sum(s.strict for s in sentences),
        evalb=_sum(s.evalb for s in sentences),
        strict_40=_sum(s.strict for s in short),
        evalb_40=_sum(s.evalb for s in short),
        by_length=tuple(groups),
    )


def _sum(counts: Iterable[Counts]) -> Figures:
    return figures(sum(counts, Counts()))


def right_constituents(gold: Tree, predicted: Tree) -> tuple[list[bool | None], list[bool | None]]:
    """For every constituent of both trees, in the order of `nodes`, whether the other has it; None: it is not counted.

    Of equal ones in a unary chain the outermost are taken to match. Without equal words nothing does.
    """
    sides = scored(gold), scored(predicted)
    shared = sides[0].brackets & sides[1].brackets if sides[0].words == sides[1].words else Counter[Bracket]()
    return _taken(sides[0], shared), _taken(sides[1], shared)


def _taken(side: Scored, shared: Counter[Bracket]) -> list[bool | None]:
    left = shared.copy()
    taken: list[bool | None] = []
    for bracket in side.constituents:
        if bracket is None:
            taken.append(None)
        else:
            taken.append(left[bracket] > 0)
            left[bracket] -= 1
    return taken
