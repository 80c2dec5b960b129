"""The mailbox between rank 0 and the driver: everything arrives once and in order, and a failure is kept."""

from __future__ import annotations

import pytest
import ray
from ray.experimental import internal_kv

from jobs.events import Event, Metrics, Note, Progress
from jobs.mailbox import NAMESPACE, Mailbox

pytestmark = pytest.mark.ray
EVENTS: list[Event] = [Note("Going on."), Metrics(3, {"loss": 2.5}), Progress(3, 9, "updates", "loss 2.500")]


def keys(box: Mailbox) -> list[bytes]:
    return list(internal_kv._internal_kv_list(box.name, namespace=NAMESPACE))


def test_what_another_process_puts_in_is_taken_out_once_and_in_order(ray_session: None) -> None:
    box, other = Mailbox(), Mailbox()

    @ray.remote(num_cpus=0)
    def speak(box: Mailbox) -> None:
        for event in EVENTS:
            box.put([event])
        box.put(EVENTS)

    ray.get(speak.remote(box))
    other.put(EVENTS[:1])
    assert box.take() == [*EVENTS, *EVENTS]
    assert box.take() == []
    assert other.take() == EVENTS[:1]
    assert keys(box) == keys(other) == []


def test_the_first_failure_is_kept_until_the_mailbox_is_removed(ray_session: None) -> None:
    box = Mailbox()
    assert box.failure() is None
    box.fail("Out of memory at update 7.")
    box.fail("Another worker found out later.")
    box.put(EVENTS)
    assert box.failure() == box.failure() == "Out of memory at update 7."
    box.remove()
    assert (keys(box), box.failure(), box.take()) == ([], None, [])
