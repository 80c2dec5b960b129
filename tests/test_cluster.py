"""What a cluster can give: refused in a sentence where it cannot, asked for where nodes may still come."""

from __future__ import annotations

import os

import pytest
from survival_cluster import children, title

from jobs import cluster
from jobs.errors import UserError
from jobs.profiles import load_profile

pytestmark = pytest.mark.ray
UNWANTED = ("log_monitor.py", "monitor.py", "dashboard.py")


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


@pytest.mark.usefixtures("ray_session")
def test_a_ray_of_ours_has_no_process_that_serves_nobody() -> None:
    """Those that look for log lines, for nodes to ask for and for visitors of a page wake up all the time."""
    started = [title(pid) for pid in children()[os.getpid()]]
    assert [name for name in started if "gcs_server" in name or "raylet" in name]
    assert not [name for name in started for unwanted in UNWANTED if unwanted in name]


def test_settings_of_ray_that_somebody_chose_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPORTER_UPDATE_INTERVAL_MS", "1000")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "put back at the end")
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED")
    cluster.prefer({"REPORTER_UPDATE_INTERVAL_MS": "60000", "RAY_USAGE_STATS_ENABLED": "0"})
    assert os.environ["REPORTER_UPDATE_INTERVAL_MS"] == "1000"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


@pytest.mark.usefixtures("ray_session")
def test_what_a_ray_of_ours_was_started_with_is_not_passed_on() -> None:
    """A cluster that somebody starts from here must collect its gauges."""
    assert not cluster.STILL.keys() & os.environ.keys()


def test_a_setting_that_was_there_before_is_there_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_CHOSEN", "1")
    monkeypatch.delenv("RAY_OURS", raising=False)
    with cluster.preferring({"RAY_CHOSEN": "0", "RAY_OURS": "0"}):
        assert (os.environ["RAY_CHOSEN"], os.environ["RAY_OURS"]) == ("1", "0")
    assert os.environ["RAY_CHOSEN"] == "1"
    assert "RAY_OURS" not in os.environ
