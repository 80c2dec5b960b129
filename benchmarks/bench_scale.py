"""What grows with the number of rows, steps, ranks and micro-batches, and how fast? Printed as ratios and per unit.

plan        a table of 1,000 rows, each with its own text: 10,001 steps; none done, all done, one row new
runner      real runner, locks, records and MLflow (SQLite) around jobs that do nothing
MLflow      asking for the scores of 1,000 rows
index       what every rank reads at its start, at the size of WMT14 En-De and En-Fr, by 64 ranks at once
checkpoint  what rank 0 writes and every rank reads back, base model

By hand   python benchmarks/bench_scale.py [--rows 1000] [--steps 1000] [--ranks 64]
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from mlflow.tracking import MlflowClient
from scale_plan import in_own_process, memory_mb, table, timed

from jobs.configs import Resources
from jobs.shards.layout import INDEX
from jobs.storage.artifacts import Artifact
from jobs.train.curve import flops_by_row
from jobs.train.plan import assign_by_cost
from jobs.train.stream import Stream, read_index
from pipelines.execution.runner import Runner, Screen
from pipelines.execution.workspace import Workspace
from pipelines.steps.plan import plan
from pipelines.steps.step import Step
from pipelines.tracking.query import read
from pipelines.tracking.writer import Tracker
from transformer import checkpoint
from transformer.config import ModelConfig, TrainingConfig
from transformer.model import Transformer, count_parameters
from transformer.update import make_optimizer

EN_DE, EN_FR = 42_000, 400_000  # micro-batches of 3,125 target tokens: 4.5 and 36 million pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--ranks", type=int, default=64)
    given = parser.parse_args()
    show_plan(given.rows)
    show_runner(given.steps)
    show_index(given.ranks)
    show_checkpoint(given.ranks)


# --- plan ------------------------------------------------------------------------------------------------------------


def show_plan(rows: int) -> None:
    print("plan, made from nothing: fingerprints, order, what is done and why")
    for count in (rows // 10, rows):
        measured = in_own_process(count)
        steps = measured["steps"]
        took = ", ".join(f"{name} {measured[name]:.2f} s" for name in ("none done", "one row new", "all done"))
        print(f"  {count:,} rows, {steps:,.0f} steps: {took}; {measured['memory_mb'] * 1024 / steps:.1f} kB per step")


# --- runner and MLflow -----------------------------------------------------------------------------------------------


class Silence(Screen):
    """Nobody is told."""


def idle(target: Step) -> Step:
    """The same steps, made by a job that does nothing."""
    known: dict[str, Step] = {}

    def copy(step: Step) -> Step:
        if step.key not in known:
            inputs = {n: tuple(map(copy, v)) if isinstance(v, tuple) else copy(v) for n, v in step.inputs.items()}
            tags = {**step.tags, "attn.set": "dev"} if step.tags else {}  # there is no model to register
            known[step.key] = replace(step, job="scale_job", inputs=inputs, tags=tags)
        return known[step.key]

    return copy(target)


def run(target: Step, directory: str) -> tuple[float, float]:
    """Seconds until the last step was made, and until MLflow had it all."""
    workspace, store = Workspace(directory), Path(directory) / "mlflow"
    tracker = Tracker(f"sqlite:///{store}/mlflow.db", "scale", artifacts=store / "artifacts", command="bench")
    runner = Runner(workspace, Resources(), tracker, Silence(), {"CPU": 4.0})
    made, outcome = timed(lambda: runner.run(plan([target], workspace)))
    assert not outcome.failures, outcome.failures
    wrote, lost = timed(lambda: tracker.close("FINISHED"))
    assert lost == 0
    return made, made + wrote


def show_runner(steps: int) -> None:
    print("runner, around jobs that do nothing (a thread, a lock, a record, an MLflow run with 10 points each)")
    for count in (steps // 4, steps):
        with tempfile.TemporaryDirectory(prefix="attn-scale-") as directory:
            target, before = idle(table(count // 10)), memory_mb()
            made, all_written = run(target, directory)
            grown = (memory_mb() - before) * 1024 / count
            again, again_written = run(target, directory)
            client = MlflowClient(tracking_uri=f"sqlite:///{directory}/mlflow/mlflow.db")
            asking, found = timed(lambda: read(client, None, None))  # noqa: B023
        print(
            f"  {count:,} steps: {1000 * made / count:.0f} ms per step, {1000 * all_written / count:.0f} with MLflow, "
            f"{grown:.0f} kB; all found done: {1000 * again / count:.1f} ms per step, "
            f"{1000 * again_written / count:.0f} with MLflow; asking for {len(found):,} scores: {asking:.2f} s"
        )


# --- ranks -----------------------------------------------------------------------------------------------------------


def write_index(directory: Path, count: int) -> Artifact:
    """An index like that of WMT14: pools of 100,000 pairs, micro-batches of 3,125 target tokens."""
    rng = np.random.default_rng(1)
    pairs = rng.integers(30, 300, count)
    columns = {
        "pool": np.arange(count) // 900, "row_group": np.arange(count) % 900, "pairs": pairs,
        "source_tokens": pairs * 27, "target_tokens": rng.integers(3000, 3200, count),
        "longest_source": rng.integers(10, 250, count), "longest_target": rng.integers(10, 250, count),
        "digest": [f"{number:032x}" for number in rng.integers(0, 2**62, count)],
    }  # fmt: skip
    pq.write_table(pa.table(columns), directory / INDEX)
    return Artifact(str(directory))


def show_index(ranks: int) -> None:
    print(f"index: what each of {ranks} ranks reads at its start")
    for name, count in (("En-De", EN_DE), ("En-Fr", EN_FR)):
        with tempfile.TemporaryDirectory(prefix="attn-scale-") as directory:
            shards = write_index(Path(directory), count)
            size = (Path(directory) / INDEX).stat().st_size / 2**20
            once, index = timed(lambda: read_index(shards))  # noqa: B023
            counting, costs = timed(lambda: flops_by_row(index, ModelConfig(), 37_000))  # noqa: B023
            threads = [threading.Thread(target=read_index, args=(shards,)) for _ in range(ranks)]
            together = timed(lambda: [[t.start() for t in threads], [t.join() for t in threads]])[0]  # noqa: B023
        print(
            f"  {name}, {count:,} micro-batches: file {size:.1f} MB, in memory {7 * 8 * count / 2**20:.0f} MB; "
            f"one reads it in {once:.2f} s, {ranks} here in {together:.2f} s; "
            f"costs of all micro-batches {1000 * counting:.0f} ms"
        )
        for per_update in (8, ranks, 1000):
            stream = Stream(index, 1, per_update)
            stream.rows(1)  # the permutation of the epoch
            took = timed(lambda: [stream.rows(update) for update in range(2, 22)])[0] / 20  # noqa: B023
            work = costs[stream.rows(2)].tolist()
            dealt = timed(lambda: [assign_by_cost(work, per_update) for _ in range(20)])[0] / 20  # noqa: B023
            print(
                f"    an update of {per_update:,} micro-batches is looked up in {1000 * took:.2f} ms on every rank, "
                f"and dealt to as many in {1000 * dealt:.2f} ms"
            )


def show_checkpoint(ranks: int) -> None:
    torch.manual_seed(1)
    model = Transformer(ModelConfig(), 37_000)
    optimizer = make_optimizer(model, TrainingConfig())
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    names = (
        "loss",
        "perplexity",
        "learning_rate",
        "gradient_norm",
        "tokens_per_second",
        "padding_share",
        "flops_share",
    )
    points = [{"update": update, **dict.fromkeys(names, 1 / 3)} for update in range(0, 100_000, 100)]
    with tempfile.TemporaryDirectory(prefix="attn-scale-") as directory:
        place = Path(directory)
        taken = checkpoint.snapshot(model, optimizer, {"update": 1}, points)
        wrote = timed(lambda: checkpoint.write(place, taken))[0]
        size = sum(file.stat().st_size for file in place.iterdir()) / 1e6
        back = timed(lambda: checkpoint.restore(place, model, optimizer))[0]
    print(f"checkpoint, base model of {count_parameters(model) / 1e6:.0f} M parameters, by rank 0 alone")
    print(
        f"  {size:,.0f} MB, written here in {wrote:.1f} s and read in {back:.1f} s; every rank reads it back after a "
        f"loss: {ranks} ranks {ranks * size / 1000:,.0f} GB, 1,000 ranks {size:,.0f} GB"
    )


if __name__ == "__main__":
    main()
