"""What a cluster can give: refused in a sentence where it cannot, asked for where nodes may still come."""

from __future__ import annotations

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
