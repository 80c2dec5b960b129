"""Plan a table of many rows, and say how long it took and how much memory: in a process that has nothing else in it.

By hand   python benchmarks/scale_plan.py 1000
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from jobs.configs import ReportConfig
from pipelines.execution.workspace import Workspace
from pipelines.recipes.experiment import DemoText, Experiment, VocabularySettings, row
from pipelines.steps import stages
from pipelines.steps.plan import in_order, plan
from pipelines.steps.step import Step

MADE = {"when": "2017-06-12", "seconds": 1.0, "run_id": None}


def timed(act: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    made = act()
    return time.perf_counter() - began, made


def memory_mb() -> float:
    """Of this process, now: its peak would begin with that of the process that started it."""
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * resource.getpagesize() / 2**20


def table(rows: int) -> Step:
    """Rows that share nothing: each with texts, vocabulary, shards, training, model, translations, score of its own."""
    made = []
    for number in range(rows):
        text = DemoText(train_pairs=1000 + number, dev_pairs=100 + number, test_pairs=100 + number)
        own = Experiment(corpus=text, vocabulary=VocabularySettings(size=1000 + number))
        made.append(row(f"row {number}", own, scored_on="test"))
    return stages.report(ReportConfig(title="scale", recipe="scale", rows=tuple(r.name for r in made)), made)


def finish(step: Step, workspace: Workspace) -> None:
    workspace.finish(step, {"bleu": 27.3}, MADE)


def measure_plan(rows: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="attn-scale-") as directory:
        workspace, before = Workspace(directory), memory_mb()
        seconds = {"none done": planned_in(rows, workspace)}
        used = memory_mb() - before
        most = in_order([table(rows - 1)])
        for step in most:
            finish(step, workspace)
        seconds["one row new"] = planned_in(rows, workspace)
        for step in {*in_order([table(rows)])} - {*most}:
            finish(step, workspace)
        seconds["all done"] = planned_in(rows, workspace)
        return {"steps": len(in_order([table(rows)])), "memory_mb": used, **seconds}


def planned_in(rows: int, workspace: Workspace) -> float:
    """Seconds of this process: what others on the machine do meanwhile is not our planning."""
    began = time.process_time()
    plan([table(rows)], workspace)
    return time.process_time() - began


def in_own_process(rows: int) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, str(rows)], check=True, capture_output=True, text=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


if __name__ == "__main__":
    print(json.dumps(measure_plan(int(sys.argv[1]))))
