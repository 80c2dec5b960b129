"""A whole update on fake tensors of cuda:0: nothing waits for the device, nothing is left on the host."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest
import torch
from conftest import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="a device guard is built, and there is no g++"),
    pytest.mark.skipif(
        torch.version.cuda is not None, reason="PyTorch's CUDA build has a guard that asks for a driver"
    ),
]


def update(form: str, *fault: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks/fake_update.py"), "tiny", "2", form, *fault]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("form", ["packed", "padded"])
def test_an_update_reads_no_value_and_copies_nothing(form: str) -> None:
    """Forward, loss, backward, norm, Adam. A batch is copied in few pieces, before."""
    done = update(form)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["copies"] == []
    assert found["copies_of_a_batch"] <= (9 if form == "packed" else 2 * 11)
    kernels = found["kernels"]
    assert kernels["_fused_adam_"] == 1
    if form == "packed":
        attentions = 2 + 2 * 2  # of two encoder and two decoder layers, whatever the number of micro-batches
        assert kernels["_varlen_attn"] == kernels["_varlen_attn_backward"] == attentions
        assert "index_select" not in kernels, "nothing is unpacked"


@pytest.mark.parametrize(("fault", "seen"), [("table on the host", "same device"), ("reads a value", "DataDependent")])
def test_what_is_wrong_would_be_seen(fault: str, seen: str) -> None:
    done = update("packed", fault)
    assert done.returncode != 0
    assert seen in done.stderr
