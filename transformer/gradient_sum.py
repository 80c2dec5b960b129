"""The sum of gradients over the workers while the backward pass still computes: the network works beside the GPUs.

The flat buffer is cut into slices, last parameters first, as the backward pass comes to them. A slice is summed as soon
as the worker's last micro-batches have added what they have for it. All workers sum the same slices in the same order,
whatever is ready first, so the result is that of one sum of the whole buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch.distributed as dist
from torch import Tensor, nn

LEAST = 2**22  # numbers of a slice: 16 MB keeps a network busy; base has about ten such slices


class SumDuringBackward:
    """`arm` before the last backward pass of an update, `finish` after it."""

    def __init__(self, parameters: Sequence[nn.Parameter], buffer: Tensor, *, bf16: bool, least: int = LEAST) -> None:
        """`buffer` holds the gradients of the parameters, in their order. With `bf16` half as much is sent, rounded."""
        self.buffer, self.bf16 = buffer, bf16
        sizes = [parameter.numel() for parameter in parameters]
        self.slices, slice_of = cut(sizes, least)
        self.members = [slice_of.count(number) for number in range(len(self.slices))]
        self.armed = False
        self.started = 0  # slices before this one are summed or under way
        self.missing: list[int] = []  # of each slice: parameters that the backward pass has not come to
        self.under_way: list[tuple[dist.Work, Tensor, Tensor]] = []
        for parameter, number in zip(parameters, slice_of, strict=True):
            parameter.register_post_accumulate_grad_hook(partial(self._arrived, number))

    def arm(self) -> None:
        self.armed, self.started, self.missing = True, 0, list(self.members)

    def _arrived(self, number: int, _parameter: Tensor) -> None:
        """A parameter of this slice has its gradient. A slice that is ready before its turn waits."""
        if self.armed:
            self.missing[number] -= 1
            while self.started < len(self.slices) and self.missing[self.started] == 0:
                self._start()

    def _start(self) -> None:
        """Sum the slice whose turn it is, without waiting for it."""
        gradient = self.buffer[self.slices[self.started]]
        sent = gradient.bfloat16() if self.bf16 else gradient
        work = dist.all_reduce(sent, async_op=True)
        assert work is not None
        self.under_way.append((work, sent, gradient))
        self.started += 1

    def finish(self) -> None:
        """Sum what is left, and wait (a GPU's stream does, not the host)."""
        while self.started < len(self.slices):
            self._start()
        for work, sent, gradient in self.under_way:
            work.wait()
            if sent is not gradient:
                gradient.copy_(sent)
        self.under_way.clear()
        self.armed = False


def cut(sizes: Sequence[int], least: int) -> tuple[list[slice], list[int]]:
    """Slices of at least so many numbers, from the end of the buffer to its beginning; and the slice of each size."""
    slices: list[slice] = []
    slice_of = [0] * len(sizes)
    stop = at = sum(sizes)
    for number in reversed(range(len(sizes))):
        at -= sizes[number]
        slice_of[number] = len(slices)
        if stop - at >= least or at == 0:
            slices.append(slice(at, stop))
            stop = at
    return slices, slice_of
