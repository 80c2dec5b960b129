"""One update of the weights (section 5): the same on any number of workers.

The loss is a mean over all real target tokens of the update, on whichever worker. Gradients of all parameters are one
flat buffer, at whose end each micro-batch has a place for its loss: one sum over the workers carries everything. Before
a micro-batch the generator is seeded from (seed, position in the stream), so dropout does not depend on the worker.
"""

# M micro-batches of the update, over all workers

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from transformer.batching import Batch
from transformer.config import TrainingConfig
from transformer.cpu.linear import prepacked
from transformer.loss import smoothed_cross_entropy
from transformer.model import Transformer


@dataclass(frozen=True)
class Ranks:
    """This worker's rank and the number of workers."""

    rank: int = 0
    world_size: int = 1

    def sum(self, tensor: Tensor) -> None:
        """Add up over all workers, in place."""
        if self.world_size > 1:
            dist.all_reduce(tensor)


class MicroBatch(NamedTuple):
    """A batch, its place in the update (0 ... M - 1) and in the endless stream."""

    place: int
    position: int
    batch: Batch


class Outcome(NamedTuple):
    """Tensors on the device: reading a value waits for the update."""

    losses_M2: Tensor  # per micro-batch of all workers: smoothed loss and plain loss, sums over its tokens
    gradient_norm: Tensor


class Gradients:
    """Every parameter's gradient as a view of one buffer; the losses of the update's micro-batches at its end."""

    def __init__(self, model: nn.Module, micro_batches: int) -> None:
        parameters = list(model.parameters())
        self.size = sum(p.numel() for p in parameters)
        self.buffer = torch.zeros(self.size + 2 * micro_batches, device=parameters[0].device)
        self.losses_M2 = self.buffer[self.size :].view(micro_batches, 2)
        start = 0
        for parameter in parameters:
            parameter.grad = self.buffer[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()

    def norm(self) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(self.buffer[: self.size])
        return norm

    def scale(self, factor: Tensor) -> None:
        self.buffer[: self.size].mul_(factor)


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Adam:
    """Adam as in section 5.3. `update` sets the learning rate."""
    betas = (config.beta1, config.beta2)
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=betas, eps=config.epsilon, fused=True)


def seed_for(seed: int, position: int) -> None:
    """Make the random numbers of a micro-batch a function of its position in the stream."""
    torch.manual_seed(int(np.random.SeedSequence((seed, position)).generate_state(1, np.uint64)[0] >> 1))


def batch_losses(model: Transformer, batch: Batch, smoothing: float) -> tuple[Tensor, Tensor]:
    """Smoothed and plain loss of a batch, sums over its real target tokens."""
    return smoothed_cross_entropy(model.hidden_rows(batch), model.output_weight, batch.gold_N, smoothing)


def accumulate(
    model: Transformer, gradients: Gradients, micro_batch: MicroBatch, *, tokens: int, config: TrainingConfig
) -> None:
    """Add one micro-batch's share of the update's gradient. `tokens` are those of the whole update."""
    seed_for(config.seed, micro_batch.position)
    loss, nll = batch_losses(model, micro_batch.batch, config.label_smoothing)
    (loss / tokens).backward()
    gradients.losses_M2[micro_batch.place] = torch.stack((loss.detach(), nll))


def gather(gradients: Gradients, ranks: Ranks, clip_norm: float | None) -> Outcome:
    """Sum over the workers, then clip if `clip_norm` is given."""
    ranks.sum(gradients.buffer)
    norm = gradients.norm()
    if clip_norm is not None:
        gradients.scale((clip_norm / norm).clamp(max=1.0))
    return Outcome(gradients.losses_M2.clone(), norm)


def update(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    gradients: Gradients,
    micro_batches: Iterable[MicroBatch],
    *,
    count: int,
    tokens: int,
    learning_rate: float,
    config: TrainingConfig,
    ranks: Ranks,
) -> Outcome:
    """One update over this rank's `count` micro-batches. Weights stay as they are where the gradient is not finite.

    On a GPU they do so only if such updates are to be skipped: else training stops when it next looks at the losses.
    """
    gradients.buffer.zero_()
    with prepacked(model.matrices(), micro_batches=count):
        for micro_batch in micro_batches:
            accumulate(model, gradients, micro_batch, tokens=tokens, config=config)
    outcome = gather(gradients, ranks, config.clip_norm)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    if outcome.gradient_norm.is_cuda:
        step_unless_bad(optimizer, outcome.gradient_norm if config.non_finite == "skip" else None)
    elif bool(outcome.gradient_norm.isfinite()):
        optimizer.step()
    return outcome


def step_unless_bad(optimizer: torch.optim.Optimizer, norm: Tensor | None) -> None:
    """A step that the device itself leaves out where the norm is not finite: nobody waits to look at it.

    Fused Adam reads `found_inf`, as PyTorch's gradient scaler sets it: where it is 1, weights, moments and count stay.
    """
    if norm is not None:
        optimizer.found_inf = (~norm.isfinite()).float()  # type: ignore[attr-defined]
    optimizer.step()


@torch.no_grad()
def evaluate(model: Transformer, batches: Iterable[Batch], smoothing: float, ranks: Ranks) -> tuple[float, float]:
    """Mean smoothed and plain loss per real target token, without dropout, over all workers' batches."""
    was_training = model.training
    model.eval()
    losses = torch.zeros(2, dtype=torch.float64, device=model.embedding.weight.device)
    count = 0  # on the host: nothing is copied to the device for each batch
    for batch in batches:
        loss, nll = batch_losses(model, batch, smoothing)
        losses += torch.stack((loss.double(), nll.double()))
        count += batch.target_tokens
    sums = torch.cat((losses, losses.new_tensor([count])))
    ranks.sum(sums)
    model.train(was_training)
    loss_sum, nll_sum, tokens = sums.tolist()
    return loss_sum / tokens, nll_sum / tokens
