"""What a cluster can give: refused in a sentence where it cannot, asked for where nodes may still come."""

from __future__ import annotations

import os

import pytest

from jobs import cluster
from jobs.errors import UserError
from jobs.profiles import load_profile

pytestmark = pytest.mark.ray


@pytest.mark.usefixtures("ray_session")
def test_what_is_not_there_is_refused_unless_nodes_may_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATTN_CLUSTER_GROWS", raising=False)
    cluster.require_resources("Training", cpus=2)
    with pytest.raises(UserError, match="Training needs 8 GPUs and the cluster has 0"):
        cluster.require_resources("Training", cpus=2, gpus=8)
    assert cluster.capacity(load_profile("gpu8"))["CPU"] == 2
    monkeypatch.setenv("ATTN_CLUSTER_GROWS", "1")
    cluster.require_resources("Training", cpus=2, gpus=8)
    assert {name: cluster.capacity(load_profile("gpu8"))[name] for name in ("CPU", "GPU")} == {"CPU": 64, "GPU": 8}


def test_settings_of_ray_that_somebody_chose_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPORTER_UPDATE_INTERVAL_MS", "1000")
    monkeypatch.setenv("LOG_NAME_UPDATE_INTERVAL_S", "put back at the end")
    monkeypatch.delenv("LOG_NAME_UPDATE_INTERVAL_S")
    cluster.prefer({"REPORTER_UPDATE_INTERVAL_MS": "60000", "LOG_NAME_UPDATE_INTERVAL_S": "60"})
    assert os.environ["REPORTER_UPDATE_INTERVAL_MS"] == "1000"
    assert os.environ["LOG_NAME_UPDATE_INTERVAL_S"] == "60"
