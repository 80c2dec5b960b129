"""Ray Train with no more processes and libraries than a run of ours needs: a table of the paper has twenty runs.

How the workers find each other: addresses by Ray, the group by torch.distributed in the worker. Ray's own torch backend
does the same, but makes the driver and the controller of every run load torch.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ray.train._internal.utils import get_address_and_port
from ray.train.backend import Backend, BackendConfig
from ray.train.v2._internal.callbacks import DatasetsCallback
from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


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


class LeanTrainer(DataParallelTrainer):
    """Without the process that feeds Ray datasets (we read micro-batches ourselves) and the one that clears the
    placement group if the controller dies (Ray does so when its owner is gone): a third of a small run's start."""

    def _create_default_callbacks(self) -> list[Any]:
        needless = (DatasetsCallback, PlacementGroupCleanerCallback)
        return [callback for callback in super()._create_default_callbacks() if not isinstance(callback, needless)]
