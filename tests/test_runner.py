"""Law 3: a result exists when its record exists. Law 4: one failed step stops only what depends on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient
from step_job import StepConfig, stage

from jobs.configs import Resources
from jobs.events import Event
from pipelines.execution import runner
from pipelines.execution.runner import Outcome, Runner, sentence_of, urgency
from pipelines.execution.workspace import Workspace
from pipelines.recipes.recipes import RECIPES
from pipelines.steps.plan import PlannedStep, in_order, plan
from pipelines.steps.step import Step
from pipelines.tracking.writer import Tracker

pytestmark = pytest.mark.slow


class Recorder:
    """A screen that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def found(self, planned: PlannedStep) -> None:
        self.told.append(("found", planned.step.label))

    def started(self, step: Step) -> None:
        self.told.append(("started", step.label))

    def waits(self, step: Step, why: str) -> None:
        self.told.append(("waits", step.label))

    def event(self, step: Step, event: Event) -> None: ...

    def silent(self, step: Step, seconds: float) -> None:
        self.told.append(("silent", step.label))

    def finished(self, step: Step, record: Mapping[str, Any]) -> None:
        self.told.append(("finished", step.label))

    def failed(self, step: Step, sentence: str) -> None:
        self.told.append(("failed", step.label))

    def skipped(self, step: Step, because: Step) -> None:
        self.told.append(("skipped", step.label))


def step(label: str, config: StepConfig | None = None, **inputs: Step) -> Step:
    config = replace(config or StepConfig(), name=label)
    return Step(stage=stage("test"), config=config, inputs=inputs, label=label)


def make(workspace: Workspace, *targets: Step, cpus: float = 4) -> tuple[Outcome, Recorder]:
    screen = Recorder()
    directory = workspace.local_directory("mlflow")
    tracker = Tracker(f"sqlite:///{directory}/mlflow.db", "test", artifacts=directory / "artifacts", command="test")
    outcome = Runner(workspace, Resources(), tracker, screen, {"CPU": cpus}).run(plan(targets, workspace))
    assert tracker.close("FINISHED") == 0
    return outcome, screen


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(str(tmp_path / "workspace"))


def test_results_flow_and_a_second_run_makes_nothing(workspace: Workspace) -> None:
    one, two = step("one"), step("two", StepConfig(value=2))
    last = step("last", StepConfig(value=3), a=one, b=two)
    outcome, _ = make(workspace, last)
    assert outcome.records[last.key]["facts"] == {"value": 6, "kind": "last"}
    assert len(outcome.made) == 3
    again, screen = make(workspace, last)
    assert again.made == []
    assert screen.told == [("found", "one"), ("found", "two"), ("found", "last")]
    more, _ = make(workspace, step("last", StepConfig(value=30), a=one, b=two))
    assert len(more.made) == 1, "only what differs is made"


def test_a_failure_stops_only_what_depends_on_it(workspace: Workspace) -> None:
    bad = step("bad", StepConfig(refuse="The file is empty."))
    good = step("good", StepConfig(value=7))
    after_bad, after_good = step("after bad", None, a=bad), step("after good", None, a=good)
    outcome, screen = make(workspace, after_bad, after_good)
    assert outcome.failures == {bad.key: "The file is empty."}
    assert outcome.skipped == [after_bad.key]
    assert outcome.records[after_good.key]["facts"]["value"] == 8
    assert ("skipped", "after bad") in screen.told
    assert workspace.record(bad) is None
    assert workspace.artifact(bad).exists("half.txt"), "what a failed job left is not taken for a result"
    assert workspace.record(after_bad) is None


def test_leftovers_of_a_failed_step_are_cleared_before_it_is_made_again(workspace: Workspace) -> None:
    one = step("one")
    artifact = workspace.artifact(one)
    artifact.write_text("stale.txt", "from a crash")
    artifact.write_text("work/state.txt", "to be carried on")
    make(workspace, one)
    assert not artifact.exists("stale.txt")
    assert artifact.exists("work/state.txt")


def test_independent_steps_run_at_the_same_time_as_far_as_resources_allow(workspace: Workspace, tmp_path: Path) -> None:
    def longest_overlap(cpus: float, name: str) -> int:
        tally = tmp_path / name
        config = StepConfig(seconds=0.4, tally=str(tally), value=len(name))
        make(workspace, *(step(f"{name}{index}", config) for index in range(3)), cpus=cpus)
        moments = sorted(
            (float(at), kind) for _, _, kind, at in (line.split() for line in tally.read_text().splitlines())
        )
        running = most = 0
        for _, kind in moments:
            running += 1 if kind == "start" else -1
            most = max(most, running)
        return most

    assert longest_overlap(4, "wide") == 3
    assert longest_overlap(1, "narrow") == 1


def test_two_runs_at_once_make_each_step_once_and_double_no_chart(workspace: Workspace, tmp_path: Path) -> None:
    tally = tmp_path / "tally"
    first = step("first", StepConfig(seconds=1.0, tally=str(tally)))
    last = step("last", StepConfig(seconds=1.0, tally=str(tally)), other=step("middle", StepConfig(), other=first))
    outcomes: list[tuple[Outcome, Recorder]] = []
    make(workspace, step("database"))  # MLflow's database exists
    threads = [threading.Thread(target=lambda: outcomes.append(make(workspace, last))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tally.read_text().count("start") == 2
    assert sum(len(outcome.made) for outcome, _ in outcomes) == 3
    assert all(last.key in outcome.records for outcome, _ in outcomes)
    for _ in range(2):
        make(workspace, last)
    assert tracked(workspace) == {"run": 5, "test": 4}, "every run is seen, and every step once"


def tracked(workspace: Workspace) -> Counter[str]:
    """MLflow's runs by stage; `run` is an `attn run`."""
    client = MlflowClient(f"sqlite:///{workspace.local_directory('mlflow')}/mlflow.db")
    experiment = client.get_experiment_by_name("test")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert {run.info.status for run in runs} == {"FINISHED"}
    return Counter(run.data.tags["attn.stage"] for run in runs)


KILLED = """
import sys
sys.path[:0] = [{tests!r}, {tests!r} + "/fixtures"]
from test_runner import *
make(Workspace({workspace!r}), step("slow", StepConfig(seconds=60, tally={tally!r})))
"""


def test_a_killed_run_leaves_nothing_half_made_and_no_lock(workspace: Workspace, tmp_path: Path) -> None:
    tally = tmp_path / "tally"
    code = KILLED.format(tests=str(Path(__file__).parent), workspace=workspace.uri, tally=str(tally))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.time() + 60
    while not tally.exists() and time.time() < deadline:
        time.sleep(0.05)
    assert tally.exists(), "it was killed before it began"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    same = step("slow", StepConfig(seconds=60))
    assert workspace.record(same) is None
    with workspace.claim(same) as mine:
        assert mine, "a dead process holds no lock"


def test_a_crash_is_named_and_a_full_disk_is_a_sentence() -> None:
    assert sentence_of(RuntimeError("a surprise\nmore")) == "RuntimeError: a surprise"
    full = OSError(28, "No space left on device", "/data/x")
    wrapped = RuntimeError("wrapper")
    wrapped.__cause__ = full
    assert sentence_of(wrapped).startswith("The disk is full (/data/x). Nothing is lost")


def test_the_longest_training_starts_first_and_what_is_begun_before_it() -> None:
    steps = sorted(in_order([RECIPES["table3-demo"].step()]), key=urgency)
    trainings = [step.label for step in steps if step.stage.name == "train"]
    assert trainings[:2] == ["big", "C/d=1024"]
    assert trainings[-1] == "C/d=256"
    assert {step.stage.name for step in steps[-len(trainings) :]} == {"train"}


def test_a_step_that_says_nothing_is_pointed_out(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "SILENT_S", 1.0)
    _, screen = make(workspace, step("mute", StepConfig(seconds=3.5)), step("quick", StepConfig(value=9)))
    assert screen.told.count(("silent", "mute")) in (1, 2, 3), "once for every second of silence, not at every look"
    assert ("silent", "quick") not in screen.told


def test_silence_is_counted_from_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    silence = runner.Silence(60.0)
    for key in ("a", "b"):
        silence.reported(key)
    now[0] = 150.0
    silence.reported("b")
    now[0] = 165.0
    assert silence.of(["a", "b"]) == [("a", 65.0)]
    assert silence.of(["a", "b"]) == [], "said once"
    now[0] = 226.0
    assert silence.of(["a", "b"]) == [("a", 126.0), ("b", 76.0)]
