"""One task per item, on a real Ray: all are done, both CPUs work, and a refusal arrives as its sentence."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from pathlib import Path

import pytest

from jobs.cluster.ray_map import map_items
from jobs.configs import DataResources
from jobs.errors import UserError

pytestmark = pytest.mark.ray


def test_every_item_is_done_once(ray_session: None) -> None:
    def double(number: int) -> dict[str, int]:
        return {"of": number, "is": 2 * number}

    said = list(map_items(range(7), double, DataResources()))
    assert sorted((one["of"], one["is"]) for one in said) == [(number, 2 * number) for number in range(7)]


def test_as_many_at_once_as_the_profile_says(ray_session: None) -> None:
    def nap(_: int) -> dict[str, float]:
        started = time.time()
        time.sleep(0.5)
        return {"from": started, "to": time.time()}

    for tasks in (1, 2):
        naps = list(map_items(range(6), nap, DataResources(tasks=tasks)))
        together = max(sum(a["from"] <= b["from"] < a["to"] for a in naps) for b in naps)
        assert together == tasks


def test_nobody_works_alone_while_there_is_more_to_do(ray_session: None, tmp_path: Path) -> None:
    """Each waits for another one to be at work: with a free CPU and items left, one must come."""

    def meet(number: int) -> dict[str, object]:
        long = "word" * (10_000 if number % 3 == 0 else 1)  # some have more to say than others
        for floor in itertools.count():
            room = tmp_path / str(floor)
            with contextlib.suppress(FileExistsError):
                room.mkdir()
                until = time.monotonic() + 20
                while not (room / "second").exists() and time.monotonic() < until:
                    time.sleep(0.01)
                return {"alone": not (room / "second").exists(), "long": long}
            with contextlib.suppress(FileExistsError):
                (room / "second").mkdir()
                return {"alone": False, "long": long}
        raise AssertionError

    for count, said in enumerate(map_items(range(40), meet, DataResources(tasks=2)), start=1):
        assert not said["alone"], f"item {count} of 40"
        time.sleep(0.1)  # whoever reads along may take his time
    assert count == 40


def test_a_refusal_arrives_as_its_sentence(ray_session: None) -> None:
    def refuse_three(number: int) -> dict[str, int]:
        if number == 3:
            raise UserError("Item 3 cannot be worked on: leave it out.")
        return {}

    with pytest.raises(UserError, match=r"^Item 3 cannot be worked on: leave it out\.$"):
        list(map_items(range(6), refuse_three, DataResources()))


def test_what_a_lost_worker_was_doing_is_done_again(ray_session: None, tmp_path: Path) -> None:
    first_try = tmp_path / "tried"

    def die_once(number: int) -> dict[str, int]:
        if number == 2 and not first_try.exists():
            first_try.touch()
            os._exit(1)
        return {"of": number}

    said = list(map_items(range(4), die_once, DataResources()))
    assert first_try.exists()
    assert sorted(one["of"] for one in said) == [0, 1, 2, 3]
