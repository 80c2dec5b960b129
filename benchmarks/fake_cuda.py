"""A device cuda:0 for fake tensors, on a machine without a GPU (benchmarks/fake_update.py).

Fake tensors have a shape, a type and a device but no values: a read of a value, or a tensor left on the host, raises.
`install` comes before torch is imported, in a process of its own. It needs g++ and PyTorch's CPU build: in the other
there is a real guard, which asks for a driver.
"""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path


def install() -> None:
    """Build the device guard against torch's own headers, and load it."""
    assert "torch" not in sys.modules, "the guard comes before torch"
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.submodule_search_locations
    torch_at = Path(spec.submodule_search_locations[0])
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory) / "guard.so"
        includes = [f"-I{torch_at / 'include'}", f"-I{torch_at / 'include/torch/csrc/api/include'}"]
        source = Path(__file__).parent / "cuda_guard.cpp"
        command = ["g++", "-std=c++20", "-O0", "-shared", "-fPIC", *includes, str(source), "-o", str(library)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        for name in ("libc10.so", "libtorch_cpu.so"):
            ctypes.CDLL(str(torch_at / "lib" / name), mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL).install()
