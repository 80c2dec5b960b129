"""Verdicts: every claim of the lab can come out both ways, by the figures alone."""

from __future__ import annotations

import re

import pytest

from jobs.lab import heads, mask, memory, positions, recurrence, residual, scaling, smoothing, warmup
from jobs.lab.claims import Claim, by_margin, findings
from jobs.lab.draws import by_draws, either_way, is_at_edge, needed, ranged
from jobs.lab.job import EXPERIMENTS
from jobs.lab.questions import QUESTIONS


def draws(name: str, figure: str, *values: float) -> dict[str, float]:
    """A figure of one side: what its draws gave, at a rate that is not the last of the list."""
    return ranged(name, figure, values) | {f"{name}/at_edge": 0.0}


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
        **draws("copy/sinusoidal", "within", 0.98, 0.99), **draws("copy/learned", "within", 0.98, 0.99),
        **draws("reverse/sinusoidal", "within", 0.98, 0.99), **draws("reverse/learned", "within", 0.98, 0.99),
        **draws("reverse/none", "within", 0.5, 0.6), **draws("sinusoidal", "within", 0.98), "learned/within": 0.98,
        **draws("sinusoidal", "beyond", 0.95, 0.96), **draws("learned", "beyond", 0.4, 0.5),
        "permutation_error": 1e-7, "permutation_difference": 2.0, "shift_error": 1e-7,
    },
    "heads": {
        "bleu/1": 30.0, "bleu/4": 40.0, "bleu/16": 30.0, "reference": 4.0,
        **draws("positional/1", "loss", 0.5, 0.52), **draws("positional/4", "loss", 0.1, 0.12), "removable": 30.0,
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
        "guessing": 2.77, **draws("post-norm", "loss", 0.5, 0.52), **draws("no residual", "loss", 2.7, 2.72),
        **draws("no norm", "loss", 1.5, 1.6), **draws("BatchNorm", "loss", 0.9, 0.95),
        **draws("pre-norm", "loss", 0.5, 0.52), **draws("post-norm no warm-up", "loss", 1.9, 2.0),
        **draws("pre-norm no warm-up", "loss", 0.51, 0.55), "post-norm/first_over_last": 0.9,
        "no residual/first_over_last": 0.01, **draws("post-norm", "imbalance", 0.1, 0.2),
        **draws("no residual", "imbalance", 4.5, 4.7),
    },
    "warmup": {
        "guessing": 2.77, **draws("post/0.01/0", "loss", 2.8, 2.9), **draws("post/0.001/0", "loss", 1.2, 1.3),
        **draws("post/0.0001/0", "loss", 1.4, 1.5), **draws("post/0.01/100", "loss", 1.1, 1.2),
        **draws("post/0.001/100", "loss", 1.0, 1.1), **draws("post/0.0001/100", "loss", 1.5, 1.6),
        **draws("pre/0.01/0", "loss", 1.2, 1.3), **draws("pre/0.001/0", "loss", 1.2, 1.3),
        **draws("pre/0.0001/0", "loss", 1.4, 1.5),
    },
    "smoothing": {
        **draws("0", "log_perplexity", 1.10, 1.11), **draws("0.1", "log_perplexity", 1.19, 1.20),
        **draws("0", "bleu", 40.0, 41.0), **draws("0.1", "bleu", 48.0, 49.0), **draws("0", "calibration", 0.05, 0.06),
        **draws("0.1", "calibration", 0.02, 0.03), "averaged/1": 40.0, "averaged/5": 41.0,
        **draws("gain", "bleu", 0.6, 1.4),
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
    ("positions", "needed"): draws("reverse/none", "within", 0.97, 0.98),
    ("positions", "equivariant"): {"permutation_error": 0.01},
    ("positions", "same"): draws("copy/learned", "within", 0.92, 0.94),
    ("positions", "beyond"): draws("learned", "beyond", 1.0) | draws("sinusoidal", "beyond", 0.9),
    ("positions", "extrapolates"): draws("sinusoidal", "beyond", 0.6, 0.7),
    ("positions", "linear"): {"shift_error": 0.1},
    ("heads", "one_head"): {"bleu/1": 49.0},
    ("heads", "too_many"): {"bleu/16": 49.0},
    ("heads", "positional"): draws("positional/1", "loss", 0.12, 0.13),
    ("heads", "prunable"): {"removable": 3.0},
    ("memory", "quadratic_time"): {"written out/backward_s/exponent": 1.0},
    ("memory", "linear_time"): {"LSTM/backward_s/exponent": 2.0},
    ("memory", "faster"): {"LSTM/backward_s/256": 0.1},
    ("memory", "quadratic_memory"): {"written out/backward_mb/exponent": 1.0},
    ("memory", "fused_memory"): {"fused/backward_mb/exponent": 1.0},
    ("memory", "path"): {"attention/gradient/far": 1e-9},
    ("memory", "convolution_path"): {"convolution/layers": 1.0},
    ("residual", "residual"): draws("no residual", "loss", 0.5, 0.53),
    ("residual", "gradients"): draws("no residual", "imbalance", 0.1, 0.3),
    ("residual", "norm"): draws("no norm", "loss", 0.5, 0.53),
    ("residual", "batch_norm"): draws("BatchNorm", "loss", 0.4, 0.45),
    ("residual", "warmup"): draws("pre-norm no warm-up", "loss", 0.9, 0.95),
    ("warmup", "post"): draws("post/0.01/100", "loss", 2.8, 2.9),
    ("warmup", "pre"): draws("pre/0.01/0", "loss", 2.8, 2.9),
    ("warmup", "best"): draws("post/0.001/0", "loss", 0.5, 0.6),
    ("smoothing", "perplexity"): draws("0.1", "log_perplexity", 1.0, 1.05),
    ("smoothing", "bleu"): draws("0.1", "bleu", 31.0, 32.0),
    ("smoothing", "calibration"): draws("0.1", "calibration", 0.2, 0.3),
    ("smoothing", "averaging"): draws("gain", "bleu", -1.4, -0.6),
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
    ("positions", "needed", draws("reverse/none", "within", 0.5, 0.97)),
    ("positions", "same", draws("copy/learned", "within", 0.92, 0.98)),
    ("positions", "beyond", draws("sinusoidal", "beyond", 0.41, 0.96)),
    ("positions", "extrapolates", draws("sinusoidal", "beyond", 0.6, 0.96)),
    ("positions", "beyond", {"learned/within": 0.6}),
    ("heads", "one_head", {"bleu/1": 1.0, "bleu/4": 2.0, "bleu/16": 1.0}),
    ("heads", "positional", draws("positional/1", "loss", 0.87) | draws("positional/4", "loss", 0.86)),
    ("heads", "positional", draws("positional/1", "loss", 0.14, 0.5)),
    ("heads", "positional", {"positional/1/at_edge": 1.0}),
    ("memory", "faster", {"d_model": 64.0}),
    ("memory", "quadratic_time", {"written out/backward_s/exponent": 1.3, "longest": 2048.0}),
    ("residual", "residual", {"post-norm/loss": 2.77}),
    ("residual", "residual", draws("no residual", "loss", 0.6, 2.7)),
    ("residual", "norm", {"no norm/at_edge": 1.0}),
    ("residual", "batch_norm", {"post-norm/at_edge": 1.0} | draws("BatchNorm", "loss", 0.4, 0.45)),
    ("residual", "gradients", draws("no residual", "imbalance", 0.3, 4.7)),
    ("warmup", "post", draws("post/0.01/0", "loss", 1.0, 1.1)),
    ("warmup", "post", draws("post/0.01/0", "loss", 1.0, 2.9)),
    ("warmup", "pre", draws("pre/0.01/0", "loss", 1.0, 2.9)),
    ("warmup", "best", draws("post/0.001/0", "loss", 1.0, 1.2)),
    ("warmup", "best", draws("post/0.001/0", "loss", 2.8, 2.9)),
    ("smoothing", "bleu", draws("0.1", "bleu", 40.1, 49.0)),
    ("smoothing", "perplexity", draws("0", "bleu", 1.0, 1.2) | draws("0.1", "bleu", 1.0, 1.2)),
    ("smoothing", "perplexity", draws("0.1", "log_perplexity", 1.10, 1.20)),
    ("smoothing", "averaging", draws("gain", "bleu", -0.1, 1.4)),
    ("recurrence", "better", {"recurrent/bleu": 52.0}),
    ("recurrence", "better", {"recurrent/at_edge": 1.0}),
    ("recurrence", "faster", {"recurrent/at_edge": 1.0}),
    ("residual", "warmup", draws("post-norm no warm-up", "loss", 0.5, 0.55)),
    ("residual", "warmup", draws("post-norm no warm-up", "loss", 0.55, 2.0)),
    ("residual", "warmup", {"post-norm no warm-up/at_edge": 1.0}),
    ("heads", "one_head", {"bleu/1": 38.0}),
    ("heads", "too_many", {"reference": 16.0}),
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


def test_draws_that_are_not_apart_decide_nothing() -> None:
    assert [by_draws(least, most, 0.1, "").verdict for least, most in ((0.1, 0.3), (0.05, 0.3), (-0.2, 0.05))] == [
        "holds", "not shown here", "does not hold",
    ]  # fmt: skip
    assert [either_way(least, most, 0.1, "").verdict for least, most in ((0.1, 0.3), (-0.2, 0.05), (-0.3, -0.1))] == [
        "holds", "not shown here", "does not hold",
    ]  # fmt: skip


def test_a_loser_whose_best_rate_is_the_last_of_the_list_may_do_better_beyond_it() -> None:
    assert [is_at_edge(losses, losses.index(min(losses))) for losses in ([1.0, 2.0, 3.0], [2.0, 1.0, 3.0])] == [
        True,
        False,
    ]
    assert not is_at_edge([2.77, 2.78, 2.79], 0), "where no rate makes a difference, one beyond the list will not"
    figures = draws("with", "loss", 1.0) | draws("without", "loss", 2.0)
    assert needed(figures, "with", "without", 0.5, "").verdict == "holds"
    assert needed(figures | {"without/at_edge": 1.0}, "with", "without", 0.5, "").verdict == "not shown here"
    assert needed(figures | {"with/at_edge": 1.0}, "with", "without", 0.5, "").verdict == "holds"
