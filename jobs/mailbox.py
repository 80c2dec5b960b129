"""From rank 0 to the driver, through the cluster's own table of keys: no process of ours need stand between them.

The table is on the head node, so no other node that is lost takes a message along.
"""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from ray.experimental import internal_kv

from jobs.events import Event

NAMESPACE = "attn"


@dataclass(frozen=True)
class Mailbox:
    """One side puts events in, the other takes them out. A failure that no retry would mend is kept."""

    name: str = field(default_factory=lambda: f"mailbox-{uuid.uuid4().hex}/")

    def put(self, events: Sequence[Event]) -> None:
        key = f"{self.name}events/{time.time_ns():020d}"  # in the order of their writing
        internal_kv._internal_kv_put(key, pickle.dumps(tuple(events)), namespace=NAMESPACE)

    def take(self) -> list[Event]:
        taken: list[Event] = []
        for key in sorted(internal_kv._internal_kv_list(f"{self.name}events/", namespace=NAMESPACE)):
            taken += pickle.loads(internal_kv._internal_kv_get(key, namespace=NAMESPACE))
            internal_kv._internal_kv_del(key, namespace=NAMESPACE)
        return taken

    def fail(self, sentence: str) -> None:
        """The first sentence stays."""
        internal_kv._internal_kv_put(f"{self.name}failure", sentence, overwrite=False, namespace=NAMESPACE)

    def failure(self) -> str | None:
        sentence = internal_kv._internal_kv_get(f"{self.name}failure", namespace=NAMESPACE)
        return None if sentence is None else sentence.decode()

    def remove(self) -> None:
        internal_kv._internal_kv_del(self.name, del_by_prefix=True, namespace=NAMESPACE)
