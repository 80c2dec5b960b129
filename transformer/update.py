"""One update of the weights (section 5): the same on any number of workers.

The loss is a mean over all real target tokens of the update, on whichever worker. Gradients of all parameters are one
flat buffer, at whose end each micro-batch has a place for its loss: one sum over the workers carries everything.
Dropout is a function of (seed, position of the micro-batch in the stream), so it does not depend on the worker.
"""

# M micro-batches of the update, over all workers

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from transformer.batching import Batch
from transformer.config import TrainingConfig
from transformer.cpu.linear import prepacked
from transformer.gradient_sum import SumDuringBackward
from transformer.loss import smoothed_cross_entropy
from transformer.model import Transformer
from transformer.packed import PackedBatch


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


class PackedMicroBatches(NamedTuple):
    """Several of them, to go through the model at once."""

    places: Sequence[int]
    batch: PackedBatch


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
        self.of_parameters = self.buffer[: self.size]
        self.losses_M2 = self.buffer[self.size :].view(micro_batches, 2)
        self.sums: SumDuringBackward | None = None  # where they are not added up all at once at the end
        start = 0
        for parameter in parameters:
            parameter.grad = self.buffer[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()

    def sum_during_backward(self, model: nn.Module, *, bf16: bool) -> None:
        self.sums = SumDuringBackward(list(model.parameters()), self.of_parameters, bf16=bf16)

    def last_part(self) -> None:
        """To be called before the last that is accumulated: sums may begin."""
        if self.sums is not None:
            self.sums.arm()

    def sum(self, ranks: Ranks) -> None:
        """Gradients and losses of all workers."""
        if self.sums is None:
            ranks.sum(self.buffer)
        else:
            self.sums.finish()
            ranks.sum(self.losses_M2)

    def norm(self) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(self.of_parameters)
        return norm

    def scale(self, factor: Tensor) -> None:
        self.of_parameters.mul_(factor)


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Adam:
    """Adam as in section 5.3. `update` sets the learning rate."""
    betas = (config.beta1, config.beta2)
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=betas, eps=config.epsilon, fused=True)


def seed_for(seed: int, position: int) -> int:
    """What a micro-batch's random numbers come from, 63 bits: a function of its position in the stream."""
    return int(np.random.SeedSequence((seed, position)).generate_state(1, np.uint64)[0] >> 1)


def packed(micro_batches: Sequence[MicroBatch], seed: int) -> PackedMicroBatches:
    keys = [seed_for(seed, each.position) for each in micro_batches]
    return PackedMicroBatches(
        [each.place for each in micro_batches], PackedBatch.of([each.batch for each in micro_batches], keys)
    )


def batch_losses(model: Transformer, batch: Batch | PackedBatch, smoothing: float) -> tuple[Tensor, Tensor]:
    """Smoothed and plain loss of a batch, sums over its real target tokens."""
    return smoothed_cross_entropy(model.hidden_rows(batch), model.output_weight, batch.gold_N, smoothing)


def packed_losses(model: Transformer, batch: PackedBatch, smoothing: float) -> tuple[Tensor, Tensor]:
    """The same of each micro-batch, (P) for P of them: the scores of one at a time are in memory."""
    parts = zip(model.hidden_rows(batch).split(batch.tokens), batch.gold_N.split(batch.tokens), strict=True)
    losses = [smoothed_cross_entropy(hidden, model.output_weight, gold, smoothing) for hidden, gold in parts]
    smoothed, plain = zip(*losses, strict=True)
    return torch.stack(smoothed), torch.stack(plain)


def accumulate(
    model: Transformer,
    gradients: Gradients,
    part: MicroBatch | PackedMicroBatches,
    *,
    tokens: int,
    config: TrainingConfig,
) -> None:
    """Add the share of what goes through the model at once. `tokens` are those of the whole update."""
    if isinstance(part, PackedMicroBatches):
        losses_P, nlls_P = packed_losses(model, part.batch, config.label_smoothing)
        (losses_P.sum() / tokens).backward()
        for place, loss, nll in zip(part.places, losses_P.detach(), nlls_P, strict=True):
            gradients.losses_M2[place] = torch.stack((loss, nll))
        return
    torch.manual_seed(seed_for(config.seed, part.position))
    loss, nll = batch_losses(model, part.batch, config.label_smoothing)
    (loss / tokens).backward()
    gradients.losses_M2[part.place] = torch.stack((loss.detach(), nll))


def gather(gradients: Gradients, ranks: Ranks, clip_norm: float | None) -> Outcome:
    """Sum over the workers, then clip if `clip_norm` is given."""
    gradients.sum(ranks)
    norm = gradients.norm()
    if clip_norm is not None:
        gradients.scale((clip_norm / norm).clamp(max=1.0))
    return Outcome(gradients.losses_M2.clone(), norm)


def update(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    gradients: Gradients,
    micro_batches: Iterable[MicroBatch | PackedMicroBatches],
    *,
    count: int,
    tokens: int,
    learning_rate: float,
    config: TrainingConfig,
    ranks: Ranks,
) -> Outcome:
    """One update over this rank's micro-batches, in `count` parts.

    Weights stay as they are where the gradient is not finite. On a GPU they do so only if such updates are to be
    skipped: else training stops when it next looks at the losses.
    """
    gradients.buffer.zero_()
    with prepacked(model.matrices(), micro_batches=count):
        for number, part in enumerate(micro_batches, start=1):
            if number == count:
                gradients.last_part()
            accumulate(model, gradients, part, tokens=tokens, config=config)
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
def evaluate(
    model: Transformer, batches: Iterable[Batch | PackedBatch], smoothing: float, ranks: Ranks
) -> tuple[float, float]:
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
