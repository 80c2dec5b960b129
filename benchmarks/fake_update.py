"""One update of a model on fake tensors of cuda:0, as a GPU profile does it; prints what it started, as JSON.

python benchmarks/fake_update.py base|big MICRO_BATCHES packed|padded [PLANTED FAULT]

`packed`: all of them in one pass. `padded`: one after the other on rectangles; attention there is counted as the plain
products and softmax that PyTorch falls back to on such tensors, so launches and bytes are upper bounds.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import fake_cuda

fake_cuda.install()
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.cuda.amp.common  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from transformer.batching import Batch, collate  # noqa: E402
from transformer.config import ModelConfig, TrainingConfig  # noqa: E402
from transformer.model import Transformer  # noqa: E402
from transformer.update import (  # noqa: E402
    Gradients,
    MicroBatch,
    PackedMicroBatches,
    Ranks,
    make_optimizer,
    packed,
    update,
)


@dataclass
class Kernels:
    """What an update started: launches, floating-point operations, bytes read and written, copies from the host."""

    names: list[str] = field(default_factory=list)
    flops: float = 0.0
    product_bytes: float = 0.0
    other_bytes: float = 0.0
    copies: list[str] = field(default_factory=list)


VIEWS = ("view", "detach", "t", "transpose", "expand", "slice", "select", "split", "unsqueeze", "squeeze", "permute")
VIEWS = (
    *VIEWS,
    "device",
    "_unsafe_view",
    "alias",
    "split_with_sizes",
    "unbind",
    "as_strided",
    "empty",
    "empty_like",
    "reshape",
)
PRODUCTS = ("mm", "addmm", "_varlen_attn", "_varlen_attn_backward", "baddbmm", "bmm")


def recorded(act: Any) -> Kernels:
    """What `act` starts."""
    kernels = Kernels()

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            name = func.overloadpacket.__name__
            given, made = (
                [t for t in tree_leaves(each) if isinstance(t, torch.Tensor)] for each in ((args, kwargs), out)
            )
            if {t.device.type for t in given if t.dim()} | {t.device.type for t in made} >= {"cpu", "cuda"}:
                kernels.copies.append(name)
            elif name not in VIEWS and any(t.device.type == "cuda" for t in made + given):
                kernels.names.append(name)
                moved = sum(t.numel() * t.element_size() for t in given + made)
                if name in PRODUCTS:
                    kernels.flops += product_flops(name, given, made)
                    kernels.product_bytes += moved
                else:
                    kernels.other_bytes += moved
            return out

    with Recorder():
        act()
    return kernels


def product_flops(name: str, given: Sequence[Any], made: Sequence[Any]) -> float:
    if name in ("mm", "addmm"):
        left, right = given[-2:]
        return 2.0 * left.size(0) * left.size(1) * right.size(1)
    return 0.0  # attention: 1 to 2 % of base and less of big at 30 subwords a sentence


MODELS = {
    "tiny": (ModelConfig(layers=2, d_model=64, d_ff=128, num_heads=2), 100, 64),
    "base": (ModelConfig(), 37_000, 3_125),
    "big": (ModelConfig(d_model=1024, d_ff=4096, num_heads=16, dropout=0.3), 37_000, 3_125),
}
LENGTH = 30


def batches(vocabulary: int, tokens: int, count: int) -> list[Batch]:
    """Of sentences that are sorted by length, as in shards: none is more than three subwords shorter than another."""
    numbers = np.random.default_rng(0)
    lengths = [numbers.integers(LENGTH - 3, LENGTH + 1, max(1, tokens // LENGTH)) for _ in range(2)]
    source, target = ([numbers.integers(4, vocabulary, each - 1).tolist() for each in side] for side in lengths)
    return [collate(source, target)] * count


def main(name: str, micro_batches: int, form: str, fault: str | None) -> dict[str, Any]:
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False  # there is a device, for all that torch knows
    torch.cuda.is_bf16_supported = lambda *_, **__: True
    config, vocabulary, tokens = MODELS[name]
    training = TrainingConfig(non_finite="skip")
    on_host = batches(vocabulary, tokens, micro_batches)
    target_tokens = sum(batch.target_tokens for batch in on_host)
    together = packed([MicroBatch(i, i, batch) for i, batch in enumerate(on_host)], seed=1)
    with FakeTensorMode(allow_non_fake_inputs=True):
        with torch.device("cuda"):
            model = Transformer(config, vocabulary).train()
        if fault == "table on the host":
            model.source_positions.table = torch.zeros(1024, config.d_model)
        if fault == "reads a value":
            model.encoder_norm.register_forward_hook(lambda _m, _a, out: out * float(out.sum()))
        optimizer, gradients = make_optimizer(model, training), Gradients(model, micro_batches)
        parts: list[MicroBatch | PackedMicroBatches] = []

        def copy() -> None:
            if form == "packed":
                parts.append(together._replace(batch=together.batch.map(to_device)))
            else:
                parts.extend(MicroBatch(i, i, batch.map(to_device)) for i, batch in enumerate(on_host))

        def step() -> None:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                update(
                    model, optimizer, gradients, parts, count=len(parts), tokens=target_tokens, learning_rate=1e-4,
                    config=training, ranks=Ranks(),
                )  # fmt: skip

        copies = recorded(copy).copies
        step()  # Adam makes its moments
        kernels = recorded(step)
    return {
        "tokens": target_tokens,
        "copies_of_a_batch": len(copies),
        "copies": kernels.copies,
        "launches": len(kernels.names),
        "kernels": dict(Counter(kernels.names).most_common()),
        "tflop": kernels.flops / 1e12,
        "product_gb": kernels.product_bytes / 1e9,
        "other_gb": kernels.other_bytes / 1e9,
    }


def to_device(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to("cuda")


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4] if len(sys.argv) > 4 else None)))
