"""Everything that is run, in MLflow: one experiment per recipe, one parent run per `attn run`, one child run per step.

A step that was found done appears in a recipe's experiment once, as a child that points at the run that made it; a
rerun that finds everything done adds its parent run and nothing else. A step that was interrupted goes on in the run it
began, and a point of a curve is written once, however often training went over it. All writing is done by one thread
(background.py), so that training never waits for a tracking server.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from jobs.errors import UserError
from jobs.events import Metrics
from jobs.passwords import hidden
from jobs.storage.artifacts import WORK, Artifact
from pipelines.execution.provenance import made_now
from pipelines.execution.workspace import Workspace
from pipelines.steps.step import Step
from pipelines.tracking.background import BackgroundWriter
from pipelines.tracking.registry import Judged, is_registered, log_model
from pipelines.tracking.server import require_answer
from pipelines.tracking.settings import dataset_input, parameters, provenance_tags

BATCH_S = 1.0  # curve points are written together, about so often
HURRY_S = 30.0  # and so long for anything at all when we were told to stop
RUN_FILE = ".mlflow.json"  # beside the results: an interrupted step is tracked on in the same run
DESCRIPTION = "mlflow.note.content"  # where MLflow's pages look for one


class StepRun:
    """The child run of one step."""

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self.id: Future[str] = Future()
        self.last_step = -1  # of the curve, already written
        self.points: list[Metric] = []
        self.flushed = time.time()

    def id_or_none(self, patience: float = 5.0) -> str | None:
        with contextlib.suppress(TimeoutError):
            return self.id.result(timeout=patience)
        return None

    def known_id(self) -> str:
        """For the writer, which begins a run before it writes anything else of it, unless it had to give up."""
        if not self.id.done():
            raise MlflowException.invalid_parameter_value("its run could not be begun")
        return self.id.result()

    def log(self, event: Metrics) -> None:
        """Keep points of a curve until there are enough of them to be worth a write."""
        now = int(time.time() * 1000)
        self.points += [Metric(name, float(value), now, event.step) for name, value in event.values.items()]
        if time.time() - self.flushed > BATCH_S:
            self.flush()

    def flush(self) -> None:
        points, self.points, self.flushed = self.points, [], time.time()
        if points:
            self.tracker.writer.later(lambda: self.write(points))

    def write(self, points: list[Metric]) -> None:
        """Those that are not there yet."""
        fresh = [point for point in points if point.step > self.last_step]
        for start in range(0, len(fresh), 1000):
            self.tracker.client.log_batch(self.known_id(), metrics=fresh[start : start + 1000])
        self.last_step = max([self.last_step, *(point.step for point in fresh)])

    def facts(self, step: Step, record: Mapping[str, Any]) -> None:
        self.flush()
        self.tracker.writer.later(lambda: self.tracker.write_facts(self.known_id(), step, record))

    def files(self, out: Artifact) -> None:
        """The page, the tables and the figures, to be opened from MLflow's own pages."""
        self.tracker.writer.later(lambda: self.tracker.write_files(self.known_id(), out))

    def leave(self) -> None:
        """Write no more of it: another process goes on with the step, in this very run."""
        self.points = []
        self.tracker.open.discard(self)

    def end(self, status: str, sentence: str = "") -> None:
        self.flush()

        def write() -> None:
            if sentence:
                self.tracker.client.set_tag(self.known_id(), "attn.error", sentence[:5000])
            self.tracker.client.set_terminated(self.known_id(), status)

        self.tracker.writer.later(write)
        self.tracker.open.discard(self)


class Tracker:
    """The parent run of one `attn run`."""

    def __init__(
        self,
        uri: str,
        recipe: str,
        *,
        artifacts: Path | None,
        command: str,
        profile: str = "",
        workspace: Workspace | None = None,
    ) -> None:
        self.uri, self.recipe, self.command, self.workspace = uri, recipe, hidden(command), workspace
        self.here = made_now(0.0, profile, None)
        self.open: set[StepRun] = set()
        self.found_runs: list[str] = []  # that made the steps that need not be made
        self._known: set[tuple[str, str]] | None = None  # (fingerprint, row) of the finished runs of this experiment
        require_answer(uri)
        try:
            if uri.startswith("sqlite:///"):
                Path(uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
            self.client = MlflowClient(tracking_uri=uri)
            self.experiment = self._experiment(artifacts)
            tags = {"attn.recipe": recipe, "attn.stage": "run", "attn.command": self.command}
            tags |= provenance_tags(self.here, self.command)
            tags[DESCRIPTION] = f"`{self.command}`" if self.command else f"A run of {recipe}, from Python."
            name = f"{recipe} {datetime.now(UTC):%Y-%m-%d %H:%M}"
            self.parent = self.client.create_run(self.experiment, tags=tags, run_name=name).info.run_id
        except Exception as error:  # every store has its own way of not being there
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise UserError(f"The MLflow tracking store {hidden(uri)} cannot be used: {first}") from error
        self.writer = BackgroundWriter()

    def _experiment(self, artifacts: Path | None) -> str:
        known = self.client.get_experiment_by_name(self.recipe)
        if known is not None:
            return str(known.experiment_id)
        location = artifacts.as_uri() if artifacts is not None else None
        described = {
            DESCRIPTION: f"Every run of `{self.recipe}`: a parent for each command, below it a run for each step."
        }
        return str(self.client.create_experiment(self.recipe, artifact_location=location, tags=described))

    def begin(self, step: Step, out: Artifact) -> StepRun:
        run = StepRun(self)
        self.open.add(run)

        def write() -> None:
            run_id = self._reopened(run, out) or self._created(step, provenance_tags(self.here, self.command))
            out.write_json(RUN_FILE, {"tracking_uri": hidden(self.uri), "run_id": run_id})
            run.id.set_result(run_id)

        self.writer.later(write)
        return run

    def _reopened(self, run: StepRun, out: Artifact) -> str | None:
        """The run in which an interrupted attempt at this step was tracked, to be carried on."""
        if not out.exists(RUN_FILE):
            return None
        run_id = str(out.read_json(RUN_FILE)["run_id"])
        try:
            known = self.client.get_run(run_id)
        except MlflowException as error:
            if error.get_http_status_code() >= 500:
                raise  # the server is away, not the run: the writer tries again
            return None
        if known.info.status == "FINISHED":
            return None
        self.client.update_run(run_id, status="RUNNING")
        self.client.set_tag(run_id, "mlflow.parentRunId", self.parent)
        for name in known.data.metrics:
            run.last_step = max([run.last_step, *(p.step for p in self.client.get_metric_history(run_id, name))])
        return run_id

    def _created(self, step: Step, tags: Mapping[str, str]) -> str:
        all_tags = {
            "mlflow.parentRunId": self.parent,
            "attn.stage": step.stage.name,
            "attn.fingerprint": step.fingerprint,
            "attn.recipe": self.recipe,
            DESCRIPTION: f"The step {step.name} of {self.recipe}; its result is {step.key} in the workspace.",
            **step.tags,
            **tags,
        }
        run_id = str(self.client.create_run(self.experiment, tags=all_tags, run_name=step.name).info.run_id)
        params = [Param(name, value) for name, value in parameters(step).items()]
        for start in range(0, len(params), 100):
            self.client.log_batch(run_id, params=params[start : start + 100])
        datasets = [
            dataset_input(parent, self.workspace.artifact(parent) if self.workspace else None)
            for parent in step.parents()
            if parent.stage.is_dataset
        ]
        if datasets:
            self.client.log_inputs(run_id, datasets=datasets[:20])
        return run_id

    def found(self, step: Step, record: Mapping[str, Any], out: Artifact | None = None) -> None:
        """A step that need not be made: unless this recipe has a run of it, a run that points at the one that made it.

        With `out`, the run that made it is looked at: who wrote the record may have been killed before the last writes.
        """

        def write() -> None:
            made_by = str(record["made"].get("run_id") or "")
            if out is not None and made_by:
                self._complete(made_by, step, record, out)
            self.found_runs.append(made_by)
            if self._is_tracked(step) or self._is_ours(made_by, step):
                return
            made = {"attn.made_by": made_by, "attn.made_when": str(record["made"]["when"])}
            run_id = self._created(step, {"attn.cached": "true", **made, **provenance_tags(record["made"])})
            self.write_facts(run_id, step, record)
            self.client.set_terminated(run_id, "FINISHED")

        self.writer.later(write)

    def _is_tracked(self, step: Step) -> bool:
        """Does this recipe's experiment have a finished run of this very step, for this row? Adds it if not."""
        if self._known is None:
            self._known = set()
            token = None
            while True:
                page = self.client.search_runs(
                    [self.experiment], "attributes.status = 'FINISHED'", max_results=1000, page_token=token
                )
                self._known |= {row_key(run.data.tags) for run in page}
                token = page.token
                if not token:
                    break
        key = row_key({"attn.fingerprint": step.fingerprint, **step.tags})
        known = key in self._known
        self._known.add(key)
        return known

    def _is_ours(self, made_by: str, step: Step) -> bool:
        """Was it made in this experiment, for this row? Of two runs at once, the other may only just be ending it."""
        if not made_by:
            return False
        try:
            run = self.client.get_run(made_by)
        except MlflowException as error:
            if error.get_http_status_code() >= 500:
                raise
            return False  # of another store, or deleted
        same_row = row_key(run.data.tags) == row_key({"attn.fingerprint": step.fingerprint, **step.tags})
        return same_row and str(run.info.experiment_id) == self.experiment

    def _complete(self, run_id: str, step: Step, record: Mapping[str, Any], out: Artifact) -> None:
        """Write what is missing of a finished step's run, and end it."""
        run = StepRun(self)
        if self._reopened(run, out) != run_id:
            return
        run.id.set_result(run_id)
        if step.stage.curve:
            points = [json.loads(line) for line in out.read_text(step.stage.curve).splitlines()]
            now = int(time.time() * 1000)
            run.write([Metric(n, float(v), now, p["update"]) for p in points for n, v in p.items() if n != "update"])
        self.write_facts(run_id, step, record)
        self.client.set_terminated(run_id, "FINISHED")

    def model(self, score: Step, record: Mapping[str, Any], model: Artifact) -> None:
        """The scored model, loadable by one line and registered under the recipe's name, once, with its scores.

        Of two runs that end at the same time one registers it: the other finds the lock held and leaves it to it.
        """
        run_id = record["made"].get("run_id")
        numbers = {name: float(value) for name, value in record["facts"].items() if name in REGISTERED}

        def write() -> None:
            lock = model.store.try_lock(model.at(f".registering-{self.recipe}"))
            if lock is None:
                return
            try:
                if run_id and not is_registered(self.client, self.recipe, score.fingerprint):
                    judged = Judged(
                        recipe=self.recipe,
                        fingerprint=score.fingerprint,
                        scores=numbers,
                        params=parameters(score),
                        test_set=next((p for p in score.parents() if p.stage.is_dataset), None),
                    )
                    with model.directory() as directory:
                        log_model(self.uri, run_id, directory, judged)
            finally:
                lock.release()

        self.writer.later(write)

    def write_facts(self, run_id: str, step: Step, record: Mapping[str, Any]) -> None:
        now = int(time.time() * 1000)
        numbers = {name: value for name, value in record["facts"].items() if isinstance(value, int | float)}
        named = (
            {f"{step.tags['attn.set']}_{name}": value for name, value in numbers.items()}
            if "attn.set" in step.tags
            else {}
        )
        metrics = [Metric(name, float(value), now, 0) for name, value in {**named, **numbers}.items()]
        metrics.append(Metric("seconds_to_make", float(record["made"]["seconds"]), now, 0))
        words = {name: value for name, value in record["facts"].items() if isinstance(value, str)}
        tags = [RunTag(f"attn.fact.{name}", value) for name, value in words.items()]
        if step.stage.curve:  # the curve has these names; its last point is the fact
            metrics = [metric for metric in metrics if metric.key not in CURVE]
        self.client.log_batch(run_id, metrics=metrics, tags=tags)

    def write_files(self, run_id: str, out: Artifact) -> None:
        for name in out.names():
            if not name.startswith((WORK, ".", "record")) and name.count("/") < 2:
                with out.local(name) as file:
                    self.client.log_artifact(run_id, str(file), str(Path(name).parent) if "/" in name else None)

    def close(self, status: str) -> int:
        """End the parent, and what is still open, as `status`; the number of writes lost to an absent server."""
        for run in list(self.open):
            run.end(status)

        def write() -> None:
            if self.found_runs:
                self.client.set_tag(self.parent, "attn.steps_found", str(len(self.found_runs)))
                self.client.set_tag(self.parent, "attn.found", ",".join(filter(None, self.found_runs))[:5000])
            self.client.set_terminated(self.parent, status)

        self.writer.later(write)
        return self.writer.close(HURRY_S if status == "KILLED" else None)


REGISTERED = ("bleu", "bleu_paper", "chrf", "f1", "f1_evalb", "f1_well_formed", "perplexity")


def row_key(tags: Mapping[str, str]) -> tuple[str, str]:
    """A step as a row of a recipe: one model may be a row of several tables."""
    return tags.get("attn.fingerprint", ""), tags.get("attn.row", "")


CURVE = frozenset({"loss", "perplexity", "learning_rate", "gradient_norm", "dev_loss", "dev_perplexity"})
