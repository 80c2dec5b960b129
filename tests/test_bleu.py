"""Figures with their protocol: those of the sacrebleu command, and the paper's equal to a count by hand."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from transformer import bleu
from transformer import paper_tokens as moses

TEXT = "der die das Hund Katze U-Bahn läuft schläft „ja“ nein , . ! 3,50 z.B. und schnell sehr heute"
WORDS = TEXT.split()


def lines(seed: int, count: int = 60) -> tuple[list[str], list[str]]:
    """References, and translations that get most of each right."""
    rng = random.Random(seed)
    references = [" ".join(rng.choices(WORDS, k=rng.randint(4, 14))) for _ in range(count)]
    hypotheses = [
        " ".join(word if rng.random() < 0.8 else rng.choice(WORDS) for word in line.split()) for line in references
    ]
    return hypotheses, references


def by_command(directory: Path, hypotheses: list[str], references: list[str], *options: str) -> list[dict[str, object]]:
    (directory / "hyp.txt").write_text("\n".join(hypotheses) + "\n", encoding="utf-8")
    (directory / "ref.txt").write_text("\n".join(references) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref.txt", "-i", "hyp.txt", "-w", "6", *options]
    said = json.loads(subprocess.run(command, cwd=directory, capture_output=True, check=True, text=True).stdout)
    return said if isinstance(said, list) else [said]


def test_figures_are_those_of_the_sacrebleu_command(tmp_path: Path) -> None:
    hypotheses, references = lines(1)
    ours = bleu.all_scores(hypotheses, references, language="de")
    theirs = {str(row["name"]): row for row in by_command(tmp_path, hypotheses, references, "-m", "bleu", "chrf")}
    assert ours["bleu"].value == pytest.approx(theirs["BLEU"]["score"], abs=1e-6)
    assert ours["bleu"].signature == theirs["BLEU"]["signature"]
    assert ours["chrf"].value == pytest.approx(theirs["chrF2"]["score"], abs=1e-6)
    assert ours["chrf"].signature == theirs["chrF2"]["signature"]


def test_interval_and_intl_are_those_of_the_sacrebleu_command(tmp_path: Path) -> None:
    hypotheses, references = lines(2)
    ours = bleu.bleu(hypotheses, references, bootstrap=200)
    (theirs,) = by_command(tmp_path, hypotheses, references, "--confidence", "--confidence-n", "200")
    assert ours.signature == theirs["signature"]
    assert ours.low is not None
    assert ours.high is not None
    assert (ours.high - ours.low) / 2 == pytest.approx(theirs["confidence_var"], abs=1e-5)
    assert (ours.high + ours.low) / 2 == pytest.approx(theirs["confidence_mean"], abs=1e-5)
    assert ours.low < ours.value < ours.high
    (intl,) = by_command(tmp_path, hypotheses, references, "-tok", "intl")
    assert bleu.bleu_intl(hypotheses, references).value == pytest.approx(intl["score"], abs=1e-6)


def multi_bleu(hypotheses: list[str], references: list[str]) -> float:
    """BLEU-4 straight from its definition, one reference, no smoothing."""
    right, total, ours, theirs = [0] * 4, [0] * 4, 0, 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        hyp, ref = hypothesis.split(), reference.split()
        ours, theirs = ours + len(hyp), theirs + len(ref)
        for n in range(1, 5):
            grams = Counter(tuple(hyp[i : i + n]) for i in range(len(hyp) - n + 1))
            wanted = Counter(tuple(ref[i : i + n]) for i in range(len(ref) - n + 1))
            total[n - 1] += grams.total()
            right[n - 1] += (grams & wanted).total()
    if 0 in right:
        return 0.0
    brevity = min(0.0, 1 - theirs / ours)
    return 100 * math.exp(brevity + sum(math.log(r / t) for r, t in zip(right, total, strict=True)) / 4)


@pytest.mark.parametrize("seed", [3, 4])
def test_paper_protocol_is_multi_bleu_of_the_paper_tokens(seed: int) -> None:
    hypotheses, references = lines(seed)
    score = bleu.bleu_paper(hypotheses, references, language="de")
    words = [[moses.paper_tokens(line, "de") for line in side] for side in (hypotheses, references)]
    assert score.value == pytest.approx(multi_bleu(*words))
    assert "tok:moses-de" in score.signature
    assert "multi-bleu" in score.signature


def test_paper_protocol_forgives_quotes_and_counts_compound_parts() -> None:
    reference = ['Er sagte : "die U-Bahn kommt" und ging zur Süd-Nord-Linie .'] * 2
    quotes = ["Er sagte : „die U-Bahn kommt“ und ging zur Süd-Nord-Linie ."] * 2
    assert bleu.bleu_paper(quotes, reference, language="de").value == pytest.approx(100)
    assert bleu.bleu(quotes, reference).value < 100


def test_paper_protocol_does_not_smooth() -> None:
    assert bleu.bleu_paper(["ganz andere Worte stehen hier"], ["nichts davon ist gleich"], language="de").value == 0


def test_the_seed_draws_the_resamples_and_leaves_the_environment_alone() -> None:
    hypotheses, references = lines(5)
    first, again, other = (bleu.bleu(hypotheses, references, bootstrap=100, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert (first.low, first.high) != (other.low, other.high)
    assert first.value == other.value
    assert "seed:1" in first.signature


def test_unequal_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="2 translations cannot be scored against 1 references"):
        bleu.bleu(["a", "b"], ["a"])
