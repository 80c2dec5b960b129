"""`precision = "auto"`: bf16 where the hardware of every worker multiplies it; said in the plan, and recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as processes

from jobs.configs import Precision
from jobs.train.precision import agreed_precision, so_far
from pipelines.cli import main
from pipelines.recipes.recipes import RECIPES
from transformer.cpu import bf16, linear
from transformer.update import Ranks

CPU = torch.device("cpu")


@pytest.mark.parametrize(("able", "found"), [(True, "bf16"), (False, "fp32")])
def test_auto_is_what_the_hardware_is_for(able: bool, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "ONEDNN", True)
    monkeypatch.setattr(linear, "BF16", able)
    assert agreed_precision("auto", CPU, Ranks()) == found


@pytest.mark.parametrize("wanted", ["fp32", "tf32", "bf16"])
def test_what_a_profile_says_is_done_on_any_hardware(wanted: Precision, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "BF16", wanted != "bf16")
    assert agreed_precision(wanted, CPU, Ranks()) == wanted


def worker(rank: int, directory: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{directory}/group", rank=rank, world_size=2)
    linear.ONEDNN = True
    found: list[str] = []
    for others in (True, False):
        linear.BF16 = rank == 0 or others
        found.append(agreed_precision("auto", CPU, Ranks(rank, 2)))
    Path(directory, str(rank)).write_text(" ".join(found))
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.slow
def test_one_worker_that_lacks_it_decides_for_all(tmp_path: Path) -> None:
    processes.spawn(worker, args=(str(tmp_path),), nprocs=2)  # type: ignore[no-untyped-call]
    assert [(tmp_path / str(rank)).read_text() for rank in range(2)] == ["bf16 fp32"] * 2


@pytest.mark.parametrize(
    ("flags", "able"),
    [
        ("flags\t\t: fpu avx512f avx512_bf16 amx_tile\n", True),
        ("processor : 0\nflags : avx512f amx_bf16\n", True),
        ("flags : fpu avx512f avx512_vnni\n", False),
        ("Features : asimd\n", False),
        (None, False),
    ],
)
def test_the_hardware_is_known_by_its_list_of_instructions(
    flags: str | None, able: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpuinfo"
    if flags is not None:
        file.write_text(flags)
    monkeypatch.setattr(bf16, "CPUINFO", file)
    assert bf16.multiplies_bf16() is able


def test_a_plan_says_in_what_training_will_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("[train]\nprecision = 'auto'\n")
    monkeypatch.setattr(bf16, "CPUINFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text("flags : avx512_bf16\n")
    assert main(["plan", "demo", "--on", "./mine.toml"]) == 0
    assert "Training: in bf16 where the hardware of all workers multiplies it, else in fp32; this CPU does\n" in (
        said := capsys.readouterr().out
    )
    assert RECIPES["demo"].step().fingerprint[:8] in said, "where it is made is no part of the name"
    (tmp_path / "fixed.toml").write_text("[train]\nprecision = 'fp32'\n")
    assert main(["plan", "demo", "--on", "./fixed.toml"]) == 0
    assert "bf16" not in capsys.readouterr().out


def test_a_training_that_went_on_elsewhere_records_all_that_there_were() -> None:
    assert so_far("", "fp32") == "fp32"
    assert so_far("fp32", "bf16") == "fp32, bf16"
    assert so_far("fp32, bf16", "bf16") == "fp32, bf16"
