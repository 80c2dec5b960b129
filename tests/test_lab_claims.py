"""Verdicts: every claim of the lab can come out both ways, by the figures alone."""

from __future__ import annotations

import re

import pytest

from jobs.lab import heads, mask, memory, positions, recurrence, residual, scaling, smoothing, warmup
from jobs.lab.claims import Claim, by_margin, findings
from jobs.lab.job import EXPERIMENTS
from jobs.lab.questions import QUESTIONS

# Figures with which every claim of an experiment holds, and for each claim a change with which it does not, or with
# which it cannot be told.
FIGURES = {
    "scaling": {
        "updates": 100.0,
        "unscaled/variance/4": 4.1, "unscaled/variance/64": 63.0, "scaled/variance/4": 1.0, "scaled/variance/64": 1.0,
        **{f"scaled/jacobian_median/{d_k}": 0.18 for d_k in (4, 64)}, "unscaled/jacobian_median/4": 0.2,
        "unscaled/jacobian_median/64": 0.001, "scaled/updates/64": 40.0, "unscaled/updates/64": 101.0,
    },
    "mask": {
        "future_entries": 28.0, "future_finite": 0.0, "leak": 0.0, "leak_without": 0.5, "masked/accuracy": 0.7,
        "unmasked/accuracy": 0.99, "masked/bleu": 40.0, "unmasked/bleu": 1.0,
    },
    "positions": {
        **{f"{task}/{kind}/within": 0.98 for task in ("copy", "reverse") for kind in ("sinusoidal", "learned")},
        "reverse/none/within": 0.5, "sinusoidal/within": 0.98, "learned/within": 0.98,
        "sinusoidal/beyond": 0.95, "learned/beyond": 0.4,
        "permutation_error": 1e-7, "permutation_difference": 2.0, "shift_error": 1e-7,
    },
    "heads": {
        "bleu/1": 30.0, "bleu/4": 40.0, "bleu/16": 30.0, "reference": 4.0,
        "positional/1": 0.5, "positional/4": 0.9, "removable": 30.0,
        "heads": 48.0, "whole": 35.0,
    },
    "memory": {
        "d_model": 512.0, "longest": 4096.0, "written out/backward_s/exponent": 1.9, "LSTM/backward_s/exponent": 1.0,
        "convolution/backward_s/exponent": 1.0, "written out/backward_mb/exponent": 1.9,
        "fused/backward_mb/exponent": 1.9, "fused/backward_mb/4096": 90.0, "written out/backward_mb/4096": 1614.0,
        "fused/forward_s/256": 0.1, "LSTM/backward_s/256": 0.4, "written out/backward_s/256": 0.2,
        "attention/gradient/near": 0.05, "attention/gradient/far": 0.05, "LSTM/gradient/near": 0.5,
        "LSTM/gradient/far": 1e-9, "farthest": 256.0, "convolution/layers": 16.0, "convolution/distance": 16.0,
    },
    "residual": {
        "guessing": 2.77, "post-norm/loss": 0.5, "no residual/loss": 2.7, "no norm/loss": 1.5,
        "BatchNorm/loss": 0.9, "pre-norm/loss": 0.5, "post-norm no warm-up/loss": 2.0,
        "pre-norm no warm-up/loss": 0.51, "post-norm/first_over_last": 0.9,
        "no residual/first_over_last": 0.01,
    },
    "warmup": {
        "guessing": 2.77, "post/0.01/0": 2.8, "post/0.001/0": 1.2, "post/0.01/100": 1.1, "post/0.001/100": 1.0,
        "pre/0.01/0": 1.2, "pre/0.001/0": 1.2, "pre/0.01/100": 1.0, "pre/0.001/100": 1.0,
    },
    "smoothing": {
        "perplexity/0": 3.0, "perplexity/0.1": 3.3, "bleu/0": 40.0, "bleu/0.1": 49.0, "calibration/0": 0.05,
        "calibration/0.1": 0.02, "averaged/1": 40.0, "averaged/5": 41.0,
    },
    "recurrence": {
        "transformer/at_edge": 0.0, "recurrent/at_edge": 0.0,
        "transformer/bleu": 55.0, "recurrent/bleu": 45.0, "transformer/seconds_to_target": 30.0,
        "recurrent/seconds_to_target": 60.0, "target_bleu": 45.0, "transformer/tokens_per_s/8": 8e3,
        "recurrent/tokens_per_s/8": 8e3, "transformer/tokens_per_s/128": 8e3, "recurrent/tokens_per_s/128": 3e3,
    },
}  # fmt: skip
AGAINST = {
    ("scaling", "variance"): {"unscaled/variance/64": 80.0},
    ("scaling", "vanishing"): {"unscaled/jacobian_median/64": 0.1},
    ("scaling", "paper_width"): {"unscaled/jacobian_median/64": 0.19},
    ("scaling", "counteracts"): {"scaled/jacobian_median/4": 0.5},
    ("scaling", "training"): {"unscaled/updates/64": 50.0},
    ("mask", "scores"): {"future_finite": 1.0},
    ("mask", "leak"): {"leak": 1e-9},
    ("mask", "accuracy"): {"unmasked/accuracy": 0.71},
    ("mask", "bleu"): {"unmasked/bleu": 30.0},
    ("positions", "needed"): {"reverse/none/within": 0.97},
    ("positions", "equivariant"): {"permutation_error": 0.01},
    ("positions", "same"): {"copy/learned/within": 0.92},
    ("positions", "beyond"): {"learned/beyond": 1.0, "sinusoidal/beyond": 0.9},
    ("positions", "extrapolates"): {"sinusoidal/beyond": 0.6},
    ("positions", "linear"): {"shift_error": 0.1},
    ("heads", "one_head"): {"bleu/1": 49.0},
    ("heads", "too_many"): {"bleu/16": 49.0},
    ("heads", "positional"): {"positional/1": 1.0, "positional/4": 0.9},
    ("heads", "prunable"): {"removable": 3.0},
    ("memory", "quadratic_time"): {"written out/backward_s/exponent": 1.0},
    ("memory", "linear_time"): {"LSTM/backward_s/exponent": 2.0},
    ("memory", "faster"): {"LSTM/backward_s/256": 0.1},
    ("memory", "quadratic_memory"): {"written out/backward_mb/exponent": 1.0},
    ("memory", "fused_memory"): {"fused/backward_mb/exponent": 1.0},
    ("memory", "path"): {"attention/gradient/far": 1e-9},
    ("memory", "convolution_path"): {"convolution/layers": 1.0},
    ("residual", "residual"): {"no residual/loss": 0.5},
    ("residual", "gradients"): {"no residual/first_over_last": 0.9},
    ("residual", "norm"): {"no norm/loss": 0.5},
    ("residual", "batch_norm"): {"BatchNorm/loss": 0.4},
    ("residual", "warmup"): {"pre-norm no warm-up/loss": 0.9},
    ("warmup", "post"): {"post/0.01/100": 2.8},
    ("warmup", "pre"): {"pre/0.01/0": 2.8},
    ("warmup", "best"): {"post/0.001/0": 0.5},
    ("smoothing", "perplexity"): {"perplexity/0.1": 2.9},
    ("smoothing", "bleu"): {"bleu/0.1": 31.0},
    ("smoothing", "calibration"): {"calibration/0.1": 0.2},
    ("smoothing", "averaging"): {"averaged/5": 39.0},
    ("recurrence", "better"): {"recurrent/bleu": 64.0},
    ("recurrence", "faster"): {"recurrent/seconds_to_target": 10.0},
    ("recurrence", "parallel"): {"recurrent/tokens_per_s/128": 8e3},
}
# Where nothing was learned, or nothing differs, nobody can tell.
UNDECIDED = [
    ("scaling", "training", {"scaled/updates/64": 101.0}),
    ("scaling", "paper_width", {"unscaled/jacobian_median/64": None}),
    ("mask", "bleu", {"masked/bleu": 5.0}),
    ("mask", "accuracy", {"masked/bleu": 5.0}),
    ("positions", "needed", {"reverse/sinusoidal/within": 0.6}),
    ("positions", "beyond", {"sinusoidal/beyond": 0.41}),
    ("positions", "beyond", {"learned/within": 0.6}),
    ("heads", "one_head", {"bleu/1": 1.0, "bleu/4": 2.0, "bleu/16": 1.0}),
    ("heads", "positional", {"positional/1": 0.13, "positional/4": 0.14}),
    ("memory", "faster", {"d_model": 64.0}),
    ("memory", "quadratic_time", {"written out/backward_s/exponent": 1.3, "longest": 2048.0}),
    ("residual", "residual", {"post-norm/loss": 2.77}),
    ("warmup", "post", {"post/0.01/0": 1.0}),
    ("warmup", "best", {"post/0.001/0": 1.01}),
    ("smoothing", "bleu", {"bleu/0.1": 40.1}),
    ("smoothing", "perplexity", {"bleu/0": 1.0, "bleu/0.1": 1.0}),
    ("recurrence", "better", {"recurrent/bleu": 52.0}),
    ("recurrence", "better", {"recurrent/at_edge": 1.0}),
    ("recurrence", "faster", {"recurrent/at_edge": 1.0}),
    ("residual", "warmup", {"post-norm no warm-up/loss": 0.5}),
    ("heads", "one_head", {"bleu/1": 38.0}),
    ("heads", "too_many", {"reference": 16.0}),
    ("warmup", "best", {"post/0.001/100": 1.19, "post/0.01/100": 1.18}),
    ("recurrence", "faster", {"target_bleu": 2.0}),
]  # fmt: skip
CLAIMS = {experiment.name: {claim.key: claim for claim in experiment.claims} for experiment in EXPERIMENTS.values()}
MODULES = (scaling, mask, positions, heads, memory, residual, warmup, smoothing, recurrence)


def test_every_experiment_has_a_question_claims_and_words() -> None:
    assert list(CLAIMS) == list(QUESTIONS), "in the order of the page"
    assert set(AGAINST) == {(name, key) for name, claims in CLAIMS.items() for key in claims}
    assert all(module.ABOUT and module.CLAIMS for module in MODULES)


@pytest.mark.parametrize(("name", "key"), list(AGAINST))
def test_a_claim_can_come_out_both_ways(name: str, key: str) -> None:
    claim: Claim = CLAIMS[name][key]
    assert claim.judge(FIGURES[name]).verdict == "holds"
    assert claim.judge({**FIGURES[name], **AGAINST[name, key]}).verdict == "does not hold"


@pytest.mark.parametrize(("name", "key", "change"), UNDECIDED)
def test_what_these_sizes_cannot_show_is_said_to_be_not_shown(
    name: str, key: str, change: dict[str, float | None]
) -> None:
    figures = {figure: value for figure, value in {**FIGURES[name], **change}.items() if value is not None}
    assert CLAIMS[name][key].judge(figures).verdict == "not shown here"


@pytest.mark.parametrize("name", list(FIGURES))
def test_mlflow_takes_the_name_of_every_figure(name: str) -> None:
    assert [figure for figure in FIGURES[name] if not re.fullmatch(r"[\w./: -]+", figure)] == []


def test_verdicts_of_several_seeds_rest_on_their_mean() -> None:
    claim = CLAIMS["mask"]["bleu"]
    seeds = [{**FIGURES["mask"], "unmasked/bleu": value} for value in (1.0, 2.0, 24.0)]
    (finding,) = findings([claim], seeds)
    assert finding.ruling.verdict == "holds", "9 is less than half of 40"
    assert (finding.agree, finding.seeds) == (2, 3)


def test_a_difference_within_the_margin_decides_nothing() -> None:
    assert [by_margin(value, 0.5, "").verdict for value in (0.6, 0.4, -0.4, -0.6)] == [
        "holds", "not shown here", "not shown here", "does not hold",
    ]  # fmt: skip
