"""`attn doctor --measure`: have the profile's workers measure what training meets there, on one page.

The page ends with what the recipes would take at the measured rate, beside what the plan says.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rich.console import Console

from jobs.configs import Resources
from jobs.durations import duration
from jobs.events import Event, Note
from jobs.storage.artifacts import Artifact
from pipelines.execution.workspace import Workspace
from pipelines.recipes.recipes import RECIPES
from pipelines.steps.estimate import estimate, total
from pipelines.steps.plan import in_order

ESTIMATED = {"base-en-de": "base", "big-en-de": "big", "table3": "base"}  # the model at whose rate a recipe trains


def measure(on: Resources, workspace: Workspace, console: Console) -> dict[str, Any]:
    """What was found, with the estimates that follow from it; kept in MLflow. Needs a Ray to be connected."""

    def log(event: Event) -> None:
        if isinstance(event, Note):
            console.print(event.text)

    job = importlib.import_module("jobs.measure.job")
    with console.status(f"{on.train.workers} workers are measuring, a few minutes"):
        found = dict(job.run(on, Artifact(workspace.uri), log))
    found["profile"] = on.name
    found["recipes"] = estimates(on, found["models"])
    tracking = importlib.import_module("pipelines.tracking.measurements")
    found["mlflow_run"] = tracking.store_measurement(workspace, on.name, found, int(time.time() * 1000))
    return found


def estimates(on: Resources, models: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Seconds of some recipes by the profile's rate and by the measured one."""
    devices = on.train.gpus_per_worker or on.train.cpus_per_worker
    made = {}
    for recipe, name in ESTIMATED.items():
        tflops = models.get(name, models[list(models)[-1]])["tflops"] / devices
        steps = in_order([RECIPES[recipe].step()])
        planned, measured = (
            total(estimate(step, profile) for step in steps).seconds
            for profile in (on, replace(on, device_tflops=tflops))
        )
        made[recipe] = {"planned_seconds": planned, "measured_seconds": measured}
    return made


def page(found: Mapping[str, Any]) -> Iterator[str]:
    """One page, line by line."""
    yield f"Measured by {found['workers']} workers of the profile {found['profile']}:"
    yield _line("versions", ", ".join(f"{name} {version}" for name, version in found["versions"].items()))
    yield _line("device", ", ".join(_figure(name, value) for name, value in found["device"].items()))
    products = found["matmul_tflops"]
    yield _line(
        "products",
        f"{products['fp32']:.3f} TFLOPS in fp32, {products['bf16']:.3f} in bf16; "
        f"the profile trains in {found['precision']}",
    )
    yield _line(
        "memory", f"{found['memory_gb_per_second']:.1f} GB/s; {found['peak_memory_gb']:.2f} GB in use at the most"
    )
    if found["sum"]:
        each = found["sum"]
        yield _line(
            "sum", f"{each['gb_per_second']:.2f} GB/s each way; 64 MB in {1000 * each['seconds_of_64_mb']:.1f} ms"
        )
    reading = found["reading"]
    yield _line(
        "reading",
        f"{reading['mb_per_second']:.0f} MB/s from the workspace; 16 kB in {reading['milliseconds_of_16_kb']:.2f} ms",
    )
    for name, model in found["models"].items():
        yield from _model(name, model)
    for recipe, seconds in found["recipes"].items():
        yield _line(
            recipe,
            f"about {duration(seconds['measured_seconds'])} at this rate; the plan says "
            f"{duration(seconds['planned_seconds'])}",
        )
    yield f"Kept in MLflow: experiment doctor, run {found['mlflow_run']}"


def _model(name: str, model: Mapping[str, Any]) -> Iterator[str]:
    rate = f"{model['tokens_per_second']:,.0f} target tokens/s for each worker, {model['tflops']:.3f} TFLOPS"
    compiled = model.get("compiled_tokens_per_second")
    if compiled is not None:
        rate += f"; compiled {compiled:,.0f}" if isinstance(compiled, float) else f"; compiling failed: {compiled}"
    yield _line(name, rate)
    yield _line("", ", ".join(f"{part} {each:.1f} ms" for part, each in model["milliseconds"].items()))
    yield _line(
        "", f"against a CPU in fp32: loss {model['loss_apart']:.1e} apart, gradient {model['gradient_apart']:.1e}"
    )


def _line(what: str, sentence: str) -> str:
    return f"  {what:<11} {sentence}"


def _figure(name: str, value: object) -> str:
    shown = f"{value:.1f}" if isinstance(value, float) else str(value)
    return shown if name == "name" else f"{name.replace('_', ' ')} {shown}"
