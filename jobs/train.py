"""Train a model on micro-batches (section 5): the same training on any number of workers, interrupted or not.

Ray Train starts the workers, restarts them when one is lost, and keeps the checkpoints; jobs/train_worker.py is what
they do. Run again after a crash, it goes on from the last checkpoint, on as many workers as there then are.

Reads   shards/<id> of the training and of the development set
Writes  train/<id>/work/<run>/update-*/ (checkpoints), checkpoints.json, curve.jsonl, model.json
"""

from __future__ import annotations

import importlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ray.train.v2._internal.exceptions import UserExceptionWithTraceback, WorkerHealthCheckFailedError
from ray.train.v2.api.config import CheckpointConfig, FailureConfig, LoggingConfig, RunConfig, ScalingConfig
from ray.train.v2.api.exceptions import WorkerGroupError

from jobs.artifacts import WORK, Artifact
from jobs.cluster import require_resources
from jobs.configs import Resources, TrainConfig
from jobs.errors import UserError
from jobs.events import Facts, Log, Note
from jobs.mailbox import Mailbox
from jobs.object_store import resolve
from jobs.train_backend import GroupConfig, LeanTrainer
from jobs.train_plan import Plan, micro_batches_per_update
from jobs.train_snapshot import STATE, checkpoint_names, mend, update_of

WORKER = "jobs.train_worker"  # loaded by name, in the workers only: it brings torch
POLL_SECONDS = 1.0
RESIZE_SECONDS = 60.0  # between two looks at whether nodes came back, where a profile has min_workers
WORKER_ENVIRONMENT = {
    # glibc gives large blocks back to the kernel at once and pays for fresh pages at every step: let it keep them
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_TOP_PAD_": str(2**26),
    "MALLOC_ARENA_MAX": "1",
    # oneDNN keeps its programs for the last 1,024 shapes, over a megabyte each: those of one micro-batch are enough
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "32",
    "LRU_CACHE_CAPACITY": "32",  # the same, of PyTorch in front of it
}
CONTROLLER_ENVIRONMENT = {
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # a lost node costs the updates since the last checkpoint, no more
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "15",  # it may count on a node that is gone: then count again soon
}


def run(config: TrainConfig, *, shards: Artifact, dev: Artifact, out: Artifact, on: Resources, log: Log) -> Facts:
    """Facts: parameters, updates, loss, dev_loss, dev_perplexity, tokens_per_second, seconds, flops and more."""
    name = out.uri.partition("?")[0].rstrip("/").rpartition("/")[2]
    place = out.child(WORK).child(name)
    plan = make_plan(config, shards, dev, place, on)
    mend(place)
    fit(plan, on, log)
    names = checkpoint_names(place)
    out.write_json("checkpoints.json", [{"update": update_of(n), "path": f"{WORK}/{name}/{n}"} for n in names])
    out.write_json("model.json", {"model": asdict(config.model), "vocabulary_size": plan.vocabulary_size})
    curve = place.read_text(f"{names[-1]}/curve.jsonl")
    out.write_text("curve.jsonl", curve)
    return facts(place.read_json(f"{names[-1]}/{STATE}"), json.loads(curve.splitlines()[-1]))


def facts(state: Mapping[str, Any], last: Mapping[str, float]) -> Facts:
    """What is worth knowing of a finished run. Training loss is with smoothing, perplexities are without."""
    return {
        "parameters": state["parameters"],
        "updates": state["update"],
        "target_tokens": state["target_tokens"],
        "seconds": round(state["seconds"], 3),
        "tokens_per_second": round(state["target_tokens"] / max(state["seconds"], 1e-9), 3),
        "flops": state["flops"],
        "flops_share": last["flops_share"],
        "skipped_updates": state["skipped"],
        "workers": state["world_size"],
        "peak_memory_gb": round(state["peak_memory_gb"], 3),
        **{name: last[name] for name in ("loss", "perplexity", "dev_loss", "dev_perplexity", "padding_share")},
    }


def make_plan(config: TrainConfig, shards: Artifact, dev: Artifact, place: Artifact, on: Resources) -> Plan:
    about, dev_about = shards.read_json("about.json"), dev.read_json("about.json")
    if about["vocabulary_size"] != dev_about["vocabulary_size"]:
        raise UserError(
            f"The training set was encoded with {about['vocabulary_size']} subwords and the development set with "
            f"{dev_about['vocabulary_size']}: encode both with the same vocabulary."
        )
    if about["micro_batches"] == 0 or dev_about["micro_batches"] == 0:
        empty = "training" if about["micro_batches"] == 0 else "development"
        raise UserError(f"The {empty} set is empty: no pair was left after cleaning. Loosen shards.cleaning.")
    return Plan(
        model=config.model,
        training=config.training,
        vocabulary_size=about["vocabulary_size"],
        per_update=micro_batches_per_update(config.training.tokens_per_update, about["micro_batch_tokens"]),
        shards=shards,
        dev=dev,
        run=place,
        threads=max(1, int(on.train.cpus_per_worker)),
        gpus_per_worker=on.train.gpus_per_worker,
        precision=on.train.precision,
        compile=on.train.compile,
        mailbox=Mailbox(),
    )


def scaling(plan: Plan, on: Resources, log: Log) -> ScalingConfig:
    """How many workers, each with what. Never more than an update has micro-batches."""
    most = min(on.train.workers, plan.per_update)
    least = min(on.train.min_workers or most, most)
    if most < on.train.workers:
        log(Note(f"An update has {plan.per_update} micro-batches, so {most} of {on.train.workers} workers are used."))
    need = {"CPU": on.train.cpus_per_worker, "GPU": on.train.gpus_per_worker}
    require_resources("Training", cpus=least * need["CPU"], gpus=least * need["GPU"])
    return ScalingConfig(
        num_workers=most if least == most else (least, most),
        use_gpu=on.train.gpus_per_worker > 0,
        resources_per_worker={name: amount for name, amount in need.items() if amount},
        elastic_resize_monitor_interval_s=RESIZE_SECONDS,
    )


def work(settings: dict[str, Any]) -> None:
    """What Ray Train starts on every worker."""
    importlib.import_module(WORKER).train(settings["plan"])


def fit(plan: Plan, on: Resources, log: Log) -> None:
    """Train to the end, passing on what rank 0 says meanwhile."""
    storage = resolve(plan.run.uri)
    for setting, value in CONTROLLER_ENVIRONMENT.items():
        os.environ.setdefault(setting, value)
    settings: Any = RunConfig(
        name=storage[1].rpartition("/")[2],
        storage_path=storage[1].rpartition("/")[0],
        storage_filesystem=storage[0],
        failure_config=FailureConfig(max_failures=on.train.max_failures),
        checkpoint_config=CheckpointConfig(num_to_keep=plan.training.keep_checkpoints),
        worker_runtime_env={"env_vars": WORKER_ENVIRONMENT},
        logging_config=LoggingConfig(log_level="WARNING"),
    )
    trainer = LeanTrainer(
        work,
        train_loop_config={"plan": plan},
        backend_config=GroupConfig(),
        scaling_config=scaling(plan, on, log),
        run_config=settings,
    )
    try:
        problem = attend_to(trainer, plan.mailbox, log)
        sentence = plan.mailbox.failure()
    finally:
        plan.mailbox.remove()
    if sentence is not None:
        raise UserError(sentence)
    if problem is not None:
        raise lost_workers(problem, plan, on) or problem from culprit(problem)


def lost_workers(problem: Exception, plan: Plan, on: Resources) -> UserError | None:
    """A sentence if workers went away once too often. Anything else is a bug, and its traceback is wanted."""
    failures = problem.worker_failures.values() if isinstance(problem, WorkerGroupError) else ()
    if not any(isinstance(failure, WorkerHealthCheckFailedError) for failure in failures):
        return None
    names = checkpoint_names(plan.run)
    start = f"go on from update {update_of(names[-1]):,}" if names else "start anew"
    return UserError(
        f"Training lost a worker {on.train.max_failures + 1} time(s), more than train.max_failures allows: a node went "
        f"away, or ran out of memory (then lower shards.micro_batch_tokens). Run the same again to {start}, or choose "
        f"a profile with more memory per worker (--on)."
    )


def culprit(problem: Exception) -> BaseException | None:
    """What a worker's own code ran into, such as a full disk, from beneath what Ray Train wraps around it."""
    failures = problem.worker_failures.values() if isinstance(problem, WorkerGroupError) else ()
    return next((each._base_exc for each in failures if isinstance(each, UserExceptionWithTraceback)), None)


def attend_to(trainer: LeanTrainer, mailbox: Mailbox, log: Log) -> Exception | None:
    """Run the trainer in a thread of its own while this one empties the mailbox. What went wrong, if anything."""
    problems: list[Exception] = []

    def fit() -> None:
        try:
            trainer.fit()
        except Exception as error:
            problems.append(error)

    thread = threading.Thread(target=fit, daemon=True, name="ray-train")
    thread.start()
    while thread.is_alive():
        thread.join(POLL_SECONDS)
        for event in mailbox.take():
            log(event)
    return problems[0] if problems else None
