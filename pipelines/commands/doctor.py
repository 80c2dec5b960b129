"""`attn doctor`: is this machine, and the cluster if one is named, ready? In plain words, with what to do where not."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata

from rich.console import Console

from jobs.errors import UserError
from pipelines.execution.workspace import Workspace
from pipelines.terminal.json_output import print_json
from pipelines.tracking.writer import reader, shown, tracking_uri

NEEDED = ("torch", "ray", "mlflow", "pyarrow", "sentencepiece", "sacrebleu", "safetensors", "rich")
DISK_GB, MEMORY_GB = 5.0, 4.0


@dataclass(frozen=True)
class Finding:
    what: str
    good: bool
    says: str


def doctor(args: argparse.Namespace) -> int:
    workspace = Workspace(args.workspace)
    checks: list[Callable[[], Finding]] = [
        python, libraries, processors, memory, gpus, lambda: disk(workspace), lambda: storage(workspace),
        lambda: tracking(workspace), *([] if args.address else [ray_here]), *([speed] if args.measure else []),
    ]  # fmt: skip
    console = Console(highlight=False)
    findings = []
    for check in checks:
        finding = check()
        findings.append(finding)
        if not args.json:
            mark = "[green]ok[/]  " if finding.good else "[red]no[/]  "
            console.print(f"{mark}{finding.what:<10} {finding.says}", soft_wrap=True)
    if args.address:
        findings += _cluster(args, workspace, console)
    if args.json:
        print_json([asdict(finding) for finding in findings])
    return 0 if all(finding.good for finding in findings) else 1


def python() -> Finding:
    return Finding("Python", sys.version_info >= (3, 11), f"{platform.python_version()} (3.11 or newer is needed)")


def libraries() -> Finding:
    absent = []
    for name in NEEDED:
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            absent.append(name)
    if absent:
        return Finding("libraries", False, f"missing: {', '.join(absent)}. `make setup` installs them.")
    return Finding("libraries", True, ", ".join(f"{name} {metadata.version(name)}" for name in NEEDED[:4]))


def processors() -> Finding:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Finding("CPUs", count >= 2, f"{count} (the profile `laptop` trains with 2 workers of one CPU each)")


def memory() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Finding("memory", total >= MEMORY_GB, f"{total:.1f} GiB ({MEMORY_GB:.0f} or more for the demo)")


def gpus() -> Finding:
    torch = importlib.import_module("torch")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(count))
    return Finding("GPUs", True, names or "none here: training runs on CPUs, fine for `demo` and `files`")


def disk(workspace: Workspace) -> Finding:
    place = workspace.local_directory("")
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / 1e9
    return Finding("disk", free >= DISK_GB, f"{free:.0f} GB free at {place} (WMT14 En-De takes about 20 GB)")


def storage(workspace: Workspace) -> Finding:
    try:
        workspace.check_writable()
    except UserError as error:
        return Finding("workspace", False, str(error))
    return Finding("workspace", True, f"{workspace.uri} can be written")


def tracking(workspace: Workspace) -> Finding:
    uri = tracking_uri(workspace)
    try:
        count = len(reader(workspace).search_experiments())
    except UserError:
        return Finding("MLflow", True, f"{shown(uri)} will be made by the first run")
    except Exception as error:  # every store has its own way of not being there
        return Finding("MLflow", False, f"{shown(uri)}: {str(error).splitlines()[0]}")
    return Finding("MLflow", True, f"{shown(uri)}, {count} experiments")


def speed() -> Finding:
    """What estimates stand on: put the matrix rate per device into a profile as `device_tflops`."""
    found = importlib.import_module("jobs.cluster.machine_speed").measured()
    models = "; ".join(
        f"{name} trains {found[f'{name}_tokens_per_second']:,.0f} target tokens/s, "
        f"{found[f'{name}_share_of_matmul']:.0%} of it"
        for name in ("small", "base")
    )
    rate = f"{found['matmul_tflops']:.3f} TFLOPS of matrix products on {found['threads']:.0f} threads"
    return Finding("speed", True, f"{rate}; {models}")


def ray_here() -> Finding:
    cluster = importlib.import_module("jobs.cluster.connect")
    try:
        cluster.connect()
        have = cluster.totals()
    except UserError as error:
        return Finding("Ray", False, str(error))
    finally:
        cluster.leave()
    return Finding("Ray", True, f"starts on this machine: {have.get('CPU', 0):g} CPUs, {have.get('GPU', 0):g} GPUs")


def _cluster(args: argparse.Namespace, workspace: Workspace, console: Console) -> list[Finding]:
    """What a submission to the cluster would be told."""
    commands = importlib.import_module("pipelines.commands.submit")
    found = commands.examine(args, "demo", workspace)
    for each in found if not args.json else []:
        console.print(f"{commands.MARKS[each.level]}{each.what:<10} {each.sentence}", soft_wrap=True)
    return [Finding(each.what, each.level != "no", each.sentence) for each in found]
