"""Constrained search: what it finds is a well-formed tree over the words, and the best that the model knows."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest
import torch
from test_beam import opinionated

from transformer import beam
from transformer.beam import Trees
from transformer.config import END, SearchConfig
from transformer.parsing.tree_symbols import Derivation, rebuild
from transformer.parsing.well_formed import Sentence, TreeSymbols, WellFormed

NAMES = {4: "(S", 5: ")S", 6: "(NP", 7: ")NP", 8: "XX", 9: "YY"}
IDS = {name: number for number, name in NAMES.items()}
SYMBOLS = TreeSymbols(opens=(4, 6), closes=(5, 7), words=(8, 9))
VOCABULARY = 12


def allowed_by_derivation(at: Derivation) -> set[int]:
    may = at.next()
    found = {number for number, name in NAMES.items() if name[0] == "(" and may.open}
    found |= {8, 9} if may.word else set()
    found |= {IDS[f"){may.close}"]} if may.close else set()
    return found | ({END} if may.end else set())


@pytest.mark.parametrize("seed", range(30))
def test_the_mask_is_the_derivations(seed: int) -> None:
    """Whole batches walk at random, hypotheses follow one another, and every mask is what the slow rules say."""
    rng = random.Random(seed)
    words = [rng.randint(1, 6) for _ in range(3)]
    limits = [count + rng.randint(2, 40) for count in words]
    openings, width = rng.choice([(1, 3), (20, 3), (3, 2)])
    state = WellFormed(SYMBOLS, [Sentence(count) for count in words], torch.tensor(limits), openings)
    slow = [[Derivation.start(count, limit, openings)] for count, limit in zip(words, limits, strict=True)]
    for _ in range(max(limits) + 1):
        now = len(slow[0])
        ids, found, _ = state.most_probable(torch.zeros(3 * now, VOCABULARY), VOCABULARY)
        parents, tokens = [], []
        for sentence, hypotheses in enumerate(slow):
            choices = []
            for place, at in enumerate(hypotheses):
                row = sentence * now + place
                mine = {int(i) for i, score in zip(found[row], ids[row], strict=True) if score > -math.inf}
                assert mine == allowed_by_derivation(at), at
                assert mine, "no dead end"
                choices += [(place, token) for token in mine]
            drawn = [rng.choice(choices) for _ in range(width)]
            parents.append([place for place, _ in drawn])
            tokens.append([token for _, token in drawn])
            slow[sentence] = [
                hypotheses[place] if token == END else hypotheses[place].after(NAMES[token]) for place, token in drawn
            ]
        state.follow(torch.tensor(parents), torch.tensor(tokens))
        for sentence in range(3):  # what has ended stays ended
            assert all(at.room >= 0 for at in slow[sentence])
        if seed % 3 == 0 and len(slow) == 3 and state.used == 4:
            kept = torch.tensor([2, 0, 1])
            state.select(kept)
            slow = [slow[2], slow[0], slow[1]]


def every_tree(words: int, limit: int, at: Derivation | None = None) -> Iterator[list[int]]:
    at = at or Derivation.start(words, limit)
    if at.next().end:
        yield []
    for token in allowed_by_derivation(at) - {END}:
        for rest in every_tree(words, limit, at.after(NAMES[token])):
            yield [token, *rest]


@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_the_best_of_all_trees(seed: int) -> None:
    model = opinionated(seed, VOCABULARY)
    source, words = [8, 9, 10], 2
    config = SearchConfig(beam=400, alpha=0.3, extra_length=3, n_best=3, well_formed=True)
    found = beam.search(model, [source], config, trees=Trees(SYMBOLS, [Sentence(words)]))[0]
    trees = list(every_tree(words, limit=6))
    scored = beam.forced(model, [source] * len(trees), trees)
    scores = [
        forced.log_probability / float(beam.length_penalty(len(tree) + 1, config.alpha))
        for tree, forced in zip(trees, scored, strict=True)
    ]
    best = sorted(zip(scores, trees, strict=True), reverse=True)[:3]
    assert [list(each.ids) for each in found] == [tree for _, tree in best]
    assert [each.score for each in found] == pytest.approx([score for score, _ in best], rel=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_model_every_output_is_a_tree_over_the_words(seed: int) -> None:
    model = opinionated(seed, VOCABULARY)
    rng = random.Random(seed)
    sources = [[rng.randint(4, VOCABULARY - 1) for _ in range(rng.randint(1, 9))] for _ in range(7)]
    words = [rng.randint(1, 5) for _ in sources]
    config = SearchConfig(beam=rng.choice([1, 3, 7]), alpha=0.3, extra_length=rng.choice([1, 30]), well_formed=True)
    together = beam.search(model, sources, config, trees=Trees(SYMBOLS, [Sentence(count) for count in words]))
    for source, count, (best, *_) in zip(sources, words, together, strict=True):
        symbols = [NAMES[number].replace("YY", "XX") for number in best.ids]
        _, repaired = rebuild(symbols, ["w"] * count)
        assert not repaired, symbols
        alone = beam.search(model, [source], config, trees=Trees(SYMBOLS, [Sentence(count)]))[0][0]
        assert alone.ids == best.ids, "neighbours change nothing"
        (forced,) = beam.forced(model, [source], [best.ids])
        assert best.log_probability == pytest.approx(forced.log_probability, abs=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_words_that_stand_in_the_tree_are_the_sources_own(seed: int) -> None:
    """Tags "none": between the brackets stand the subwords of the sentence, in order, and no word is broken."""
    model = opinionated(seed, VOCABULARY)
    symbols = TreeSymbols(opens=(4, 6), closes=(5, 7), words=(), word_names=())
    sources = [[8, 9, 9, 10], [11], [8, 8, 10]]
    firsts = [(True, False, True, False), (True,), (True, True, True)]
    trees = Trees(symbols, [Sentence(sum(f), tuple(s), f) for s, f in zip(sources, firsts, strict=True)])
    config = SearchConfig(beam=3, alpha=0.3, extra_length=30, well_formed=True)
    for source, first, (best, *_) in zip(
        sources, firsts, beam.search(model, sources, config, trees=trees), strict=True
    ):
        assert [number for number in best.ids if number > 7] == source
        inside = [place for place, number in enumerate(best.ids) if number > 7]
        assert all(first[n] or place == inside[n - 1] + 1 for n, place in enumerate(inside)), "a bracket inside a word"
        names = [NAMES[number] if number < 8 else "XX" for number in best.ids]
        words = [name for name, number in zip(names, best.ids, strict=True) if number > 7]
        assert not rebuild(names, ["w"] * len(words))[1]


def test_a_model_without_trees_says_so() -> None:
    class Plain:
        def symbols(self) -> dict[str, int]:
            return {}

    with pytest.raises(ValueError, match="does not write trees"):
        TreeSymbols.of(Plain())  # type: ignore[arg-type]
