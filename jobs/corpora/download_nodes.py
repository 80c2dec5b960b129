"""Downloads on the cluster: each is a task, on the node that has its part already, else where there is most room."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from jobs.corpora.download import Download, size
from jobs.corpora.reading import TaskReport
from jobs.corpora.tasks import run_tasks, this_node

CPUS = 0.1  # of a download: it waits for the network; but a node without CPUs is kept free of work on purpose


@dataclass(frozen=True)
class Room:
    """What a node has: free bytes on the disk for downloads, and what came of earlier ones, by name."""

    free: int
    parts: Mapping[str, int]


def download_on_cluster(downloads: Sequence[Download], *, at_once: int) -> Iterator[tuple[int, TaskReport]]:
    return run_tasks(downloads, at_once=at_once, cpus=CPUS, nodes=nodes_for(downloads))


def nodes_for(downloads: Sequence[Download]) -> list[str | None]:
    """A node for each download. None: any will do, since all write to the same directory."""
    if any(download.directory for download in downloads):
        return [this_node()] * len(downloads)
    if not downloads or downloads[0].store.is_local:
        return [None] * len(downloads)
    return choose(downloads, rooms(downloads))


def choose(downloads: Sequence[Download], rooms: Mapping[str, Room]) -> list[str | None]:
    """The node that has most of it, or the roomiest by what is to come to it already."""
    free = {node: room.free for node, room in rooms.items()}
    chosen: list[str | None] = []
    for download in downloads:
        name, bytes_ = download.name, download.archive.bytes or 0
        node = max(rooms, key=lambda node: (rooms[node].parts[name], free[node]), default=None)
        if node is not None:
            free[node] -= bytes_ - rooms[node].parts[name]
        chosen.append(node)
    return chosen


def rooms(downloads: Sequence[Download]) -> dict[str, Room]:
    """What each node that takes work says of its disk; one that does not answer is left out."""
    remote: Any = ray.remote(look)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]
    answers = {
        node: remote.options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(
            downloads
        )
        for node in nodes
    }
    found = {}
    for node, answer in answers.items():
        with contextlib.suppress(ray.exceptions.RayError):
            found[node] = ray.get(answer, timeout=60)
    return found


def look(downloads: Sequence[Download]) -> Room:
    return Room(
        free=shutil.disk_usage(tempfile.gettempdir()).free,
        parts={download.name: size(download.scratch / f"{download.name}.part") for download in downloads},
    )
