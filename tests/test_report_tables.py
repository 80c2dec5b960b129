"""What a report reads and how it says figures: curves, samples, differences, ticks."""

from __future__ import annotations

import re
import statistics
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from small_report import PAIRS, make_row

from jobs.configs import ReportConfig
from jobs.durations import duration
from jobs.report import figures
from jobs.report.agreement import Bleu, Difference, Mean, bleu_difference, difference, margin
from jobs.report.data import lengths
from jobs.report.page import compared, thinned
from jobs.report.row_results import Sample, attention_sentences, choose_samples, read_curve, read_samples
from jobs.report.tables import differences, markdown_text, results, scientific, signed
from jobs.report.write import gather, read_lines
from jobs.storage.artifacts import Artifact

# --- reading -----------------------------------------------------------------------------------------------------


def test_a_curve_survives_a_cut_line_and_figures_that_are_no_numbers(tmp_path: Path) -> None:
    training = Artifact(str(tmp_path))
    lines = ['{"update": 100, "loss": NaN}', '{"update": 50, "loss": 3.5}', '{"update": 50, "dev_loss": 3}', '{"upda']
    training.write_text("curve.jsonl", "\n".join(lines))
    assert read_curve(training) == [{"update": 50, "loss": 3.5, "dev_loss": 3}, {"update": 100}]


def test_a_long_curve_is_thinned_but_keeps_its_ends_and_looks_at_the_development_set() -> None:
    points = [{"update": float(at), **({"dev_loss": 1.0} if at % 1000 == 7 else {})} for at in range(10_000)]
    kept = thinned(points)
    assert len(kept) <= 600
    assert kept[0] is points[0]
    assert kept[-1] is points[-1]
    assert sum("dev_loss" in point for point in kept) == 10


def sample(line: int, chrf: float, source: str = "a b c d e f g h") -> Sample:
    return Sample(line=line, source=source, reference="r", hypothesis="h", chrf=chrf, bleu=chrf)


def test_samples_are_the_worst_the_best_and_others_none_twice() -> None:
    everything = [sample(at, chrf=float(at)) for at in range(100)]
    chosen = choose_samples(everything, 12)
    assert [found.line for found in chosen["Worst"]] == [0, 1, 2, 3]
    assert [found.line for found in chosen["Best"]] == [99, 98, 97, 96]
    lines = [found.line for group in chosen.values() for found in group]
    assert len(lines) == len(set(lines)) == 12
    assert sum(len(group) for group in choose_samples(everything[:2], 20).values()) == 2


def test_sentence_scores_are_of_the_sentence(tmp_path: Path) -> None:
    row = make_row(tmp_path, "row", bleu=1, perplexity=2, parameters=3)
    perfect, worse, _, empty = read_samples(row["translations"])
    assert perfect.chrf == pytest.approx(100)
    assert perfect.bleu == pytest.approx(100)
    assert 0 < worse.chrf < 100
    assert empty.chrf == 0


def test_the_sentences_for_attention_are_of_a_length_to_be_looked_at() -> None:
    long, short = sample(0, 99, "word " * 60), sample(1, 99, "no")
    clause = sample(2, 80, "he knows that she sleeps , because it is late")
    plain = sample(3, 100, "the old dog sleeps in the large garden")
    assert attention_sentences([long, short, plain, clause]) == [clause.source, plain.source]
    assert attention_sentences([short]) == ["no"]


def test_another_rows_translation_is_shown_only_for_the_same_sentence(tmp_path: Path) -> None:
    row = make_row(tmp_path, "row", bleu=1, perplexity=2, parameters=3)
    texts = {0: PAIRS[0][0], 1: "another sentence"}
    assert read_lines(row["translations"], [0, 1], texts) == {0: PAIRS[0][2]}


# --- figures in words --------------------------------------------------------------------------------------------


def test_a_difference_agrees_by_its_sign() -> None:
    assert Difference(ours=0.1, paper=0.4, margin=0.05).agrees is True
    assert Difference(ours=-0.1, paper=0.4, margin=0.05).agrees is False
    assert (
        Difference(ours=0.1, paper=0.0, margin=0.05).agrees is None
    )  # the paper sees no difference: nothing to agree with
    assert Difference(ours=0.1, margin=0.05).agrees is None


def test_what_chance_explains_has_no_sign() -> None:
    assert Difference(ours=0.1, paper=0.4, margin=0.1).agrees is None
    assert Difference(ours=0.0, paper=0.4, margin=0.0).agrees is None
    assert Difference(ours=9.9, paper=0.4).agrees is None  # one seed of base: nothing is known of chance


def test_the_margin_is_a_prediction_interval_of_the_seeds_of_base() -> None:
    base = Mean(value=25.0, spread=0.5, seeds=3)
    one = Mean(value=24.0)
    assert margin(one, base) == pytest.approx(4.30 * 0.5 * (1 + 1 / 3) ** 0.5)
    more = Mean(value=24.0, spread=9.0, seeds=3)
    assert margin(more, base) == pytest.approx(4.30 * 0.5 * (2 / 3) ** 0.5)
    assert margin(one, Mean(value=25.0)) is None
    many = [margin(one, Mean(value=25.0, spread=0.5, seeds=seeds)) for seeds in range(2, 15)]
    assert many == sorted(many, key=lambda value: -(value or 0)), "more seeds, less chance"


def test_chance_alone_gives_a_sign_in_one_row_of_twenty() -> None:
    """Twenty thousand bases of three seeds, and a row that is no different."""
    random = Random(1)
    signs = 0
    for _ in range(20_000):
        seeds = [random.gauss(25, 0.4) for _ in range(3)]
        base = Mean(value=statistics.fmean(seeds), spread=statistics.stdev(seeds), seeds=3)
        change = difference(Mean(value=random.gauss(25, 0.4)), base, 24.9, 25.8)
        assert change is not None
        signs += change.agrees is not None
    assert 0.045 < signs / 20_000 < 0.055


def test_bleu_is_compared_by_one_protocol_on_both_sides() -> None:
    both = Bleu(sacrebleu=Mean(value=24.0), paper_protocol=Mean(value=25.0), paper=24.9)
    base = Bleu(sacrebleu=Mean(value=25.0), paper_protocol=Mean(value=24.5), paper=25.8)
    assert bleu_difference(both, base) == Difference(ours=0.5, paper=pytest.approx(-0.9))
    assert bleu_difference(both, replace(base, paper_protocol=None)) == Difference(ours=-1.0, paper=pytest.approx(-0.9))
    assert bleu_difference(replace(both, paper=None), base) == Difference(ours=0.5)
    assert bleu_difference(Bleu(), base) is None


def test_no_base_no_differences(tmp_path: Path) -> None:
    inputs = make_row(tmp_path, "row", bleu=30, perplexity=5, parameters=1)
    report = gather(ReportConfig(title="t", recipe="r", rows=("C/N=2",), table=3), {"C/N=2": inputs})
    assert differences(results(report.rows)) == {}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (signed(-0.004), "0.00"),
        (signed(-1.5, 1), "−1.5"),
        (duration(0.153), "0.15 s"),
        (duration(42_000), "11:40 h"),
        (scientific(3.3e18), "3.3·10¹⁸"),
        (markdown_text("a|b <i> *c*\n#"), "a\\|b &lt;i&gt; \\*c\\* \\#"),
        (figures.short(25_000), "25k"),
        (figures.short(0.0001), "1e-4"),
    ],
)
def test_figures_are_said_shortly(said: str, meant: str) -> None:
    assert said == meant


def test_words_that_differ_from_the_reference_are_marked() -> None:
    assert compared("der alte Hund", "der junge Hund") == [("der", False), ("alte", True), ("Hund", False)]
    assert compared("", "der Hund") == [("(nothing)", True)]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (3.7, 4.1), (-2, 0.5), (0, 2e6), (1e-5, 7e-4)])
def test_ticks_are_round_inside_and_neither_few_nor_many(low: float, high: float) -> None:
    found = figures.ticks(low, high)
    assert 3 <= len(found) <= 8
    assert all(low - 1e-12 <= value <= high + 1e-12 for value in found)
    assert all(len(f"{value:.6g}") <= 7 for value in found)


def test_a_logarithmic_axis_puts_equal_ratios_at_equal_distances() -> None:
    axis = figures.Axis(low=1, high=100, start=0, end=200, log=True)
    assert [axis(1), axis(10), axis(100)] == [0, 100, 200]
    assert figures.log_ticks(1, 100) == [1, 2, 5, 10, 20, 50, 100]
    assert figures.log_ticks(1, 1e6) == [1, 10, 100, 1e3, 1e4, 1e5, 1e6]


def test_the_histogram_shows_every_pair() -> None:
    svg = lengths({"lengths": {"bin": 8, "source": [1] * 100, "target": [2] * 90}})
    assert svg is not None
    counts = [int(count) for count in re.findall(r"source: (\d+) from", svg)]
    assert sum(counts) == 100
    assert len(counts) <= 40
    assert lengths({}) is None
