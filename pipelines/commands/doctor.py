"""`attn doctor`: checks of this machine, and of the cluster if one is named, each with what to do about it."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib import metadata

from rich.console import Console

from jobs.cluster.profiles import load_profile
from jobs.cluster.submit.submission import Finding
from jobs.configs import Resources
from jobs.errors import UserError
from jobs.passwords import hidden
from jobs.train.stage import TRAIN
from pipelines.execution.workspace import Workspace
from pipelines.terminal.findings import print_findings
from pipelines.terminal.json_output import print_json
from pipelines.tracking.server import is_absent, reader, tracking_uri

NEEDED = ("torch", "ray", "mlflow", "pyarrow", "sentencepiece", "sacrebleu", "safetensors", "rich")
DISK_GB, MEMORY_GB = 5.0, 4.0


def finding(what: str, good: bool, sentence: str) -> Finding:
    return Finding("ok" if good else "error", what, sentence)


def doctor(args: argparse.Namespace) -> int:
    on = load_profile(args.on)
    workspace = Workspace(args.workspace)
    checks: list[Callable[[], Finding]] = [
        python, libraries, processors, memory, gpus, lambda: disk(workspace), lambda: storage(workspace),
        lambda: tracking(workspace), *([] if args.address else [lambda: local_ray(on)]),
        *([speed] if args.measure else []),
    ]  # fmt: skip
    console = Console(highlight=False)
    findings = []
    for check in checks:
        findings.append(check())
        if not args.json:
            print_findings(console, findings[-1:])
    if args.address:
        of_cluster = importlib.import_module("pipelines.commands.submit").examine(args, "demo", workspace)
        findings += of_cluster
        if not args.json:
            print_findings(console, of_cluster)
    if args.json:
        print_json([asdict(each) for each in findings])
    return 1 if any(each.level == "error" for each in findings) else 0


def python() -> Finding:
    return finding("Python", sys.version_info >= (3, 11), f"{platform.python_version()} (3.11 or newer is needed)")


def libraries() -> Finding:
    absent = []
    for name in NEEDED:
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            absent.append(name)
    if absent:
        return finding("libraries", False, f"missing: {', '.join(absent)}. `make setup` installs them.")
    return finding("libraries", True, ", ".join(f"{name} {metadata.version(name)}" for name in NEEDED[:4]))


def processors() -> Finding:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return finding("CPUs", count >= 2, f"{count} (the profile `laptop` trains with 2 workers of one CPU each)")


def memory() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return finding("memory", total >= MEMORY_GB, f"{total:.1f} GiB ({MEMORY_GB:.0f} or more for the demo)")


def gpus() -> Finding:
    torch = importlib.import_module("torch")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(count))
    return finding("GPUs", True, names or "none here: training runs on CPUs, fine for `demo` and `files`")


def disk(workspace: Workspace) -> Finding:
    place = workspace.local_directory("")
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / 1e9
    return finding("disk", free >= DISK_GB, f"{free:.0f} GB free at {place} (WMT14 En-De takes about 20 GB)")


def storage(workspace: Workspace) -> Finding:
    try:
        workspace.check_writable()
    except UserError as error:
        return finding("workspace", False, str(error))
    return finding("workspace", True, f"{workspace.uri} can be written")


def tracking(workspace: Workspace) -> Finding:
    uri = tracking_uri(workspace)
    if is_absent(workspace):
        return finding("MLflow", True, f"{hidden(uri)} will be made by the first run")
    try:
        count = len(reader(workspace).search_experiments())
    except UserError as error:
        return finding("MLflow", False, str(error))
    except Exception as error:  # every store has its own way of not being there
        return finding("MLflow", False, hidden(f"{uri}: {str(error).splitlines()[0]}"))
    return finding("MLflow", True, f"{hidden(uri)}, {count} experiments")


def speed() -> Finding:
    """The figures that estimates use: a profile holds the matrix rate per device as `device_tflops`."""
    found = importlib.import_module("jobs.cluster.machine_speed").measured()
    models = "; ".join(
        f"{name} trains {found[f'{name}_tokens_per_second']:,.0f} target tokens/s, "
        f"{found[f'{name}_share_of_matmul']:.0%} of it"
        for name in ("small", "base")
    )
    rate = f"{found['matmul_tflops']:.3f} TFLOPS of matrix products on {found['threads']:.0f} threads"
    return finding("speed", True, f"{rate}; {models}")


def local_ray(on: Resources) -> Finding:
    """Whether Ray starts here, and whether it is large enough for the profile."""
    cluster = importlib.import_module("jobs.cluster.connect")
    try:
        cluster.connect()
        have = cluster.cluster_resources()
    except UserError as error:
        return finding("Ray", False, str(error))
    finally:
        cluster.disconnect()
    lacking = cluster.lack(on, [TRAIN.demand(on)], have)
    starts = f"starts on this machine: {have.get('CPU', 0):g} CPUs, {have.get('GPU', 0):g} GPUs"
    return finding("Ray", not lacking, f"{starts}. {lacking}." if lacking else f"{starts}, enough for {on.name}")
