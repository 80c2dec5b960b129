"""How fast is training? Our job, our bare update loop, and a Hugging Face MarianMTModel of the same size, in turn.

Reference  MarianMTModel, the same dropout, attention kernel and fused Adam, in a plain loop on all cores (marian.py)
Bare       our update on the same workers and threads as the job, batches in memory: no Ray, no files, no checkpoints
Job        jobs/train/job.py as `attn run` runs it: Ray Train, Parquet reader, logging, checkpoints

All take the same micro-batches of the same shards in the same order, eight to an update, in turn, several rounds, every
other one backwards; where the CPU multiplies bf16 in hardware all three in bf16, too, the reference under plain
autocast. Rates are real target tokens per second over all updates but each run's first; the job's first checkpoint is
among them. Readings: over all rounds, which is what one gets on this machine as it is; each update as in the round
where it was fastest, which comes near the machine without its neighbours (those slow the reference most: its threads
wait for each other at every product); and by CPU time, which other work on the same cores changes least. The matmul
rate is that of large products in one process per core, all at once. Text: Multi30k from ATTN_TEST_DATA or
../shared/data, else the demo language. The reference needs `transformers`: pip install '.[bench]', or
ATTN_BENCH_PYTHON=/a/python/with/it.

By hand   python benchmarks/bench_training.py [--sizes small base] [--rounds 4] [--no-bf16] [--no-layouts] [--no-sweep]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import ray
import torch
import torch.distributed as dist
from rich.console import Console
from rich.table import Table
from training_rates import Measured, best_rate, overhead, rate, rate_of_cpu

import jobs.corpora.job
import jobs.shards.job
import jobs.train.job
import jobs.vocabulary.job
from jobs.cluster.connect import connect
from jobs.cluster.machine_speed import matmul_flops
from jobs.configs import (
    DemoCorpus,
    FilesCorpus,
    Precision,
    Resources,
    ShardConfig,
    TrainConfig,
    TrainResources,
    VocabularyConfig,
)
from jobs.events import Event
from jobs.storage.artifacts import Artifact
from jobs.train.curve import flops_by_row
from jobs.train.plan import assign_by_cost
from jobs.train.stream import Reader, Stream, read_index
from transformer.batching import Batch
from transformer.config import PAD, ModelConfig, TrainingConfig
from transformer.cpu.bf16 import multiplies_bf16
from transformer.flops import training_flops
from transformer.model import Transformer
from transformer.update import Gradients, MicroBatch, Ranks, make_optimizer, update

HERE = Path(__file__).resolve().parent
CORES = len(os.sched_getaffinity(0))
TOKENS = 2_048  # target tokens of a micro-batch
SIZES = {"small": ModelConfig(layers=3, d_model=256, d_ff=1024, num_heads=4), "base": ModelConfig()}
UPDATES = {"small": 8, "base": 5}  # memory is still new to a process in its second one, which takes 4 % longer
WARM_UP = 1  # updates that are not counted
NICE = ["nice", "-n", "15"]  # Ray's workers give way to others so much; on a busy machine the others must too
SWEEP = {
    "4+4, 128/512": ModelConfig(layers=4, d_model=128, d_ff=512, num_heads=4),
    "3+3, 256/1024": SIZES["small"],
    "6+6, 512/2048": SIZES["base"],
}


def main() -> None:
    arguments = parse()
    if arguments.task:
        task = json.loads(arguments.task)
        print(json.dumps(one_thread_rate(task["matmul_tries"]) if "matmul_tries" in task else bare_worker(task)))
        return
    console = Console()
    if arguments.updates:
        UPDATES.update(dict.fromkeys(UPDATES, max(arguments.updates, WARM_UP + 2)))
    with tempfile.TemporaryDirectory(prefix="attn-bench-") as name:
        place = Place(Path(name), arguments.per_update)
        console.print(
            f"{CORES} cores. {place.text}: micro-batches of {TOKENS:,} target tokens, {place.per_update} to an update."
        )
        for size in arguments.sizes:
            compare(place, size, arguments.rounds, console, bf16=arguments.bf16)
        if arguments.layouts:
            layouts(place, console)
        if arguments.sweep:
            sweep(place, console)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How fast is training, beside a reference on the same micro-batches?")
    parser.add_argument("--sizes", nargs="*", default=["small", "base"], choices=list(SIZES))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--updates", type=int, help=f"of each run, {WARM_UP} of them not counted")
    parser.add_argument("--per-update", type=int, default=8, help="micro-batches, over all workers")
    choice = argparse.BooleanOptionalAction
    parser.add_argument("--bf16", action=choice, default=multiplies_bf16(), help="in bf16, too")
    parser.add_argument("--layouts", action=choice, default=True, help="workers x threads of the bare loop")
    parser.add_argument("--sweep", action=choice, default=True, help="sizes of model and micro-batch, bare loop")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    return parser.parse_args()


class Place:
    """A directory with shards made by the real jobs, and the same micro-batches as plain arrays."""

    def __init__(self, directory: Path, per_update: int) -> None:
        self.directory = directory
        self.per_update = per_update
        self.runs = 0
        data = Path(os.environ.get("ATTN_TEST_DATA", HERE.parents[1] / "shared" / "data")) / "multi30k"
        real = data.is_dir()
        self.text = "Multi30k En-De" if real else "The demo language"
        train_text, dev_text = (
            (files(data, "train"), files(data, "val"))
            if real
            else (DemoCorpus(split="train", pairs=20_000), DemoCorpus(split="dev", pairs=500))
        )
        corpora, dev = (
            self._make("corpora", jobs.corpora.job, train_text),
            self._make("dev-corpora", jobs.corpora.job, dev_text),
        )
        words = self._make(
            "vocabulary", jobs.vocabulary.job, VocabularyConfig(size=8_000 if real else 1_000), corpora=corpora
        )
        self.dev = self._make(
            "dev", jobs.shards.job, ShardConfig(micro_batch_tokens=TOKENS), corpora=dev, vocabulary=words
        )
        self._shards: dict[int, Artifact] = {}
        self._inputs = {"corpora": corpora, "vocabulary": words}

    def _make(self, name: str, job: Any, config: Any, **inputs: Artifact) -> Artifact:
        out = Artifact(str(self.directory / name))
        with on_ray():
            job.run(config, **inputs, out=out, on=Resources(), log=ignore)
        return out

    def shards(self, tokens: int = TOKENS) -> Artifact:
        if tokens not in self._shards:
            config = ShardConfig(micro_batch_tokens=tokens)
            self._shards[tokens] = self._make(f"shards-{tokens}", jobs.shards.job, config, **self._inputs)
        return self._shards[tokens]

    def stream(self, tokens: int = TOKENS) -> Stream:
        return Stream(read_index(self.shards(tokens)), TrainingConfig().seed, self.per_update)

    def batches(self, updates: int, tokens: int = TOKENS) -> Path:
        """The first micro-batches of the stream, in a file of arrays."""
        file = self.directory / f"batches-{updates}-{tokens}.npz"
        if not file.exists():
            index = read_index(self.shards(tokens))
            stream, reader = self.stream(tokens), Reader(self.shards(tokens), index)
            arrays: dict[str, Any] = {}
            for position in range(updates * self.per_update):
                made = reader.read(stream.row(position))
                gold = torch.full(made.target_in_BT.shape, PAD)
                gold.view(-1)[made.target_rows.place_R[: made.target_rows.real]] = made.gold_N
                parts = {"source": made.source_BS, "target_in": made.target_in_BT, "gold": gold}
                arrays |= {f"{part}{position}": tensor.numpy() for part, tensor in parts.items()}
            np.savez(file, **arrays)
        return file


@contextmanager
def on_ray() -> Iterator[None]:
    """Ray is there for our jobs only: its processes would take their share of a core from the others."""
    connect(cpus=CORES)
    try:
        yield
    finally:
        ray.shutdown()


def files(data: Path, name: str) -> FilesCorpus:
    return FilesCorpus(source=str(data / f"{name}.en.gz"), target=str(data / f"{name}.de.gz"))


def ignore(event: Event) -> None:
    pass


# --- the three ways --------------------------------------------------------------------------------------------------


def has_reference() -> bool:
    return "ATTN_BENCH_PYTHON" in os.environ or importlib.util.find_spec("transformers") is not None


def reference(place: Place, size: str, *, bf16: bool = False) -> Measured:
    python = os.environ.get("ATTN_BENCH_PYTHON", sys.executable)
    task = task_of(place, SIZES[size], UPDATES[size]) | {"threads": CORES, "bf16": bf16}
    done = subprocess.run([*NICE, python, str(HERE / "marian.py"), json.dumps(task)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"The reference failed:\n{done.stderr}")
    return measured([json.loads(done.stdout.splitlines()[-1])])


def bare(
    place: Place, model: ModelConfig, updates: int, *, workers: int, tokens: int = TOKENS, bf16: bool = False
) -> Measured:
    """Our update loop in `workers` processes that share the cores."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    task = task_of(place, model, updates, tokens) | {"threads": CORES // workers, "workers": workers, "port": port}
    task["bf16"] = bf16
    work = flops_by_row(read_index(place.shards(tokens)), model, task["vocabulary_size"])
    rows = [place.stream(tokens).rows(number) for number in range(1, updates + 1)]
    hands = [assign_by_cost(work[each].tolist(), workers) for each in rows]
    return measured(
        at_once([task | {"rank": rank, "places": [hand[rank] for hand in hands]} for rank in range(workers)])
    )


def at_once(tasks: Sequence[dict[str, Any]]) -> list[Any]:
    """What processes of our own say to these tasks, all running at the same time."""
    here = [*NICE, sys.executable, str(Path(__file__)), "--task"]
    environment = os.environ | jobs.train.job.WORKER_ENVIRONMENT
    started = [
        subprocess.Popen([*here, json.dumps(task)], stdout=subprocess.PIPE, text=True, env=environment)
        for task in tasks
    ]
    outputs = [process.communicate()[0] for process in started]
    return [json.loads(text.splitlines()[-1]) for text in outputs]


def checkpoint_after(updates: int) -> int:
    """Of which update the job keeps a checkpoint. It is written beside the next one, which counts."""
    return -(-updates // 2)


def job(place: Place, size: str, *, bf16: bool = False) -> Measured:
    """The real thing. Its rate is that of the points of its curve, one per update."""
    place.runs += 1
    out = Artifact(str(place.directory / f"train-{place.runs}"))
    steps = UPDATES[size]
    config = TrainConfig(
        model=SIZES[size],
        training=TrainingConfig(
            steps=steps,
            tokens_per_update=place.per_update * TOKENS,
            log_every=1,
            checkpoint_every=checkpoint_after(steps),
            dev_every=steps,
        ),
    )
    precision: Precision = "bf16" if bf16 else "fp32"
    on = Resources(train=TrainResources(workers=CORES, cpus_per_worker=1, precision=precision))
    with on_ray():
        facts = jobs.train.job.run(config, shards=place.shards(), dev=place.dev, out=out, on=on, log=ignore)
    points = [json.loads(line) for line in out.read_text("curve.jsonl").splitlines()]
    index, stream = read_index(place.shards()), place.stream()
    tokens = [float(index.target_tokens[stream.rows(int(point["update"]))].sum()) for point in points]
    seconds = [count / point["tokens_per_second"] for count, point in zip(tokens, points, strict=True)]
    return Measured(tokens[WARM_UP:], seconds[WARM_UP:], float(facts["peak_memory_gb"]))


def task_of(place: Place, model: ModelConfig, updates: int, tokens: int = TOKENS) -> dict[str, Any]:
    return {
        "model": asdict(model),
        "vocabulary_size": place.shards(tokens).read_json("about.json")["vocabulary_size"],
        "batches": str(place.batches(updates, tokens)),
        "updates": updates,
        "per_update": place.per_update,
    }


def measured(processes: list[dict[str, Any]]) -> Measured:
    memory = max(process["memory_gb"] for process in processes)
    busy = sum(sum(process["cpu_seconds"][WARM_UP:]) for process in processes)
    return Measured(processes[0]["tokens"][WARM_UP:], processes[0]["seconds"][WARM_UP:], memory, busy)


def bare_worker(task: dict[str, Any]) -> dict[str, Any]:
    """One process of the bare loop."""
    torch.set_num_threads(task["threads"])
    ranks, config = Ranks(task["rank"], task["workers"]), TrainingConfig()
    if ranks.world_size > 1:
        address = f"tcp://127.0.0.1:{task['port']}"
        dist.init_process_group("gloo", init_method=address, rank=ranks.rank, world_size=ranks.world_size)
    torch.manual_seed(1)
    model = Transformer(ModelConfig(**task["model"]), task["vocabulary_size"]).train()
    optimizer, gradients = make_optimizer(model, config), Gradients(model, task["per_update"])
    held, per_update = np.load(task["batches"]), task["per_update"]
    spent, cpu, tokens = [], [], []
    for number in range(task["updates"]):
        batches = [from_arrays(held, number * per_update + place) for place in range(per_update)]
        total = sum(batch.target_tokens for batch in batches)
        mine = [MicroBatch(p, number * per_update + p, batches[p]) for p in task["places"][number]]
        started, busy = time.perf_counter(), time.process_time()
        size = {"count": len(mine), "tokens": total}
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=task["bf16"]):
            update(model, optimizer, gradients, mine, **size, learning_rate=1e-4, config=config, ranks=ranks)
        spent.append(time.perf_counter() - started)
        cpu.append(time.process_time() - busy)
        tokens.append(total)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"seconds": spent, "cpu_seconds": cpu, "tokens": tokens, "memory_gb": memory}


def from_arrays(held: Any, place: int) -> Batch:
    return Batch.of(*(held[f"{part}{place}"] for part in ("source", "target_in", "gold")))


# --- what is printed -------------------------------------------------------------------------------------------------


def compare(place: Place, size: str, rounds: int, console: Console, *, bf16: bool) -> None:
    """Reference, bare loop and job in turn, several times, and their ratios."""
    contenders: dict[str, Callable[[], Measured]] = {
        "reference": lambda: reference(place, size),
        "bare": lambda: bare(place, SIZES[size], UPDATES[size], workers=CORES),
        "job": lambda: job(place, size),
    }
    if bf16:
        contenders |= {
            "reference, bf16": lambda: reference(place, size, bf16=True),
            "bare, bf16": lambda: bare(place, SIZES[size], UPDATES[size], workers=CORES, bf16=True),
            "job, bf16": lambda: job(place, size, bf16=True),
        }
    if not has_reference():
        contenders = {name: act for name, act in contenders.items() if not name.startswith("reference")}
        missing = "No reference: `transformers` is not installed (pip install '.[bench]' or ATTN_BENCH_PYTHON)."
        console.print(missing, markup=False)
    seen: dict[str, list[Measured]] = {name: [] for name in contenders}
    peak, per_token = 0.0, flops_per_token(place, SIZES[size])
    for number in range(1, rounds + 1):
        for name in list(contenders)[:: 1 if number % 2 else -1]:
            seen[name].append(contenders[name]())
        peak = max(peak, matmul_rate())
        alone = ", ".join(f"{name} {rate(runs[-1:]):,.0f}" for name, runs in seen.items())
        console.print(f"{size}, round {number} by itself: {alone} tokens/s")
    table = Table(title=f"{size}: {SIZES[size].layers}+{SIZES[size].layers} layers, {SIZES[size].d_model} wide")
    for column in (
        "",
        "tokens/s",
        "ratio",
        "at best",
        "ratio",
        "a CPU second",
        "ratio",
        "of matmul rate",
        "memory per process",
    ):
        table.add_column(column, justify="left" if not column else "right")
    first = next(iter(seen.values()))
    for name, runs in seen.items():
        usual, best, busy, first_busy = rate(runs), best_rate(runs), rate_of_cpu(runs), rate_of_cpu(first)
        table.add_row(
            name,
            f"{usual:,.0f}",
            f"{usual / rate(first):.2f}x",
            f"{best:,.0f}",
            f"{best / best_rate(first):.2f}x",
            f"{busy:,.0f}" if busy else "",
            f"{busy / first_busy:.2f}x" if busy and first_busy else "",
            f"{best * per_token / peak:.0%}",
            f"{median(run.memory_gb for run in runs):.2f} GB",
        )
    console.print(table)
    console.print(overhead(seen["bare"], seen["job"], written=checkpoint_after(UPDATES[size]) - WARM_UP))


def layouts(place: Place, console: Console) -> None:
    table = Table(title="Bare loop, tokens/s by workers x threads")
    for column in ("model", *(f"{w} x {CORES // w}" for w in divisors(CORES))):
        table.add_column(column, justify="left" if column == "model" else "right")
    for name, model in SWEEP.items():
        rates = (rate([bare(place, model, WARM_UP + 1, workers=workers)]) for workers in divisors(CORES))
        table.add_row(name, *(f"{each:,.0f}" for each in rates))
    console.print(table)


def sweep(place: Place, console: Console) -> None:
    sizes = (512, 1_024, 2_048, 4_096)
    table = Table(title=f"Bare loop on {CORES} workers, tokens/s by micro-batch (share of the matmul rate)")
    for column in ("model", *(f"{size:,} tokens" for size in sizes)):
        table.add_column(column, justify="left" if column == "model" else "right")
    peak = matmul_rate()
    for name, model in SWEEP.items():
        rates = [rate([bare(place, model, WARM_UP + 1, workers=CORES, tokens=size)]) for size in sizes]
        share = flops_per_token(place, model) / peak
        table.add_row(name, *(f"{each:,.0f} ({each * share:.0%})" for each in rates))
    console.print(table)


def divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def matmul_rate() -> float:
    """FLOP/s of large matrix products on all cores, a process on each: the most that a training loop could reach."""
    return float(sum(at_once([{"matmul_tries": 30}] * CORES)))


def one_thread_rate(tries: int) -> float:
    """FLOP/s of one thread that does nothing but matrix products, at its best of `tries`."""
    torch.set_num_threads(1)
    return matmul_flops(torch.device("cpu"), tries=tries)


def flops_per_token(place: Place, model: ModelConfig) -> float:
    about = place.shards().read_json("about.json")
    source, target = about["source_tokens"] / about["pairs"], about["target_tokens"] / about["pairs"]
    return training_flops(model, about["vocabulary_size"], source=source, target=target) / target


if __name__ == "__main__":
    main()
