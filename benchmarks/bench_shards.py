"""How fast and how small is the `shards` step? Printed beside the limit: SentencePiece encoding and nothing else.

The limit    one process per core, sentences already in memory, SentencePiece's own encoder, ids written to Parquet.
The step     read pairs, clean, encode, pool, sort, write micro-batches, by Ray Data; Ray and its workers already up.

Both are run in turn, in the same minute on the same cores. Memory is the most that the driver, Ray and its workers had
together (PSS, so what they share, the object store too, counts once). Real text is read from ATTN_TEST_DATA or
../shared/data.

By hand   python benchmarks/bench_shards.py [--times 1 10] [--rounds 2]
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sentencepiece import SentencePieceProcessor

from jobs.cluster.connect import connect
from jobs.configs import DataResources, Resources, ShardConfig, VocabularyConfig
from jobs.shards import job
from jobs.storage.artifacts import Artifact
from jobs.vocabulary.job import LISTING, learn
from transformer.config import SUBWORDS

PAIRS = 400_000
WARM_UP = 2_000
CHUNK = 10_000
RAY_NICENESS = 15  # Ray's workers give way to others so much; on a busy machine the limit must too
CORES = len(os.sched_getaffinity(0))


def main() -> None:
    arguments = parse()
    if arguments.step:  # the step itself, in a process and a Ray of its own
        print(json.dumps(measure_step(Path(arguments.step))))
        return
    data = Path(os.environ.get("ATTN_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not (data / "europarl").is_dir():
        print(f"skipped: no Europarl text at {data}/europarl; set ATTN_TEST_DATA to measure")
        return
    with tempfile.TemporaryDirectory(prefix="attn-bench-") as directory:
        corpora = prepare(Path(directory), data, sorted(arguments.times))
        peaks = {times: compare(times, corpora[times], arguments.rounds) for times in corpora}
    if len(peaks) > 1:
        few, many = min(peaks), max(peaks)
        growth = peaks[many] / peaks[few] - 1
        print(f"memory from {few * PAIRS:,} to {many * PAIRS:,} pairs: {growth:+.1%} (limit +20 %)")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The `shards` step against SentencePiece alone.")
    parser.add_argument("--times", type=int, nargs="+", default=[1, 10], help="how many times over the text is taken")
    parser.add_argument("--rounds", type=int, default=2, help="how often each is measured; medians are printed")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    return parser.parse_args()


def compare(times: int, directory: Path, rounds: int) -> float:
    """Print limit and step side by side; the peak memory of the step in MB."""
    limits, steps = [], []
    for _ in range(rounds):
        limits.append(measure_limit(directory))
        run = subprocess.run(
            [sys.executable, __file__, "--step", str(directory)], check=True, stdout=subprocess.PIPE, text=True
        )
        steps.append(json.loads(run.stdout.splitlines()[-1]))
    pairs, peak = times * PAIRS, max(step["peak_mb"] for step in steps)
    print(f"{pairs:,} pairs on {CORES} cores, {rounds} rounds (medians)")
    for name, runs in (("limit", limits), ("step", steps)):
        seconds, busy = (median(run[kind] for run in runs) for kind in ("seconds", "busy"))
        print(f"  {name:6} {seconds:7.1f} s  {pairs / seconds:9,.0f} pairs/s  {busy:7.1f} CPU seconds")
    for kind, unit in (("seconds", "time"), ("busy", "CPU time, which a busy machine blurs less")):
        ratios = [limit[kind] / step[kind] for limit, step in zip(limits, steps, strict=True)]
        print(f"  ratio  {median(ratios):.0%} of the limit by {unit} (wanted: 60 %)")
    print(f"  memory {peak:,.0f} MB at most")
    print(
        f"  padding {steps[0]['source_padding_share']:.2%} source, {steps[0]['target_padding_share']:.2%} target "
        "(wanted: under 5 %)",
        flush=True,
    )
    return float(peak)


def prepare(directory: Path, data: Path, times: list[int]) -> dict[int, Path]:
    """The corpus as the `corpora` stage leaves it, so many times over, and a vocabulary of the paper's size."""
    sides = []
    for language in ("en", "de"):
        with gzip.open(data / "europarl" / f"train.en-de.{language}.gz", "rt", encoding="utf-8", newline="\n") as file:
            sides.append(file.read().split("\n")[:PAIRS])
    table = pa.table(dict(zip(("source", "target"), sides, strict=True)))
    made = {}
    for number in times:
        made[number] = directory / f"times-{number}"
        for copy in range(number):
            write_corpus(made[number] / "corpora", table, copy)
        write_corpus(made[number] / "warm-up", table.slice(0, WARM_UP), 0)
    model, listing, _ = learn(VocabularyConfig(sample_pairs=100_000), Artifact(str(made[times[0]] / "corpora")))
    for place in made.values():
        Artifact(str(place / "vocabulary")).write_bytes(SUBWORDS, model)
        Artifact(str(place / "vocabulary")).write_text(LISTING, listing)
    return made


def write_corpus(directory: Path, table: pa.Table, copy: int) -> None:
    (directory / "pairs").mkdir(parents=True, exist_ok=True)
    for part in range(0, len(table), 200_000):
        name = f"part-{copy:03d}{part // 200_000:02d}.parquet"
        pq.write_table(
            table.slice(part, 200_000), directory / "pairs" / name, row_group_size=20_000, compression="zstd"
        )
    Artifact(str(directory)).write_json("about.json", {"source_language": "en", "target_language": "de"})


# --- the limit ---------------------------------------------------------------------------------------------------


def measure_limit(directory: Path) -> dict[str, float]:
    """Seconds, and CPU seconds, from when every process has its sentences in memory to the last row on disk."""
    files = sorted((directory / "corpora" / "pairs").iterdir())
    context = multiprocessing.get_context("spawn")
    ready, done = context.Barrier(CORES + 1), context.Barrier(CORES + 1)
    used = context.Queue()
    processes = [
        context.Process(target=encode_only, args=(directory, files, core, ready, done, used)) for core in range(CORES)
    ]
    for process in processes:
        process.start()
    seconds = 0.0
    for _ in files:  # file by file, so that the sentences of one at a time are in memory
        ready.wait()
        started = time.perf_counter()
        done.wait()
        seconds += time.perf_counter() - started
    busy = sum(used.get() for _ in processes)
    for process in processes:
        process.join()
    return {"seconds": seconds, "busy": busy}


def encode_only(
    directory: Path, files: list[Path], core: int, ready: Barrier, done: Barrier, used: Queue[float]
) -> None:
    """This core's share of every file, to ids, to Parquet."""
    os.nice(RAY_NICENESS)
    model = SentencePieceProcessor(model_file=str(directory / "vocabulary" / SUBWORDS))
    ids = pa.list_(pa.uint16())
    schema = pa.schema([("source", ids), ("target", ids)])
    busy = 0.0
    with pq.ParquetWriter(
        directory / f"ids-{core}.parquet", schema, compression="zstd", compression_level=1, use_dictionary=False
    ) as writer:
        for file in files:
            table = pq.read_table(file, columns=schema.names)
            first, last = (len(table) * edge // CORES for edge in (core, core + 1))
            sides = [table[name].slice(first, last - first).to_pylist() for name in schema.names]
            ready.wait()
            started = time.process_time()
            for at in range(0, last - first, CHUNK):
                encoded = [as_lists(model.encode(side[at : at + CHUNK], return_type="numpy")) for side in sides]
                writer.write_batch(pa.record_batch(encoded, schema=schema))
            busy += time.process_time() - started
            done.wait()
    used.put(busy)


def as_lists(ids: list[np.ndarray]) -> pa.ListArray:
    offsets = np.zeros(len(ids) + 1, dtype=np.int32)
    np.cumsum([len(one) for one in ids], out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(ids).astype(np.uint16)))


# --- the step ----------------------------------------------------------------------------------------------------


def measure_step(directory: Path) -> dict[str, float]:
    """Run the step in this process's own Ray and watch the memory of both."""
    connect(cpus=CORES)
    on = Resources(data=DataResources(tasks=CORES))
    inputs = {name: Artifact(str(directory / name)) for name in ("corpora", "vocabulary")}
    out = Artifact(str(directory / "shards"))
    warm_up = inputs | {"corpora": Artifact(str(directory / "warm-up"))}
    job.run(ShardConfig(pool_pairs=500), **warm_up, out=out, on=on, log=lambda _: None)
    out.delete()
    with watched_memory() as seen:
        started, busy = time.perf_counter(), cpu_seconds()
        facts = job.run(ShardConfig(), **inputs, out=out, on=on, log=lambda _: None)
        seconds, busy = time.perf_counter() - started, cpu_seconds() - busy
    out.delete()
    shares = {name: float(facts[name]) for name in ("source_padding_share", "target_padding_share")}
    return {"seconds": seconds, "busy": busy - seen.own_cpu, "peak_mb": seen.peak_kb / 1024, **shares}


@dataclass
class Watched:
    peak_kb: float = 0.0
    own_cpu: float = 0.0  # CPU seconds of the watching itself


@contextmanager
def watched_memory() -> Iterator[Watched]:
    """The most memory that this process and its descendants had together while the block ran."""
    seen, over = Watched(), threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            seen.peak_kb = max(seen.peak_kb, sum(proportional_set(pid) for pid in descendants(os.getpid())))
        seen.own_cpu = time.thread_time()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def descendants(root: int) -> list[int]:
    """This process and all that it started, directly or not."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def cpu_seconds() -> float:
    """CPU time of this process and its descendants until now, Ray's own processes included."""
    ticks = 0
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def proportional_set(pid: int) -> float:
    """KB in memory, what is shared divided among the sharers; 0 of a process that has just ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return float(line.split()[1])
    return 0.0


if __name__ == "__main__":
    main()
