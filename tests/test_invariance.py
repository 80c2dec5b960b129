"""World-size invariance at a full learning rate: in double precision, where rounding cannot hide a mistake.

Another number of workers adds the same numbers in another order. In single precision that is a rounding error, which
Adam multiplies where a gradient is near zero, so after some hundred updates at a full rate two honest runs drift
apart. In double precision the same drift is a billion times smaller, and a mistake stays as large as it was: a share
counted twice, dropout that follows the rank, a mean of means.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import Tensor

from transformer.batching import collate
from transformer.config import ModelConfig, TrainingConfig
from transformer.model import Transformer
from transformer.schedule import learning_rate
from transformer.update import Gradients, MicroBatch, Ranks, make_optimizer, update

MODEL = ModelConfig(layers=2, d_model=16, d_ff=32, num_heads=2, dropout=0.3)
TRAINING = TrainingConfig(seed=5, warmup=20)
UPDATES, PER_UPDATE, VOCABULARY, FACTOR = 150, 4, 12, 0.3  # of the rate: 0.017 at most, as high as it still learns


def micro_batch(place: int, position: int) -> MicroBatch:
    """Pairs of a language of numbers, reversed by translation; micro-batches of unlike sizes."""
    draw = torch.Generator().manual_seed(position)
    sources = [
        torch.randint(4, VOCABULARY, (int(torch.randint(1, 9, (), generator=draw)),), generator=draw).tolist()
        for _ in range(3 + 4 * place)
    ]
    return MicroBatch(place, position, collate(sources, [source[::-1] for source in sources]))


def train(rank: int, world_size: int, port: int, precision: torch.dtype, out: Path) -> None:
    """All updates as one of `world_size` processes; the first one keeps losses and weights."""
    torch.set_num_threads(1)
    torch.set_default_dtype(precision)
    if world_size > 1:
        dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=world_size)
    torch.manual_seed(1)
    model = Transformer(MODEL, VOCABULARY)
    optimizer, gradients = make_optimizer(model, TRAINING), Gradients(model, PER_UPDATE)
    losses = []
    for number in range(1, UPDATES + 1):
        batches = [micro_batch(place, number * PER_UPDATE + place) for place in range(PER_UPDATE)]
        tokens = sum(batch.batch.target_tokens for batch in batches)
        rate = learning_rate(number, d_model=MODEL.d_model, warmup=TRAINING.warmup, factor=FACTOR)
        mine = batches[rank::world_size]
        outcome = update(
            model, optimizer, gradients, mine, count=len(mine), tokens=tokens, learning_rate=rate, config=TRAINING,
            ranks=Ranks(rank, world_size),
        )  # fmt: skip
        losses.append(outcome.losses_M2.sum(dim=0) / tokens)
    if rank == 0:
        weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
        torch.save((torch.stack(losses), weights), out)
    if world_size > 1:
        dist.destroy_process_group()


def trained(directory: Path, world_size: int, precision: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Losses of every update, and the weights at the end, of a training by real processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    out = directory / f"{world_size}.pt"
    multiprocessing.spawn(train, (world_size, port, precision, out), nprocs=world_size)  # type: ignore[no-untyped-call]
    losses, weights = torch.load(out)
    return losses, weights


@pytest.mark.slow
def test_one_two_and_four_workers_train_the_same_model_at_a_full_rate(tmp_path: Path) -> None:
    losses, weights = trained(tmp_path, 1)
    assert losses[-10:].mean() < 0.9 * losses[:10].mean(), "it learns, so there is something to disagree about"
    for world_size in (2, 4):
        other_losses, other_weights = trained(tmp_path, world_size)
        torch.testing.assert_close(other_losses, losses, rtol=1e-8, atol=0)
        torch.testing.assert_close(other_weights, weights, rtol=0, atol=1e-8)
