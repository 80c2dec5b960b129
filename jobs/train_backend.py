"""Ray Train with no more processes and libraries than a run of ours needs: a table of the paper has twenty runs.

How the workers find each other: addresses by Ray, the group by torch.distributed in the worker. Ray's own torch backend
does the same, but makes the driver load torch. Who watches over them: Ray Train's controller, in a thread of the driver
instead of a process of its own, since it ends with the driver anyway. How: it asks, and they answer when a second is
over, so that between two answers nothing of Ray runs where they compute.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import Any

import ray
from ray.train._internal.utils import get_address_and_port
from ray.train.backend import Backend, BackendConfig
from ray.train.v2._internal.callbacks import DatasetsCallback
from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
from ray.train.v2._internal.execution.context import TrainRunContext, get_train_context
from ray.train.v2._internal.execution.controller import TrainController
from ray.train.v2._internal.execution.scaling_policy import FixedScalingPolicy
from ray.train.v2._internal.execution.worker_group import (
    RayTrainWorker,
    WorkerGroup,
    WorkerGroupPollStatus,
    WorkerStatus,
)
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
from ray.train.v2.api.result import Result

from jobs.cluster import grows

PATIENCE_SECONDS = 1.0


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


class FixedHere(FixedScalingPolicy):
    """As many workers as asked for, on a cluster that does not grow: nobody need be told how many."""

    def after_controller_start(self, train_run_context: TrainRunContext) -> None:
        pass

    def _maybe_send_resource_request(self) -> None:
        pass


class PatientWorker(RayTrainWorker):
    """Says how it is when its training has ended or a second has passed, not at once.

    The first thread of an actor that has nothing to do wakes up every 10 ms, in the place of the training on its core.
    One that is busy with an answer does not.
    """

    def poll_status(self) -> WorkerStatus:
        training = get_train_context().execution_context.training_thread_runner._thread
        if training is not None:
            training.join(PATIENCE_SECONDS)
        return super().poll_status()


class Agreed:
    """In the place of the actor through which the ranks would agree on a checkpoint's name: ours know it beforehand."""

    @property
    def broadcast_from_rank_zero(self) -> Agreed:
        return self

    def remote(self, *, data: str, **_: Any) -> ray.ObjectRef[str]:
        return ray.put(data)


class WorkersOfDriver(WorkerGroup):
    """Workers that know of no other process: the controller is the driver, and they agree without being told."""

    _worker_cls = PatientWorker

    def _init_train_context_on_workers(self, workers: list[Any], sync_actor: Any, args: dict[str, list[Any]]) -> None:
        ray.get(
            [
                worker.actor.init_train_context.remote(
                    train_run_context=self._train_run_context,
                    distributed_context=worker.distributed_context,
                    synchronization_actor=Agreed(),
                    storage_context=self._storage_context,
                    worker_callbacks=self._worker_callbacks_to_propagate,
                    controller_actor=None,
                    **{name: values[place] for name, values in args.items()},
                )
                for place, worker in enumerate(workers)
            ]
        )
        self._decorate_worker_log_file_paths(workers)
        ray.kill(sync_actor)


class Controller(TrainController):
    worker_group_cls = WorkersOfDriver

    async def _poll_workers(self) -> WorkerGroupPollStatus:
        """Ask again at once: it is the workers who take their time."""
        assert self._worker_group is not None
        await asyncio.sleep(0)
        return self._worker_group.poll_status(timeout=2 * PATIENCE_SECONDS)


class LeanTrainer(DataParallelTrainer):
    """Without five processes that Ray Train would have: the controller's, one that talks to the autoscaler where there
    is none, one that feeds Ray datasets (we read micro-batches ourselves), one that clears the placement group if the
    controller dies (Ray does so when its owner is gone) and one through which the workers agree on names."""

    def _create_default_callbacks(self) -> list[Any]:
        needless = (DatasetsCallback, PlacementGroupCleanerCallback)
        return [callback for callback in super()._create_default_callbacks() if not isinstance(callback, needless)]

    def _initialize_and_run_controller(self, **settings: Any) -> Result:
        policy = settings["scaling_policy"]
        if isinstance(policy, FixedScalingPolicy) and not grows():
            settings["scaling_policy"] = FixedHere(policy.scaling_config)
        controller: Any = Controller(**settings)
        asyncio.run(controller.run())
        result: Result = controller.get_result()
        return result
