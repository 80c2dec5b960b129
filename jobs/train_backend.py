"""How the workers of a training run find each other: addresses by Ray, the group by torch.distributed in the worker.

Ray's own torch backend does the same, but makes the driver and the controller of every run load torch (seconds each).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ray.train._internal.utils import get_address_and_port
from ray.train.backend import Backend, BackendConfig


def remember(address: str, port: int) -> None:
    """Runs in every worker: torch.distributed looks here."""
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = address, str(port)


class GroupBackend(Backend):
    share_cuda_visible_devices = True  # the workers of a node see all its GPUs, so that NCCL may go directly

    def on_start(self, worker_group: Any, backend_config: BackendConfig) -> None:
        address, port = worker_group.execute_single(0, get_address_and_port)
        worker_group.execute(remember, address, port)


@dataclass
class GroupConfig(BackendConfig):
    """Tells every worker where rank 0 listens, before the training function starts."""

    @property
    def backend_cls(self) -> type[Backend]:
        return GroupBackend
