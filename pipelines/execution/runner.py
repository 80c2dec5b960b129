"""Follow a plan: start every step whose inputs are there and whose resources are free, one thread each.

A failed step stops only what depends on it. A step that another run is making is waited for, not made twice. Whenever
this process ends, however it ends, the workspace holds whole results and work to be carried on, and nothing in between.
"""

from __future__ import annotations

import bisect
import errno
import graphlib
import importlib
import math
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from jobs.configs import Resources
from jobs.errors import UserError, first_line
from jobs.events import Event, Metrics
from jobs.passwords import hidden
from jobs.storage.artifacts import Artifact, Lock
from jobs.train import prometheus
from pipelines.execution.provenance import made_now
from pipelines.execution.shares import Shares
from pipelines.execution.workspace import Workspace
from pipelines.steps.estimate import flops
from pipelines.steps.plan import Plan, PlannedStep, in_order
from pipelines.steps.step import Step
from pipelines.tracking.writer import StepRun, Tracker

POLL_S = 1.0
SILENT_S = 60.0  # a step that has said nothing for so long is said to be silent, and again after as long
NO_SPACE = os.strerror(errno.ENOSPC)  # by its words: not every library keeps the number
AGAIN = "run the same command again when it is well."


class Screen(Protocol):
    """Who is told how the run goes."""

    def found(self, planned: PlannedStep) -> None: ...
    def started(self, step: Step) -> None: ...
    def waits(self, step: Step, why: str) -> None: ...
    def event(self, step: Step, event: Event) -> None: ...
    def silent(self, step: Step, seconds: float) -> None: ...
    def finished(self, step: Step, record: Mapping[str, Any]) -> None: ...
    def failed(self, step: Step, sentence: str) -> None: ...
    def skipped(self, step: Step, because: Step) -> None: ...


@dataclass
class Outcome:
    """How each step ended. `records` has the finished ones, found or made."""

    records: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)


def urgency(step: Step) -> float:
    """What is begun is finished first; of trainings the longest starts first, so that none is left over at the end."""
    return -flops(step) if step.stage.flops else -math.inf


class TakenOver(Exception):
    """Another run holds the lock of the step that this one was making: what it goes on writing is the step's now."""


class Silence:
    """Since when each step has said nothing."""

    def __init__(self, patience_s: float) -> None:
        self.patience_s = patience_s
        self._last_report: dict[str, float] = {}
        self._last_notice: dict[str, float] = {}

    def reported(self, key: str) -> None:
        self._last_report[key] = self._last_notice[key] = time.monotonic()

    def of(self, keys: Iterable[str]) -> list[tuple[str, float]]:
        """Of these, the ones that have been silent for another `patience_s`, and for how many seconds in all."""
        now = time.monotonic()
        found = [(key, now - self._last_report[key]) for key in keys if now - self._last_notice[key] >= self.patience_s]
        self._last_notice.update({key: now for key, _ in found})
        return found


@dataclass(frozen=True)
class Ended:
    step: Step
    record: Mapping[str, Any] | None
    made: bool = False
    sentence: str = ""


class Runner:
    def __init__(
        self, workspace: Workspace, on: Resources, tracker: Tracker, screen: Screen, have: Mapping[str, float]
    ) -> None:
        self.workspace, self.tracker, self.screen = workspace, tracker, screen
        self.shares = Shares(on, have)
        self.ended: queue.Queue[Ended] = queue.Queue()
        self.running: dict[str, Step] = {}
        self.silence = Silence(SILENT_S)
        self.outcome = Outcome()

    def run(self, plan: Plan) -> Outcome:
        """Make what the plan says is to do. Returns when nothing more can be done."""
        steps = {planned.step.key: planned.step for planned in plan.steps}
        to_do = {planned.step.key for planned in plan.to_do}
        sorter = graphlib.TopologicalSorter({key: [p.key for p in step.parents()] for key, step in steps.items()})
        sorter.prepare()
        for planned in plan.steps:
            if planned.record is not None:
                self.outcome.records[planned.step.key] = planned.record
                self.tracker.found(planned.step, planned.record, self.workspace.artifact(planned.step))
                self.screen.found(planned)
        waiting: list[Step] = []
        while sorter.is_active():
            for key in sorter.get_ready():
                if key not in to_do or self._skip(steps[key]):
                    sorter.done(key)
                else:
                    bisect.insort(waiting, steps[key], key=urgency)
            self._start_what_fits(waiting)
            if self.running:
                sorter.done(self._next_ended().key)
        self._register([step for key, step in steps.items() if key in self.outcome.records])
        return self.outcome

    def _register(self, finished: list[Step]) -> None:
        """Every model that a test set has judged, found or made, once."""
        for step in finished:
            if step.stage.judges_model and step.tags.get("attn.set") == "test":
                model = self.workspace.artifact(model_of(step))
                self.tracker.model(step, self.outcome.records[step.key], model)

    def _skip(self, step: Step) -> bool:
        lost = [p for p in step.parents() if p.key in self.outcome.failures or p.key in self.outcome.skipped]
        if lost:
            self.outcome.skipped.append(step.key)
            self.screen.skipped(step, lost[0])
        return bool(lost)

    def _start_what_fits(self, waiting: list[Step]) -> None:
        for step, on in self.shares.start(waiting):
            waiting.remove(step)
            self.running[step.key] = step
            self.silence.reported(step.key)
            threading.Thread(target=self._execute, args=(step, on), name=step.name, daemon=True).start()

    def _next_ended(self) -> Step:
        ended = self._wait()
        step = ended.step
        self.running.pop(step.key)
        self.shares.release(step)
        if ended.record is None:
            self.outcome.failures[step.key] = ended.sentence
            self.screen.failed(step, ended.sentence)
        else:
            self.outcome.records[step.key] = ended.record
            if ended.made:
                self.outcome.made.append(step.key)
            self.screen.finished(step, ended.record)
        return step

    def _wait(self) -> Ended:
        """For a step to end. Meanwhile, those that say nothing are pointed out."""
        while True:
            try:
                return self.ended.get(timeout=POLL_S)
            except queue.Empty:
                for key, seconds in self.silence.of(self.running):
                    self.screen.silent(self.running[key], seconds)

    # --- in the step's own thread ---------------------------------------------------------------------------------

    def _execute(self, step: Step, on: Resources) -> None:
        try:
            record, made = self._make_or_find(step, on)
            self.ended.put(Ended(step, record, made))
        except BaseException as error:
            print(hidden(traceback.format_exc()), file=sys.stderr, flush=True)
            self.ended.put(Ended(step, None, sentence=sentence_of(error)))

    def _make_or_find(self, step: Step, on: Resources) -> tuple[Mapping[str, Any], bool]:
        announced = False
        while True:
            with self.workspace.claim(step) as lock:
                record = self.workspace.record(step)
                if record is not None:
                    self.tracker.found(step, record)
                    return record, False
                if lock is not None:
                    made = self._make(step, on, lock)
                    if made is not None:
                        return made, True
            if not announced:
                self.screen.waits(step, "another run is making it")
                announced = True
            self.silence.reported(step.key)
            time.sleep(POLL_S)

    def _make(self, step: Step, on: Resources, lock: Lock) -> Mapping[str, Any] | None:
        """The record; None if this process stood still for so long that another took the step over."""
        self.screen.started(step)
        out = self.workspace.clear_leftovers(step)
        run = self.tracker.begin(step, out)
        began = time.time()

        def log(event: Event) -> None:
            if lock.lost:
                raise TakenOver
            self.silence.reported(step.key)
            if isinstance(event, Metrics):
                run.log(event)
                prometheus.show(step.fingerprint, event)
            self.screen.event(step, event)

        try:
            facts = importlib.import_module(step.stage.job).run(
                step.config, **self._inputs(step), out=out, on=on, log=log
            )
            if not lock.held():
                raise TakenOver
        except TakenOver:
            run.leave()
            return None
        except BaseException as error:
            if not lock.lost:
                run.end("FAILED", sentence=sentence_of(error))
                raise
            run.leave()  # what failed may have failed because two were at it
            return None
        record = self.workspace.finish(step, facts, made_now(time.time() - began, on.name, run.id_or_none()))
        self._track_end(step, run, out, record)
        return record

    def _track_end(self, step: Step, run: StepRun, out: Artifact, record: Mapping[str, Any]) -> None:
        run.facts(step, record)
        if step.stage.publishes_files:
            run.files(out)
        run.end("FINISHED")

    def _inputs(self, step: Step) -> dict[str, Any]:
        at = self.workspace.artifact
        inputs: dict[str, Any] = {
            name: tuple(at(each) for each in value) if isinstance(value, tuple) else at(value)
            for name, value in step.inputs.items()
        }
        if step.rows:
            inputs["rows"] = [{name: at(each) for name, each in row.items()} for row in step.rows]
        return inputs


def model_of(score: Step) -> Step:
    """The model whose translations a score is of."""
    return next(each for each in in_order([score]) if each.stage.is_model)


def sentence_of(error: BaseException) -> str:
    """What to tell the user: the sentence that somebody wrote for them, or the plainest account of a surprise."""
    chain: Sequence[BaseException] = _chain(error)
    for link in chain:
        if isinstance(link, UserError):
            return str(link)
        if NO_SPACE in str(link):
            where = f" ({link.filename})" if isinstance(link, OSError) and link.filename else ""
            return f"The disk is full{where}. Nothing is lost: free some space and run the same command again."
        if isinstance(link, OSError) and "AWS Error" in str(link):
            return (
                f"The object store would not, however often it was asked: {first_line(link)} Nothing is lost: {AGAIN}"
            )
    wrapped = type(error).__name__.startswith("RayTaskError") or hasattr(error, "worker_failures")
    origin = chain[-1] if wrapped else error
    return hidden(f"{type(origin).__name__}: {first_line(origin) or 'no message'}")


def _chain(error: BaseException | None) -> list[BaseException]:
    """The error and what caused it, as Python and as Ray keep it."""
    links: list[BaseException] = []
    while isinstance(error, BaseException) and error not in links:
        links.append(error)
        of_workers: Mapping[int, BaseException] = getattr(error, "worker_failures", {})  # of Ray Train, by rank
        of_worker = of_workers[min(of_workers)] if of_workers else None
        error = of_worker or getattr(error, "cause", None) or error.__cause__ or error.__context__
    return links
