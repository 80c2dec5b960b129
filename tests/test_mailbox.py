"""The mailbox between rank 0 and the driver: everything arrives once and in order, and a failure is kept."""

from __future__ import annotations

import pytest
import ray

from jobs.events import Note
from jobs.train.mailbox import Mailbox

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_session")]


@ray.remote(num_cpus=0)
def speak(box: Mailbox, who: str) -> None:
    for number in range(50):
        box.put([Note(f"{who} {number}")])
    box.put([Note(f"{who} last")], wait=True)


def test_everything_arrives_once_and_in_the_order_of_each_speaker() -> None:
    box, other = Mailbox.open(), Mailbox.open()
    ray.get([speak.remote(box, "a"), speak.remote(box, "b"), speak.remote(other, "c")])
    texts = [event.text for event in box.take() if isinstance(event, Note)]
    for who in "ab":
        assert [text for text in texts if text[0] == who] == [
            *(f"{who} {number}" for number in range(50)),
            f"{who} last",
        ]
    assert not [text for text in texts if text[0] == "c"]
    assert box.take() == []
    for each in (box, other):
        each.close()


def test_the_first_failure_is_kept() -> None:
    box = Mailbox.open()
    assert box.failure() is None
    box.fail("The disk is full.")
    box.fail("Another worker was told to go.")
    assert box.failure() == box.failure() == "The disk is full."
    box.close()
