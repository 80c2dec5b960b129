"""Which of PyTorch's operators something calls."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class Calls(TorchDispatchMode):
    """The names of the operators that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))

    @property
    def onednn(self) -> int:
        return sum("mkldnn" in name for name in self.names)
