"""What a cluster can give: refused in a sentence where it cannot, asked for where nodes may still come."""

from __future__ import annotations

import os

import pytest

from jobs.cluster import connect
from jobs.cluster.profiles import load_profile
from jobs.errors import UserError
from jobs.events import Event


@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_what_a_ray_of_ours_does_not_have_is_refused() -> None:
    said: list[Event] = []
    connect.require_resources("Training", [{"CPU": 1}] * 2, said.append)
    with pytest.raises(UserError, match="Training needs 8 GPUs and the cluster has 0"):
        connect.require_resources("Training", [{"CPU": 0.25, "GPU": 1}] * 8, said.append)
    assert not connect.can_autoscale()
    assert connect.capacity(load_profile("gpu8"))["CPU"] == 2
    assert said == []


def test_settings_of_ray_that_somebody_chose_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_DEDUP_LOGS", "1")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "put back at the end")
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED")
    connect.set_defaults({"RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0"})
    assert os.environ["RAY_DEDUP_LOGS"] == "1"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
