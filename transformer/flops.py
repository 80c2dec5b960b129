"""Floating-point operations of a model: matrix products only, a multiply and an add each; the rest is small.

Standard library only, so that a plan may say what a training run costs.
"""

from __future__ import annotations

from transformer.config import ModelConfig

BACKWARD = 2  # the backward pass does twice the forward pass's products


def forward_flops(config: ModelConfig, vocabulary_size: int, *, source: float, target: float) -> float:
    """One pair of `source` and `target` subwords (END counted), from the embeddings to the softmax's scores."""
    keys, values = config.num_heads * config.key_width, config.num_heads * config.value_width
    projections = 2 * config.d_model * (2 * keys + 2 * values)  # Q, K, V and W^O, per position
    feed_forward = 4 * config.d_model * config.d_ff
    attention = 2 * (keys + values)  # eq. (1): scores and weighted sum, per query and key
    encoder = source * (projections + feed_forward + attention * source)
    self_attention = target * (projections + attention * (target + 1) / 2)  # a position sees itself and those before
    cross_projections = target * 2 * config.d_model * (keys + values) + source * 2 * config.d_model * (keys + values)
    decoder = self_attention + cross_projections + target * (attention * source + feed_forward)
    scores = target * 2 * config.d_model * vocabulary_size
    return config.layers * (encoder + decoder) + scores


def training_flops(config: ModelConfig, vocabulary_size: int, *, source: float, target: float) -> float:
    """Forward and backward of one pair."""
    return (1 + BACKWARD) * forward_flops(config, vocabulary_size, source=source, target=target)


def flops_per_target_token(
    config: ModelConfig, vocabulary_size: int, *, source: float = 30, target: float = 30
) -> float:
    """Training, per real target token, for pairs of these mean lengths."""
    return training_flops(config, vocabulary_size, source=source, target=target) / target
