"""What each training worker does: updates, measurements on the development set, checkpoints (section 5).

All workers go through the same updates in step; the state of training is one integer, the update. Rank 0 alone reports
to the driver, about once a second, through a mailbox.

Reads   shards and development micro-batches      Writes  checkpoints (jobs/train/checkpoints.py)
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from itertools import islice
from typing import Any

import ray.train
import ray.train.collective
import ray.train.torch
import torch

from jobs.cluster.machine_speed import matmul_flops, peak_memory_gb
from jobs.errors import UserError
from jobs.events import Event, Metrics, Note, Progress
from jobs.train.checkpoints import Saver, last_checkpoint, retention
from jobs.train.curve import Curve, NotFinite, Point, Standing, flops_by_row
from jobs.train.mailbox import Mailbox
from jobs.train.packing import compile_model, on_device, passes
from jobs.train.plan import Plan, assign_by_cost
from jobs.train.precision import agreed_precision, so_far
from jobs.train.stream import Stream, read_ahead, read_index
from jobs.train.system_metrics import SystemMetrics
from transformer import checkpoint
from transformer.batching import Batch
from transformer.model import Transformer, count_parameters
from transformer.packed import PackedBatch, can_pack
from transformer.schedule import learning_rate
from transformer.update import Gradients, MicroBatch, PackedMicroBatches, Ranks, evaluate, make_optimizer, update

REPORT_SECONDS = 1.0
PREEMPTION_SECONDS = 5.0  # between two questions whether a node is about to be taken away
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


def train(settings: dict[str, Any]) -> None:
    """The function that Ray Train runs on every worker.

    After a failure that no retry would mend, the others may wait for this worker in an exchange: the error is raised,
    so that Ray Train ends them all; when it starts them again they find the failure in the mailbox and return.
    """
    plan: Plan = settings["plan"]
    mailbox: Mailbox = settings["mailbox"]
    if mailbox.failure() is not None:
        return
    context = ray.train.get_context()
    try:
        Worker(plan, Ranks(context.get_world_rank(), context.get_world_size()), mailbox).run()
    except UserError as error:
        mailbox.fail(str(error))
        raise


def refuse_too_long(plan: Plan, longest: int) -> None:
    """A table of learned positions has an end; sinusoids have none."""
    if plan.model.positions == "learned" and longest > plan.model.max_positions:
        raise UserError(
            f"The longest sentence has {longest} subwords and model.max_positions={plan.model.max_positions} positions "
            f"are learned: raise it, or lower shards.cleaning.max_subwords."
        )


class Worker:
    """One rank of a training run."""

    def __init__(self, plan: Plan, ranks: Ranks, mailbox: Mailbox) -> None:
        self.plan, self.ranks, self.config, self.mailbox = plan, ranks, plan.training, mailbox
        self.device: torch.device = ray.train.torch.get_device()
        self._unsent: list[Event] = []
        self.precision = self._precision()
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision("highest" if self.precision == "fp32" else "high")  # high: TF32
            torch.backends.cuda.enable_cudnn_sdp(False)  # it makes a plan for every shape: seconds each
        else:
            torch.set_num_threads(plan.threads)
        self.index = read_index(plan.shards)
        self.dev_index = read_index(plan.dev)
        refuse_too_long(plan, max(self.index.longest, self.dev_index.longest))
        self.stream = Stream(self.index, self.config.seed, plan.per_update)
        self.flops = flops_by_row(self.index, plan.model, plan.vocabulary_size)
        self.own_places = lru_cache(maxsize=64)(self._own_places)  # needed by the reader, and again by the update
        self.per_pass = self._micro_batches_per_pass()
        self.model = self._build()
        self.optimizer = make_optimizer(self.model, self.config)
        self.gradients = Gradients(self.model, plan.per_update)
        if ranks.world_size > 1 and plan.sum_gradients != "at_end":
            self.gradients.sum_during_backward(self.model, bf16=plan.sum_gradients == "overlapped_bf16")
        self.saver = Saver(plan.run, ranks.rank, self.config)
        self.system = SystemMetrics(self.device)
        self._reported_at = 0.0  # when the driver last got a report
        self._at = 0  # position of the micro-batch at work
        self.curve = self._restore()
        self._saved = self.curve.standing.update
        self._preemption_checked = (self._saved, time.perf_counter())  # update and time of the last check
        self._check_preemption_from = self._saved + 1
        self._leaving: list[str] = []  # nodes whose preemption a checkpoint was saved for

    def _precision(self) -> str:
        found = agreed_precision(self.plan.precision, self.device, self.ranks)
        if self.plan.precision == "auto":
            why = "the hardware of all workers multiplies it" if found == "bf16" else "not every worker multiplies bf16"
            self.send(Note(f"Training in {found}: {why}."))
        return found

    def _build(self) -> Transformer:
        torch.manual_seed(self.config.seed)  # the same initial weights on every rank
        model = Transformer(self.plan.model, self.plan.vocabulary_size).to(self.device).train()
        if self.plan.compile and self.per_pass and (problem := compile_model(model, self.device, self._autocast())):
            self.send(Note(f"Training goes on without torch.compile, more slowly: {problem}"))
        return model

    def _micro_batches_per_pass(self) -> int | None:
        """None: micro-batches are not packed."""
        wanted = self.plan.micro_batches_per_pass
        if wanted is None or can_pack(self.plan.model, self.device, bf16=self.precision == "bf16"):
            return wanted
        self.send(Note("Micro-batches go through one by one, padded: this GPU, precision or width of head packs none."))
        return None

    def _restore(self) -> Curve:
        self.saver.register_unknown()
        with last_checkpoint() as directory:
            if directory is None:
                standing, points = Standing(), list[Point]()
            else:
                standing = Standing.from_json(checkpoint.read_state(directory))
                points = checkpoint.read_curve(directory)
                checkpoint.restore(directory, self.model, self.optimizer)
        standing.world_size, standing.parameters = self.ranks.world_size, count_parameters(self.model)
        standing.precision = so_far(standing.precision, self.precision)
        if points:
            self.send(Note(f"Going on from the checkpoint of update {standing.update:,}."), *map(as_metrics, points))
        return Curve(standing, points, peak_flops=self._peak_flops())

    def _peak_flops(self) -> float:
        """FLOP/s that all workers together reach on large matrix products, measured now."""
        own = matmul_flops(self.device, torch.bfloat16 if self.precision == "bf16" else torch.float32)
        total = torch.tensor(own, device=self.device)
        self.ranks.sum(total)
        return float(total)

    def run(self) -> None:
        steps = self.config.steps
        first = self.curve.standing.update + 1
        self._report()
        try:
            with closing(self._micro_batches(first)) as ahead:
                self.curve.pause()
                for number in range(first, steps + 1):
                    self._update(number, ahead)
                    measured = number % self.config.dev_every == 0 or number == steps
                    if measured or number % self.config.log_every == 0 or number == 1:
                        self._point(number, measure=measured)
                    if retention(number, self.config) or self._is_preempted(number):
                        self._save()
                    self._report()
        finally:
            self._report(at_once=True)

    def _update(self, number: int, ahead: Iterator[MicroBatch | PackedMicroBatches]) -> None:
        rows = self.stream.rows(number)
        count = len(self._passes(number))
        with self._autocast(), self._memory_guard(number):
            outcome = update(
                self.model,
                self.optimizer,
                self.gradients,
                islice(ahead, count),
                count=count,
                tokens=int(self.index.target_tokens[rows].sum()),
                learning_rate=self._rate(number),
                config=self.config,
                ranks=self.ranks,
            )
        self.curve.add(number, rows, self.index, outcome, float(self.flops[rows].sum()))
        if self.device.type == "cpu":  # on a GPU this would wait for the device
            self._collect()

    def _own_places(self, number: int) -> list[int]:
        """Which of an update's micro-batches are this rank's."""
        return assign_by_cost(self.flops[self.stream.rows(number)].tolist(), self.ranks.world_size)[self.ranks.rank]

    def _passes(self, number: int) -> list[list[int]]:
        """This rank's places of an update, by what goes through the model at once."""
        return passes(self.own_places(number), self.per_pass)

    def _micro_batches(self, first: int) -> Generator[MicroBatch | PackedMicroBatches]:
        """This rank's micro-batches from update `first` on, read ahead."""

        def places() -> Iterator[list[tuple[int, int]]]:
            for number in range(first, self.config.steps + 1):
                positions = self.stream.positions(number)
                yield from ([(place, positions[place]) for place in each] for each in self._passes(number))

        rows = (self.stream.row(position) for each in places() for _, position in each)
        pin, copy = self.device.type == "cuda" and not self.per_pass, self.plan.copy_shards
        with closing(read_ahead(self.plan.shards, self.index, rows, pin=pin, copy=copy)) as batches:
            for each in places():
                made = [MicroBatch(place, position, next(batches)) for place, position in each]
                self._at = made[0].position
                yield on_device(made, self.device, pack=self.per_pass is not None, seed=self.config.seed)

    def _rate(self, number: int) -> float:
        factor, warmup = self.config.learning_rate, self.config.warmup
        return learning_rate(number, d_model=self.plan.model.d_model, warmup=warmup, factor=factor)

    def _collect(self) -> None:
        """Wait for the outcomes so far; one that is not finite is an error unless training.non_finite=skip."""
        try:
            self.curve.collect(skip=self.config.non_finite == "skip")
        except NotFinite as bad:
            where = "" if bad.place is None else f" in {self._name(self.stream.positions(bad.update)[bad.place])}"
            raise UserError(
                f"The loss of update {bad.update:,} is not a finite number{where}. {self._last_good()} Lower "
                f"training.learning_rate, set training.clip_norm, or let such updates go: training.non_finite=skip."
            ) from bad

    def _name(self, position: int) -> str:
        row = self.stream.row(position)
        return f"micro-batch {position:,} (pool {self.index.pool[row]}, row group {self.index.row_group[row]})"

    def _last_good(self) -> str:
        return f"The last good checkpoint is that of update {self._saved:,}." if self._saved else "No checkpoint yet."

    def _point(self, number: int, *, measure: bool) -> None:
        self._collect()
        point = self.curve.point(learning_rate=self._rate(number))
        if measure:
            with self._autocast():
                loss, nll = evaluate(self.model, self._dev_batches(), self.config.label_smoothing, self.ranks)
            point["dev_loss"], point["dev_perplexity"] = loss, math.exp(min(nll, 700))
            self.curve.pause()
        self.send(as_metrics(point | self.system.sample()))  # of the machine: no part of the result's curve

    def _dev_batches(self) -> Iterator[Batch | PackedBatch]:
        rows = range(self.ranks.rank, len(self.dev_index), self.ranks.world_size)
        pin = self.device.type == "cuda" and not self.per_pass
        with closing(read_ahead(self.plan.dev, self.dev_index, rows, pin=pin)) as batches:
            for batch in batches:
                yield (PackedBatch.of([batch], [0]) if self.per_pass else batch).to(self.device)

    def _save(self) -> None:
        self._collect()
        standing = self.curve.standing
        standing.peak_memory_gb = max(standing.peak_memory_gb, peak_memory_gb(self.device))
        self.saver.save(self.model, self.optimizer, self.curve)
        self._saved = standing.update

    def _is_preempted(self, number: int) -> bool:
        """Whether Ray has newly announced that a node will be taken away: then a checkpoint is due, and training goes
        on until Ray Train restarts it without that node. Every rank checks after the same updates, with one answer."""
        if number < self._check_preemption_from:
            return False
        notice = ray.train.get_preemption_info()
        nodes = notice.preempted_node_ids if notice else []
        found, self._leaving = nodes != self._leaving, nodes
        if found and nodes:
            self.send(Note(f"A node is about to be taken away: a checkpoint of update {number:,} is saved."))
        now = time.perf_counter()
        seconds = max(now - self._preemption_checked[1], 1e-9) / max(number - self._preemption_checked[0], 1)
        self._preemption_checked = (number, now)
        pace = max(1, int(PREEMPTION_SECONDS / seconds))
        self._check_preemption_from = number + int(ray.train.collective.broadcast_from_rank_zero(pace))
        return found and bool(nodes)

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16")

    @contextmanager
    def _memory_guard(self, number: int) -> Iterator[None]:
        """Running out of memory as a UserError that says what to lower."""
        try:
            yield
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not any(words in str(error) for words in OUT_OF_MEMORY):
                raise
            raise UserError(
                f"Out of memory at update {number:,} in {self._name(self._at)}. {self._last_good()} Lower "
                f"shards.micro_batch_tokens: an update keeps its size, in more and smaller micro-batches. (On a GPU "
                f"first lower train.micro_batches_per_pass in the profile.)"
            ) from error

    def _report(self, *, at_once: bool = False) -> None:
        """Send the driver the events since the last report, and the progress, at most every REPORT_SECONDS."""
        now = time.monotonic()
        if self.ranks.rank > 0 or (now - self._reported_at < REPORT_SECONDS and not at_once):
            return
        self._reported_at = now
        last = self.curve.points[-1] if self.curve.points else None
        detail = f"loss {last['loss']:.3f}, {last['tokens_per_second']:,.0f} tokens/s" if last else ""
        update = self.curve.standing.update
        self.mailbox.put([*self._unsent, Progress(update, self.config.steps, "updates", detail)], wait=at_once)
        self._unsent.clear()

    def send(self, *events: Event) -> None:
        if self.ranks.rank == 0:
            self._unsent += events


def as_metrics(point: Point) -> Metrics:
    return Metrics(int(point["update"]), {name: value for name, value in point.items() if name != "update"})
