"""BLEU and chrF of translations, each with the protocol it was measured by (sections 6.1, 6.2).

BLEU of sacreBLEU with the 13a and intl tokenisers, chrF, and the paper's own protocol: paper_tokens.py, then BLEU
as multi-bleu counts it. Figures of different protocols cannot be compared, so every value carries its signature.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import sacrebleu
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from transformer.paper_tokens import SIGNATURE, paper_tokens

SEED_VARIABLE: Final = "SACREBLEU_SEED"  # the one way to tell sacreBLEU which resamples to draw


@dataclass(frozen=True, kw_only=True)
class Score:
    """A figure and how it was measured; `low` and `high` bound 95 % of the bootstrap resamples, if drawn."""

    value: float
    signature: str
    low: float | None = None
    high: float | None = None


@contextlib.contextmanager
def resampling_seed(seed: int) -> Iterator[None]:
    """sacreBLEU takes the seed of its bootstrap from the environment of the process."""
    before = os.environ.get(SEED_VARIABLE)
    os.environ[SEED_VARIABLE] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ[SEED_VARIABLE]
        else:
            os.environ[SEED_VARIABLE] = before


def _bleu(tokenizer: str) -> BLEU:
    return BLEU(tokenize=tokenizer)


def _multi_bleu() -> BLEU:
    """BLEU as multi-bleu counts it: on words as they stand, without smoothing."""
    return BLEU(tokenize="none", smooth_method="none", force=True)


def _measure(metric: Metric, hypotheses: Sequence[str], references: Sequence[str], bootstrap: int = 1) -> Score:
    if not hypotheses or len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} translations cannot be scored against {len(references)} references")
    scored = metric.corpus_score(list(hypotheses), [list(references)], n_bootstrap=bootstrap)
    signature = metric.get_signature().format()
    if bootstrap <= 1:
        return Score(value=float(scored.score), signature=signature)
    interval = json.loads(scored.format(width=6, is_json=True, signature=signature))
    middle = interval.get("confidence_mean", float(scored.score))  # sacreBLEU has no interval around a BLEU of 0
    half = interval.get("confidence_var", 0.0)
    return Score(value=float(scored.score), signature=signature, low=middle - half, high=middle + half)


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, bootstrap: int = 1, seed: int = 12_345) -> Score:
    """sacreBLEU's default, tokeniser 13a: comparable with what other papers report."""
    with resampling_seed(seed):
        return _measure(_bleu("13a"), hypotheses, references, bootstrap)


def bleu_intl(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    return _measure(_bleu("intl"), hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    return _measure(CHRF(), hypotheses, references)


def bleu_paper(hypotheses: Sequence[str], references: Sequence[str], *, language: str) -> Score:
    """The protocol of the paper's 27.3 and 28.4; `language` is that of the translations."""
    ours = [paper_tokens(line, language) for line in hypotheses]
    theirs = [paper_tokens(line, language) for line in references]
    counted = _measure(_multi_bleu(), ours, theirs)
    protocol = SIGNATURE.format(language=language)
    return Score(value=counted.value, signature=f"paper|{protocol}|multi-bleu|sacrebleu:{sacrebleu.__version__}")


def all_scores(
    hypotheses: Sequence[str], references: Sequence[str], *, language: str, bootstrap: int = 1, seed: int = 12_345
) -> Mapping[str, Score]:
    """Every figure we report of one set of translations, by name."""
    return {
        "bleu": bleu(hypotheses, references, bootstrap=bootstrap, seed=seed),
        "bleu_intl": bleu_intl(hypotheses, references),
        "bleu_paper": bleu_paper(hypotheses, references, language=language),
        "chrf": chrf(hypotheses, references),
    }
