"""Two systems on the same references: a real difference is told from none, and equal systems are not different."""

from __future__ import annotations

import random

import pytest

from transformer import bleu
from transformer.significance import compare

TEXT = "der die das Hund Katze läuft schläft ja nein , . ! und schnell sehr heute"
WORDS = TEXT.split()


def lines(seed: int, count: int = 120) -> tuple[list[str], list[str]]:
    """References, and translations that get most of each right."""
    rng = random.Random(seed)
    references = [" ".join(rng.choices(WORDS, k=rng.randint(4, 14))) for _ in range(count)]
    hypotheses = [" ".join(w if rng.random() < 0.8 else rng.choice(WORDS) for w in r.split()) for r in references]
    return hypotheses, references


def test_a_real_difference_is_told_from_none() -> None:
    hypotheses, references = lines(6)
    worse = [" ".join(reversed(line.split())) if i % 2 else line for i, line in enumerate(hypotheses)]
    real = compare(hypotheses, worse, references, samples=200)
    assert real.system < real.baseline
    assert real.p_value == real.floor == 1 / 201
    nudged = [f"{line} und" if i == 0 else line for i, line in enumerate(hypotheses)]
    assert compare(hypotheses, nudged, references, samples=200).p_value > 0.05


def test_equal_systems_are_not_different() -> None:
    hypotheses, references = lines(7)
    assert compare(hypotheses, hypotheses, references, samples=100).p_value == 1


def test_two_systems_that_get_nothing_right_are_not_different() -> None:
    references = [f"reference number {i} of many" for i in range(60)]
    nothing, other = ["xx yy zz"] * 60, ["ww vv"] * 60
    other[3] = "reference number 3 of many"  # one resample in three has none of it
    assert compare(nothing, ["qq"] * 60, references, samples=200).p_value == 1
    assert compare(nothing, other, references, samples=200).p_value > 0.05


def test_scores_are_those_of_sacrebleu() -> None:
    hypotheses, references = lines(8)
    other, _ = lines(9)
    found = compare(hypotheses, other, references, samples=1)
    assert found.baseline == pytest.approx(bleu.bleu(hypotheses, references).value)
    assert found.system == pytest.approx(bleu.bleu(other, references).value)


def test_unequal_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="1 and 2 translations cannot be compared on 2 references"):
        compare(["a"], ["a", "b"], ["a", "b"])
