"""One Ray Data task per item: the way in which the data stages use the whole cluster.

What is large goes from task to storage. Only a few words about each item come back, so that neither the driver nor
the object store grows with the corpus.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import ray.data
from ray.data import ExecutionResources, TaskPoolStrategy

from jobs.configs import DataResources
from jobs.errors import UserError

Item = TypeVar("Item")
Said = dict[str, Any]  # what a task says of its item: anything that JSON can hold


def work_through(items: Sequence[Item], act: Callable[[Item], Said], on: DataResources) -> Iterator[Said]:
    """Do `act` to every item, each in a task of its own, and hand back what each says as it ends, in any order.

    Ray Data keeps `on.tasks` tasks busy and does again what a lost worker was doing, so `act` may be called twice for
    an item, and must then do the same again.
    """
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # it speaks of each run; `log` says all of it
    rows = [{"position": position} for position in range(len(items))]
    tasks = TaskPoolStrategy(size=min(on.tasks, len(rows)))
    data = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
        partial(_act_on_row, list(items), act), num_cpus=on.cpus_per_task, compute=tasks
    )
    let_all_work(data)
    data.context.execution_options.resource_limits = ExecutionResources(object_store_memory=on.memory_gb * 2**30)
    for row in data.iter_rows():
        if row["refused"]:
            raise UserError(row["refused"])
        yield json.loads(row["said"])


def let_all_work(data: ray.data.Dataset) -> None:
    """Have Ray Data start a task whenever a CPU is free. Its ways to hold tasks back are for rows that are large."""
    data.context.enable_progress_bars = False
    data.context.op_resource_reservation_enabled = False  # what it holds back for a reader leaves one CPU of two idle
    data.context.downstream_capacity_backpressure_ratio = None  # a few words that nobody took yet stop the next task


def _act_on_row(items: Sequence[Item], act: Callable[[Item], Said], row: dict[str, Any]) -> dict[str, str]:
    try:
        return {"said": json.dumps(act(items[row["position"]])), "refused": ""}
    except UserError as refused:  # as a value: Ray Data would wrap it, and print how it came about
        return {"said": "", "refused": str(refused)}
