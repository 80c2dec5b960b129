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
from typing import Any

from rich.console import Console

from jobs.cluster.profiles import load_profile_to_run
from jobs.cluster.submit.submission import Finding
from jobs.configs import Resources
from jobs.errors import UserError
from jobs.passwords import hidden
from jobs.train.stage import TRAIN
from pipelines.execution.workspace import Workspace
from pipelines.terminal.findings import print_findings
from pipelines.terminal.json_output import print_json
from pipelines.terminal.redirect_output import log_file, output_to
from pipelines.tracking.server import is_absent, reader, require_kept, tracking_uri

NEEDED = ("torch", "ray", "mlflow", "pyarrow", "sentencepiece", "sacrebleu", "safetensors", "rich")
DISK_GB, MEMORY_GB = 5.0, 4.0


def finding(what: str, good: bool, sentence: str) -> Finding:
    return Finding("ok" if good else "error", what, sentence)


def doctor(args: argparse.Namespace) -> int:
    workspace, on = Workspace(args.workspace), load_profile_to_run(args.on)
    refuse_remote_measuring(args)
    console = Console(highlight=False)
    checks: list[Callable[[], list[Finding]]] = [
        lambda: [python()], lambda: [libraries()], lambda: [processors()], lambda: [memory()], lambda: [gpus()],
        lambda: [disk(workspace)], lambda: [storage(workspace)], lambda: [tracking(workspace)],
        (lambda: of_cluster(args, workspace)) if args.address else (lambda: local_ray(on)),
    ]  # fmt: skip
    findings: list[Finding] = []
    for check in checks:
        found = check()
        findings += found
        if not args.json:
            print_findings(console, found)
    wrong = any(each.level == "error" for each in findings)
    figures = measured(on, workspace, args, console) if args.measure and not wrong else None
    if args.json:
        listed = [asdict(each) for each in findings]
        print_json({"findings": listed, "measured": figures} if args.measure else listed)
    elif args.measure and wrong:
        console.print("Nothing was measured: first mend what is wrong above.")
    return 1 if wrong else 0


def refuse_remote_measuring(args: argparse.Namespace) -> None:
    if args.measure and args.address:
        raise UserError(
            f"Measuring runs inside the cluster: ray job submit --address {args.address} --working-dir . -- "
            f"python -m pipelines.cli doctor --on {args.on} --measure --workspace {args.workspace or 'URI'}"
        )


def of_cluster(args: argparse.Namespace, workspace: Workspace) -> list[Finding]:
    found: list[Finding] = importlib.import_module("pipelines.commands.submit").examine(args, "demo", workspace)
    return found


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
    try:
        require_kept(workspace, untracked=False)
    except UserError as error:
        return finding("MLflow", False, str(error))
    if is_absent(workspace):
        return finding("MLflow", True, f"{hidden(uri)} will be made by the first run")
    try:
        count = len(reader(workspace).search_experiments())
    except UserError as error:
        return finding("MLflow", False, str(error))
    except Exception as error:  # every store has its own way of not being there
        return finding("MLflow", False, hidden(f"{uri}: {str(error).splitlines()[0]}"))
    return finding("MLflow", True, f"{hidden(uri)}, {count} experiments")


def local_ray(on: Resources) -> list[Finding]:
    """Whether Ray starts, or answers at RAY_ADDRESS, and has what the profile's training needs."""
    cluster = importlib.import_module("jobs.cluster.connect")
    try:
        cluster.connect()
        have = cluster.cluster_resources()
    except UserError as error:
        return [finding("Ray", False, str(error))]
    finally:
        cluster.disconnect()
    there = f"starts: {have.get('CPU', 0):g} CPUs, {have.get('GPU', 0):g} GPUs"
    lacking = cluster.lack(on, [TRAIN.demand(on)], have)
    enough = f"{lacking}." if lacking else f"{there}, enough for {on.name}"
    return [finding("Ray", True, there), finding("profile", not lacking, enough)]


def measured(on: Resources, workspace: Workspace, args: argparse.Namespace, console: Console) -> dict[str, Any]:
    """The profile's workers measure, here or on the cluster at RAY_ADDRESS; what libraries print goes to a log file."""
    cluster = importlib.import_module("jobs.cluster.connect")
    measure = importlib.import_module("pipelines.commands.measure")
    log = log_file(workspace.local_directory("logs"), "doctor")
    with output_to(log) as terminal:
        cluster.connect()
        try:
            found: dict[str, Any] = measure.measure(on, workspace, Console(quiet=True) if args.json else terminal)
        finally:
            cluster.disconnect()
    if not args.json:
        for line in measure.page(found):
            console.print(line, soft_wrap=True, markup=False)
    return found
