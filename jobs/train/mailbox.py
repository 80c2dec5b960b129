"""Messages of the workers of a training to its driver: events of rank 0, and a failure that no retry would mend.

A small Ray actor on the driver's own node holds them, so that no other node that is lost takes a message along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from jobs.events import Event, Note


class Box:
    """The actor. Its methods run one after the other."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.failure: str | None = None

    def put(self, events: Sequence[Event]) -> None:
        self.events += events

    def take(self) -> list[Event]:
        taken, self.events = self.events, []
        return taken

    def fail(self, sentence: str) -> None:
        if self.failure is None:
            self.failure = sentence
            self.events.append(Note(f"A worker cannot go on, and the others are being stopped: {sentence}"))

    def get_failure(self) -> str | None:
        return self.failure


@dataclass(frozen=True)
class Mailbox:
    """One side puts events in, the other takes each of them out once. The first failure is kept."""

    actor: Any

    @staticmethod
    def open() -> Mailbox:
        """Called by the driver."""
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        return Mailbox(ray.remote(Box).options(num_cpus=0, scheduling_strategy=here).remote())

    def put(self, events: Sequence[Event], *, wait: bool = False) -> None:
        """`wait` until they are delivered: the last events of a worker would otherwise be lost with its process."""
        sent = self.actor.put.remote(tuple(events))
        if wait:
            ray.get(sent)

    def take(self) -> list[Event]:
        taken: list[Event] = ray.get(self.actor.take.remote())
        return taken

    def fail(self, sentence: str) -> None:
        ray.get(self.actor.fail.remote(sentence))

    def failure(self) -> str | None:
        sentence: str | None = ray.get(self.actor.get_failure.remote())
        return sentence

    def close(self) -> None:
        """End the actor. What was not taken is gone."""
        ray.kill(self.actor)
