"""Seconds as text: never a rounded-up 60, and a dash for what is not known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.durations import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"), (0.153, "0.15 s"), (3.24, "3.2 s"), (59.9, "59 s"), (75.0, "1:15 min"), (3_599.9, "59:59 min"),
        (3_600.0, "1:00 h"), (42_000.0, "11:40 h"), (302_400.0, "3.5 days"),
    ],
)  # fmt: skip
def test_a_duration_is_said_in_its_own_unit(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@given(st.floats(60, 172_799))
def test_minutes_and_seconds_are_below_sixty(seconds: float) -> None:
    whole, part = duration(seconds).split()[0].split(":")
    assert int(part) < 60
    assert int(whole) < (60 if seconds < 3600 else 48)
