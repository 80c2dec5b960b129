"""One task per item, on a real Ray: all are done, both CPUs work, and a refusal arrives as its sentence."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from jobs.configs import DataResources
from jobs.errors import UserError
from jobs.parallel import work_through

pytestmark = pytest.mark.ray


def test_every_item_is_done_once(ray_session: None) -> None:
    def double(number: int) -> dict[str, int]:
        return {"of": number, "is": 2 * number}

    said = list(work_through(range(7), double, DataResources()))
    assert sorted((one["of"], one["is"]) for one in said) == [(number, 2 * number) for number in range(7)]


def test_as_many_at_once_as_the_profile_says(ray_session: None) -> None:
    def nap(_: int) -> dict[str, float]:
        started = time.time()
        time.sleep(0.5)
        return {"from": started, "to": time.time()}

    for tasks in (1, 2):
        naps = list(work_through(range(6), nap, DataResources(tasks=tasks)))
        together = max(sum(a["from"] <= b["from"] < a["to"] for a in naps) for b in naps)
        assert together == tasks


def test_a_refusal_arrives_as_its_sentence(ray_session: None) -> None:
    def refuse_three(number: int) -> dict[str, int]:
        if number == 3:
            raise UserError("Item 3 cannot be worked on: leave it out.")
        return {}

    with pytest.raises(UserError, match=r"^Item 3 cannot be worked on: leave it out\.$"):
        list(work_through(range(6), refuse_three, DataResources()))


def test_what_a_lost_worker_was_doing_is_done_again(ray_session: None, tmp_path: Path) -> None:
    first_try = tmp_path / "tried"

    def die_once(number: int) -> dict[str, int]:
        if number == 2 and not first_try.exists():
            first_try.touch()
            os._exit(1)
        return {"of": number}

    said = list(work_through(range(4), die_once, DataResources()))
    assert first_try.exists()
    assert sorted(one["of"] for one in said) == [0, 1, 2, 3]
