"""The paper's numbers as data: the model (section 3), its training (section 5), the search (section 6.1).

Every default is the paper's base model. Every departure from the paper is a field here whose default is the paper.
Standard library only, so that planning an experiment loads nothing heavy.
"""

from __future__ import annotations

import math
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal

PAD, UNKNOWN, START, END = 0, 1, 2, 3  # subword ids that mean the same in every vocabulary
CONFIG, WEIGHTS, SUBWORDS = "config.json", "model.safetensors", "subwords.model"
MODEL_FILES = (CONFIG, WEIGHTS, SUBWORDS)  # of a model directory
MOST = {"layers": 1_000, "d_model": 100_000, "d_ff": 1_000_000, "num_heads": 10_000, "max_positions": 1_000_000}
IN_WORDS = {int: "a whole number", float: "a number", bool: "true or false", types.NoneType: "none"}


def require(condition: bool, sentence: str) -> None:
    """Refuse a value with a sentence that says what it should have been."""
    if not condition:
        raise ValueError(sentence)


def require_types(config: Any, section: str) -> None:
    """Refuse a value of another type than the field says: configs are read from files, too."""
    for name, hint in typing.get_type_hints(type(config)).items():
        value = getattr(config, name)
        choices = typing.get_args(hint) or (hint,)
        if typing.get_origin(hint) is Literal:
            right = value in choices
            wanted = f"one of {', '.join(choices)}"
        else:
            accepts = tuple(choices) + ((int,) if float in choices else ())
            right = isinstance(value, accepts) and (bool in choices or not isinstance(value, bool))
            right = right and not (isinstance(value, float) and not math.isfinite(value))
            wanted = " or ".join(IN_WORDS[kind] for kind in choices)
        require(right, f"{section}.{name} must be {wanted}, not {value!r}")


def require_seed(name: str, value: int) -> None:
    require(0 <= value < 2**64, f"{name} must be from 0 to 2**64 - 1, not {value}")


def require_probability(name: str, value: float) -> None:
    require(0.0 <= value < 1.0, f"{name} must be at least 0 and below 1, not {value}")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The base column of Table 3. Every default is the paper's; every ablation is a replace()."""

    layers: int = 6  # N, in the encoder and again in the decoder  (3.1)
    d_model: int = 512  # width of every sub-layer output          (3.1)
    d_ff: int = 2048  # inner width of the feed-forward network    (3.3)
    num_heads: int = 8  # h parallel attention layers              (3.2.2)
    d_k: int | None = None  # width of a query; None: d_model / h  (3.2.2, Table 3 B)
    d_v: int | None = None  # width of a value; None: d_model / h  (3.2.2)
    dropout: float = 0.1  # on sub-layer outputs and embedding sums  (5.4)
    attention_dropout: float = 0.0  # on attention weights: not in the paper's translation models
    relu_dropout: float = 0.0  # inside the feed-forward network: not in the paper
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"  # what tells where a word stands  (3.5, Table 3 E)
    max_positions: int = 1024  # rows of a learned position table: sinusoids need no limit
    norm: Literal["post", "pre"] = "post"  # LayerNorm(x + Sublayer(x))  (3.1)
    tied_embeddings: bool = True  # one matrix for both embeddings and the softmax  (3.4)

    def __post_init__(self) -> None:
        require_types(self, "model")
        for name in ("layers", "d_model", "d_ff", "num_heads", "max_positions"):
            require(getattr(self, name) >= 1, f"model.{name} must be at least 1, not {getattr(self, name)}")
        for name, most in MOST.items():
            require(getattr(self, name) <= most, f"model.{name} must be at most {most:,}, not {getattr(self, name):,}")
        for name in ("dropout", "attention_dropout", "relu_dropout"):
            require_probability(f"model.{name}", getattr(self, name))
        require(self.d_model % 2 == 0, f"model.d_model must be even (sine and cosine pairs), not {self.d_model}")
        require(
            (self.d_k is not None and self.d_v is not None) or self.d_model % self.num_heads == 0,
            f"model.d_model={self.d_model} is not a multiple of model.num_heads={self.num_heads}: set d_k and d_v",
        )
        require(self.d_k is None or self.d_k >= 1, f"model.d_k must be at least 1, not {self.d_k}")
        require(self.d_v is None or self.d_v >= 1, f"model.d_v must be at least 1, not {self.d_v}")

    @property
    def key_width(self) -> int:
        return self.d_k if self.d_k is not None else self.d_model // self.num_heads

    @property
    def value_width(self) -> int:
        return self.d_v if self.d_v is not None else self.d_model // self.num_heads


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Section 5. One update is a mean over `tokens_per_update` target tokens, on any number of workers."""

    steps: int = 100_000  # updates; big: 300,000  (5.2)
    tokens_per_update: int = 25_000  # real target tokens, about  (5.1)
    warmup: int = 4_000  # updates of rising learning rate  (5.3)
    learning_rate: float = 1.0  # factor on the paper's schedule  (5.3)
    beta1: float = 0.9  # Adam's  (5.3)
    beta2: float = 0.98  # Adam's  (5.3)
    epsilon: float = 1e-9  # Adam's  (5.3)
    label_smoothing: float = 0.1  # of the probability, given to the other words  (5.4)
    clip_norm: float | None = None  # the paper does not clip
    seed: int = 1  # of the first weights, of dropout, and of the order of the data
    checkpoint_every: int = 1_500  # ten minutes at 0.4 s per update  (6.1)
    keep_checkpoints: int = 5  # as many as are averaged; big: 20  (6.1)
    dev_every: int = 1_500  # updates between two evaluations on the development set
    log_every: int = 50  # updates between two points of the curve
    non_finite: Literal["stop", "skip"] = "stop"  # what to do with an update whose loss is not a number

    def __post_init__(self) -> None:
        require_types(self, "training")
        for name in (
            "steps", "tokens_per_update", "warmup", "checkpoint_every", "keep_checkpoints", "dev_every", "log_every",
        ):  # fmt: skip
            require(getattr(self, name) >= 1, f"training.{name} must be at least 1, not {getattr(self, name)}")
        require_seed("training.seed", self.seed)
        require(self.learning_rate > 0, f"training.learning_rate must be above 0, not {self.learning_rate}")
        require(self.epsilon > 0, f"training.epsilon must be above 0, not {self.epsilon}")
        for name in ("beta1", "beta2", "label_smoothing"):
            require_probability(f"training.{name}", getattr(self, name))
        require(
            self.clip_norm is None or self.clip_norm > 0, f"training.clip_norm must be above 0, not {self.clip_norm}"
        )


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """Section 6.1: beam 4, alpha 0.6, at most the source's length + 50, stopping early where that is safe."""

    beam: int = 4  # translations kept at every step  (6.1)
    alpha: float = 0.6  # of the length penalty ((5 + length) / 6) ** alpha  (6.1)
    extra_length: int = 50  # a translation has at most source + this many subwords  (6.1)
    n_best: int = 1  # translations kept of each sentence
    well_formed: bool = False  # of a model that writes trees: only well-formed trees over the source's words

    def __post_init__(self) -> None:
        require_types(self, "translation")
        require(self.beam >= 1, f"translation.beam must be at least 1, not {self.beam}")
        require(self.alpha >= 0, f"translation.alpha must be at least 0, not {self.alpha}")
        require(self.extra_length >= 1, f"translation.extra_length must be at least 1, not {self.extra_length}")
        require(
            1 <= self.n_best <= self.beam,
            f"translation.n_best must be from 1 to the beam ({self.beam}), not {self.n_best}",
        )
