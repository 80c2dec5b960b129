"""The sum of gradients beside the backward pass is the sum after it, bit for bit."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from hypothesis import given
from hypothesis import strategies as st

from transformer.batching import collate
from transformer.config import ModelConfig, TrainingConfig
from transformer.cpu import linear
from transformer.gradient_sum import SumDuringBackward, cut
from transformer.model import Transformer
from transformer.update import Gradients, MicroBatch, Ranks, make_optimizer, packed, update

TRAINING = TrainingConfig(seed=5)
MICRO_BATCHES = [
    MicroBatch(place, place, collate([[5 + place, 6], [7] * place], [[8] * (1 + place), [9, 4]])) for place in range(5)
]
SHARES = ((0, 1, 2), (3, 4))  # unequal


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(1, 100))
def test_slices_cover_every_gradient_once_from_the_last_to_the_first(sizes: list[int], least: int) -> None:
    slices, slice_of = cut(sizes, least)
    assert slices[0].stop == sum(sizes)
    assert slices[-1].start == 0
    assert all(later.start == earlier.stop for later, earlier in pairwise(slices))
    assert all(each.stop - each.start >= least for each in slices[:-1])
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    for start, size, number in zip(starts, sizes, slice_of, strict=True):
        assert slices[number].start <= start
        assert start + size <= slices[number].stop


class Counted(SumDuringBackward):
    early = 0  # slices that were under way before the last backward pass had ended

    def finish(self) -> None:
        self.early += len(self.under_way)
        super().finish()


def two_updates(ranks: Ranks, least: int | None, *, bf16: bool = False) -> tuple[torch.Tensor, int]:
    """Weights, gradients and losses after two updates; how many slices went out early. `None`: one sum at the end."""
    torch.manual_seed(1)
    model = Transformer(ModelConfig(layers=1, d_model=16, d_ff=32, num_heads=2), 30).train()
    optimizer, gradients = make_optimizer(model, TRAINING), Gradients(model, len(MICRO_BATCHES))
    counted = None
    if least is not None:
        counted = Counted(list(model.parameters()), gradients.of_parameters, bf16=bf16, least=least)
        gradients.sums = counted
    own = [packed([MICRO_BATCHES[place]], TRAINING.seed) for place in SHARES[ranks.rank]]
    for _ in range(2):
        outcome = update(
            model,
            optimizer,
            gradients,
            own,
            count=len(own),
            tokens=40,
            learning_rate=0.01,
            config=TRAINING,
            ranks=ranks,
        )
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    return torch.cat((weights, gradients.buffer, outcome.losses_M2.flatten())), counted.early if counted else 0


def worker(rank: int, directory: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{directory}/group", rank=rank, world_size=2)
    torch.set_num_threads(1)
    ranks, found = Ranks(rank, 2), {}
    for name, onednn in (("usual", False), ("onednn", True)):
        linear.ONEDNN = onednn and torch.backends.mkldnn.is_available()
        found[name] = {least: two_updates(ranks, least) for least in (None, 1, 700, 10**9)}
    linear.ONEDNN = False
    found["bf16"] = {700: two_updates(ranks, 700, bf16=True)}
    torch.save(found, f"{directory}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_workers_with_unequal_shares_have_the_same_bits(tmp_path: Path) -> None:
    """With a GPU's products slices go out during the pass; oneDNN's add gradients by themselves: then at the end."""
    processes.spawn(worker, args=(str(tmp_path),), nprocs=2)  # type: ignore[no-untyped-call]
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt")
        for kind in ("usual", "onednn"):
            wanted, _ = found[kind].pop(None)
            assert all(torch.equal(each, wanted) for each, _ in found[kind].values())
        early = {least: count for least, (_, count) in found["usual"].items()}
        assert early[1] > early[700] > early[10**9]
        assert early[700] >= 2 * 2
        rounded, _ = found["bf16"][700]
        exact, _ = found["usual"][700]
        assert not torch.equal(rounded, exact)
        torch.testing.assert_close(rounded, exact, atol=2e-2, rtol=2e-2)
