"""One Ray Data task per item: the way in which the data stages use the whole cluster.

Tasks write their results to storage. Only a small report on each item comes back, so that neither the driver nor the
object store grows with the corpus.
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
TaskReport = dict[str, Any]  # on one item: anything that JSON can hold


def map_items(items: Sequence[Item], act: Callable[[Item], TaskReport], on: DataResources) -> Iterator[TaskReport]:
    """Call `act` on every item, each in a task of its own, and yield its reports as tasks end, in any order.

    Ray Data keeps `on.tasks` tasks busy and repeats what a lost worker was doing, so `act` may be called twice for an
    item and must be idempotent.
    """
    rows = [{"position": position} for position in range(len(items))]
    tasks = TaskPoolStrategy(size=min(on.tasks, len(rows)))
    data = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
        partial(_act_on_row, list(items), act), num_cpus=on.cpus_per_task, compute=tasks
    )
    limit(data, on)
    for row in data.iter_rows():
        if row["refused"]:
            raise UserError(row["refused"])
        yield json.loads(row["report"])


def limit(data: ray.data.Dataset, on: DataResources, cpus: float | None = None) -> None:
    """Have Ray Data take no more of the cluster than the profile says, all of that, and say nothing of it."""
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # it logs every execution
    disable_backpressure(data)
    memory = on.memory_gb * 2**30
    data.context.execution_options.resource_limits = ExecutionResources(cpu=cpus, object_store_memory=memory)


def disable_backpressure(data: ray.data.Dataset) -> None:
    """Have Ray Data start a task whenever a CPU is free: its backpressure is meant for large rows."""
    data.context.enable_progress_bars = False
    data.context.op_resource_reservation_enabled = False  # the reservation for readers leaves one CPU of two idle
    data.context.downstream_capacity_backpressure_ratio = None  # else reports not yet read stop the next task


def _act_on_row(items: Sequence[Item], act: Callable[[Item], TaskReport], row: dict[str, Any]) -> dict[str, str]:
    try:
        return {"report": json.dumps(act(items[row["position"]])), "refused": ""}
    except UserError as refused:  # as a value: Ray Data would wrap it and print a traceback
        return {"report": "", "refused": str(refused)}
