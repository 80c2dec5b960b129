"""torch.compile as a GPU profile has it: few graphs for all shapes, and a compiler that fails costs nothing."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from typing import Any

import pytest
import torch
from conftest import ROOT

from jobs.train.packing import compile_model
from transformer.batching import collate
from transformer.config import ModelConfig
from transformer.cpu import linear
from transformer.model import Transformer
from transformer.update import MicroBatch, Ranks, evaluate, packed, packed_losses

MODEL = ModelConfig(layers=1, d_model=16, d_ff=32, num_heads=2, dropout=0.3)
SHAPES = 200
WITHOUT_A_COMPILER = """
import torch
from jobs.train.packing import compile_model
from transformer.config import ModelConfig
from transformer.cpu import linear
from transformer.model import Transformer

linear.ONEDNN = False  # as on a GPU
model = Transformer(ModelConfig(layers=1, d_model=16, d_ff=32, num_heads=2), 30).train()
plain = model.hidden_rows
print(compile_model(model, torch.device("cpu"), torch.autocast("cpu", enabled=False)))
assert model.hidden_rows == plain
assert all(parameter.grad is None for parameter in model.parameters())
"""


def compiled(model: Transformer) -> list[Any]:
    """Traced as for a GPU, forward and backward, but run by PyTorch's plain kernels. The list grows by each graph."""
    aot_eager = torch._dynamo.lookup_backend("aot_eager")  # type: ignore[no-untyped-call]
    graphs: list[Any] = []

    def backend(graph: torch.fx.GraphModule, examples: Any) -> Any:
        graphs.append(graph)
        return aot_eager(graph, examples)

    model.hidden_rows = torch.compile(model.hidden_rows, dynamic=True, backend=backend, fullgraph=True)  # type: ignore[method-assign]
    return graphs


def made(numbers: random.Random, place: int) -> MicroBatch:
    """One to six pairs; a side has one to nine tokens, END counted."""
    pairs = [[[5] * numbers.randint(0, 8) for _ in range(2)] for _ in range(numbers.randint(1, 6))]
    return MicroBatch(place, place, collate([source for source, _ in pairs], [target for _, target in pairs]))


@pytest.mark.slow
def test_two_hundred_shapes_are_at_most_three_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """With dropout on; a look at the development set is one of them. What they compute is what the model computes."""
    monkeypatch.setattr(linear, "ONEDNN", False)  # as on a GPU
    torch.manual_seed(0)
    model, plain = (Transformer(MODEL, 30).train() for _ in range(2))
    plain.load_state_dict(model.state_dict())
    graphs, numbers = compiled(model), random.Random(0)
    shapes = set()
    for number in range(SHAPES):
        part = packed([made(numbers, place) for place in range(2 + number % 3)], seed=number)
        losses_P, _ = packed_losses(model, part.batch, 0.1)
        losses_P.sum().backward()  # type: ignore[no-untyped-call]
        shapes.add((len(part.batch.source_R), part.batch.target_tokens, len(part.batch.source_rows.starts)))
        if number % 20 == 0:
            torch.testing.assert_close(losses_P, packed_losses(plain, part.batch, 0.1)[0])
            torch.testing.assert_close(
                evaluate(model, [part.batch], 0.1, Ranks()), evaluate(plain, [part.batch], 0.1, Ranks())
            )
    assert len(shapes) > SHAPES * 0.8
    assert len(graphs) <= 3


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="PyTorch's compiler needs a C++ compiler, and there is none")
def test_what_the_real_compiler_makes_of_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its integer arithmetic has its own limits: dropout's numbers were too large for it once."""
    monkeypatch.setattr(linear, "ONEDNN", False)
    torch.manual_seed(0)
    model, plain = (Transformer(MODEL, 30).train() for _ in range(2))
    plain.load_state_dict(model.state_dict())
    cpu = torch.device("cpu")
    assert compile_model(model, cpu, torch.autocast("cpu", enabled=False)) is None
    part = packed([made(random.Random(seed), seed) for seed in range(3)], seed=1)
    for each in (model, plain):
        packed_losses(each, part.batch, 0.1)[0].sum().backward()  # type: ignore[no-untyped-call]
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        assert ours.grad is not None
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.slow
def test_without_a_compiler_training_goes_on_and_says_so() -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "CXX": "/nowhere/c++",
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_COMPILER], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert "Error: " in done.stdout
    assert done.stdout.count("\n") == 1
