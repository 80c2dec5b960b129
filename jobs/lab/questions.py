"""The experiments in the order of the page: what each asks, what the paper says, its minutes. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Question:
    """What `attn lab` lists of an experiment."""

    title: str
    question: str
    paper: str  # what the paper says, with its section
    minutes: float  # alone, on two cores
    text: bool = False  # needs the demo language, or the user's own text


QUESTIONS: Mapping[str, Question] = {
    "scaling": Question(
        title="Scaling",
        question="Does leaving out 1/sqrt(d_k) kill the gradient of the softmax?",
        paper="3.2.1: for large d_k the dot products grow and the softmax has extremely small gradients",
        minutes=7,
    ),
    "mask": Question(
        title="Mask",
        question="What does the decoder's mask prevent?",
        paper="3.2.3: all values that correspond to illegal connections are set to -inf before the softmax",
        minutes=3,
        text=True,
    ),
    "positions": Question(
        title="Positions",
        question="What do position encodings give, and how far do they reach?",
        paper="3.5: sinusoids and learned positions are nearly identical; sinusoids may reach longer sequences",
        minutes=6,
    ),
    "heads": Question(
        title="Heads",
        question="Are several heads better than one, and how many are needed?",
        paper="3.2.2, Table 3 (A): one head is 0.9 BLEU worse than the best, and too many are worse, too",
        minutes=7,
        text=True,
    ),
    "memory": Question(
        title="Memory and time",
        question="What do attention, recurrence and convolution cost by length?",
        paper="4, Table 1: O(n^2 d) per layer against O(n d^2), in O(1) sequential steps, with paths of O(1)",
        minutes=4,
    ),
    "residual": Question(
        title="Residuals and norm",
        question="Which of residual connections and normalisation make depth trainable?",
        paper="3.1: LayerNorm(x + Sublayer(x)) around every sub-layer",
        minutes=7,
    ),
    "warmup": Question(
        title="Warm-up",
        question="Is warm-up needed, and by whom?",
        paper="5.3: 4,000 updates of rising learning rate (Xiong 2020: post-norm needs them, pre-norm does not)",
        minutes=7,
    ),
    "smoothing": Question(
        title="Smoothing and averaging",
        question="Do label smoothing and averaged checkpoints give BLEU?",
        paper="5.4: smoothing hurts perplexity and improves BLEU; 6.1: the last 5 or 20 checkpoints are averaged",
        minutes=7,
        text=True,
    ),
    "recurrence": Question(
        title="Recurrence",
        question="Is the Transformer better, and faster to train, than a recurrent translator of its size?",
        paper="Abstract: superior in quality, more parallelisable, significantly less time to train",
        minutes=8,
        text=True,
    ),
}
