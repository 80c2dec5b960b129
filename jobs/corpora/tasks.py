"""Tasks of a corpus on the cluster: so many at once, each a stream that says how far it is as it goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from jobs.cluster.one_task import unwrapped_refusals
from jobs.corpora.reading import Task, TaskReport


def run_tasks(
    tasks: Sequence[Task], *, at_once: int, cpus: float, nodes: Sequence[str | None]
) -> Iterator[tuple[int, TaskReport]]:
    """What the tasks say, with the number of who says it, as they say it.

    A task runs on its node of `nodes` if that is there and has a CPU to give, else (or for None) wherever there is one.
    """
    remote: Any = ray.remote(_run_task)
    waiting = list(enumerate(zip(tasks, nodes, strict=True)))[::-1]
    running: dict[Any, int] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                number, (task, node) = waiting.pop()
                where = NodeAffinitySchedulingStrategy(node, soft=True) if node else "DEFAULT"
                begun = remote.options(num_cpus=cpus, num_returns="streaming", scheduling_strategy=where).remote(task)
                running[begun] = number
            stream: Any = ray.wait(list(running), num_returns=1)[0][0]
            with unwrapped_refusals():
                report: Any = next((ray.get(each) for each in islice(stream, 1)), None)
            if report is None:
                del running[stream]
            else:
                yield running[stream], report
    finally:
        for stream in running:
            ray.cancel(stream)


def this_node() -> str:
    return str(ray.get_runtime_context().get_node_id())


def _run_task(task: Task) -> Iterator[TaskReport]:
    yield from task()
