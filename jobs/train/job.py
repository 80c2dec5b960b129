"""Train a model on micro-batches (section 5): the same training on any number of workers, interrupted or not.

Ray Train starts the workers, restarts them when one is lost, and keeps the checkpoints; jobs/train/worker.py is what
they do. Run again after a crash, it goes on from the last checkpoint, on as many workers as there then are.

Reads   shards/<id> of the training and of the development set
Writes  train/<id>/work/<run>/update-*/ (checkpoints), checkpoints.json, curve.jsonl, model.json
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ray.exceptions import RayError
from ray.train import (
    CheckpointConfig,
    FailureConfig,
    LoggingConfig,
    Result,
    RunConfig,
    ScalingConfig,
    WorkerGroupError,
)
from ray.train.torch import TorchConfig, TorchTrainer

from jobs.cluster.connect import require_resources
from jobs.configs import Resources, TrainConfig
from jobs.errors import UserError
from jobs.events import Facts, Log, Note
from jobs.shards.layout import ABOUT
from jobs.storage.artifacts import WORK, Artifact
from jobs.storage.object_store import resolve
from jobs.train.checkpoints import RETENTION, discard_torn_list, update_of, whole_checkpoints
from jobs.train.mailbox import Mailbox
from jobs.train.plan import Plan, micro_batches_per_update
from jobs.train.worker import train
from transformer.checkpoint import STATE

POLL_SECONDS = 1.0
GROUP_TIMEOUT_S = 600  # for an exchange between workers; one that is lost is noticed much sooner
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


def run(config: TrainConfig, *, shards: Artifact, dev: Artifact, out: Artifact, on: Resources, log: Log) -> Facts:
    """Facts: parameters, updates, loss, dev_loss, dev_perplexity, tokens_per_second, seconds, flops and more."""
    name = out.uri.partition("?")[0].rstrip("/").rpartition("/")[2]
    place = out.child(WORK).child(name)
    plan = make_plan(config, shards, dev, place, on)
    scaling = scaling_config(plan, on, log)
    names = scheduled_checkpoints(fit(plan, scaling, on, log))
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
        "precision": state.get("precision") or "unknown",  # of an older checkpoint
        "peak_memory_gb": round(state["peak_memory_gb"], 3),
        **{name: last[name] for name in ("loss", "perplexity", "dev_loss", "dev_perplexity", "padding_share")},
    }


def make_plan(config: TrainConfig, shards: Artifact, dev: Artifact, place: Artifact, on: Resources) -> Plan:
    about, dev_about = shards.read_json(ABOUT), dev.read_json(ABOUT)
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
        precision=on.train.precision,
        compile=on.train.compile,
        copy_shards=on.train.copy_shards,
        micro_batches_per_pass=on.train.micro_batches_per_pass,
        sum_gradients=on.train.sum_gradients,
    )


def scaling_config(plan: Plan, on: Resources, log: Log) -> ScalingConfig:
    """How many workers, each with what. Never more than an update has micro-batches."""
    most = min(on.train.workers, plan.per_update)
    least = min(on.train.min_workers or most, most)
    if most < on.train.workers:
        log(Note(f"An update has {plan.per_update} micro-batches, so {most} of {on.train.workers} workers are used."))
    worker = {"CPU": on.train.cpus_per_worker, "GPU": on.train.gpus_per_worker}
    worker = {name: amount for name, amount in worker.items() if amount}
    require_resources("Training", [worker] * least, log)
    settings: dict[str, Any] = {
        "num_workers": most if least == most else (least, most),
        "use_gpu": on.train.gpus_per_worker > 0,
        "resources_per_worker": worker,
        "elastic_resize_monitor_interval_s": RESIZE_SECONDS,
    }
    log(Note(f"Starting {most} worker{'s' * (most > 1)}; this takes up to a minute."))
    return ScalingConfig(**settings)


def run_config(plan: Plan, on: Resources) -> RunConfig:
    """Where checkpoints go, how many are kept, and how many losses are survived. A node that is taken away with notice
    (a spot node) is no loss: Ray Train counts these apart, without a limit."""
    store, path = resolve(plan.run.uri)
    parent, _, name = path.rpartition("/")
    kept = CheckpointConfig(num_to_keep=plan.training.keep_checkpoints, checkpoint_score_attribute=RETENTION)
    settings: dict[str, Any] = {
        "name": name,
        "storage_path": parent,
        "storage_filesystem": store,
        "failure_config": FailureConfig(max_failures=on.train.max_failures),
        "checkpoint_config": kept,
        "worker_runtime_env": {"env_vars": WORKER_ENVIRONMENT},
        "logging_config": LoggingConfig(log_level="WARNING"),
    }
    return RunConfig(**settings)


def fit(plan: Plan, scaling: ScalingConfig, on: Resources, log: Log) -> Result:
    """Train to the end, passing the events of rank 0 on to `log`."""
    discard_torn_list(plan.run)
    mailbox = Mailbox.open()
    try:
        trainer = TorchTrainer(
            train,
            train_loop_config={"plan": plan, "mailbox": mailbox},
            torch_config=TorchConfig(timeout_s=GROUP_TIMEOUT_S),
            scaling_config=scaling,
            run_config=run_config(plan, on),
        )
        result, problem = fit_and_listen(trainer, mailbox, log)
        sentence = mailbox.failure()
    finally:
        mailbox.close()
    if sentence is not None:
        raise UserError(sentence)
    if problem is not None:
        raise explained(problem, plan, on) from problem
    assert result is not None
    return result


def fit_and_listen(trainer: TorchTrainer, mailbox: Mailbox, log: Log) -> tuple[Result | None, Exception | None]:
    """Run the trainer in a thread while this one passes events on. The result, or what went wrong."""
    results: list[Result] = []
    problems: list[Exception] = []

    def fit() -> None:
        try:
            results.append(trainer.fit())
        except Exception as error:
            problems.append(error)

    thread = threading.Thread(target=fit, daemon=True, name="ray-train")
    thread.start()
    while thread.is_alive():
        thread.join(POLL_SECONDS)
        for event in mailbox.take():
            log(event)
    return next(iter(results), None), next(iter(problems), None)


def scheduled_checkpoints(result: Result) -> list[str]:
    """Directories of the checkpoints that Ray Train kept, oldest first, without those that were saved out of turn."""
    kept = [(metrics[RETENTION], checkpoint.path) for checkpoint, metrics in result.best_checkpoints or ()]
    return [path.rpartition("/")[2] for order, path in sorted(kept) if order > 0]


def explained(problem: Exception, plan: Plan, on: Resources) -> Exception:
    """A UserError where more workers were lost than max_failures allows, else the last line of a worker's error."""
    failures = list(problem.worker_failures.values()) if isinstance(problem, WorkerGroupError) else []
    if any(isinstance(getattr(failure, "health_check_failure", None), RayError) for failure in failures):
        names = whole_checkpoints(plan.run)
        start = f"go on from update {update_of(names[-1]):,}" if names else "start anew"
        return UserError(
            f"Training lost a worker {on.train.max_failures + 1} time(s), more than train.max_failures allows: a node "
            f"went away, or ran out of memory (then lower shards.micro_batch_tokens). Run the same again to {start}, "
            f"or choose a profile with more memory per worker (--on)."
        )
    return RuntimeError(f"A training worker failed: {last_words([*failures, problem])}")


def last_words(errors: Sequence[BaseException]) -> str:
    """The last line that says something, of the first error that has one: some end in a colon and nothing after it."""
    for error in errors:
        lines = [line.strip() for line in str(error).splitlines()]
        telling = [line for line in lines if line and not line.endswith(":")]
        if telling:
            return telling[-1]
    return f"{type(errors[0]).__name__}, without a word of why; it may have run out of memory"
