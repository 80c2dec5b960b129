"""Ray: find the cluster or start one here, quietly, and say in a sentence what is missing."""

from __future__ import annotations

import logging
import os
import socket
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ray

from jobs.configs import Resources
from jobs.errors import UserError

ANSWER_S = 10.0
QUIET = {
    "RAY_DEDUP_LOGS": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_TRAIN_ENABLE_V2": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
STILL = {  # of a Ray that we start: nobody reads its gauges and histories, and a laptop has two cores for all of it
    "REPORTER_UPDATE_INTERVAL_MS": "60000",
    "RAY_enable_metrics_collection": "0",
    "RAY_io_context_monitor_probe_interval_ms": "60000",
    "RAY_event_stats": "0",  # its processes wake up a hundred times a second, and would time each time
    "RAY_task_events_report_interval_ms": "0",
}


def connect(address: str | None = None, *, cpus: float | None = None, object_store_gb: float = 2.0) -> None:
    """Join the cluster at `address`, or the one in RAY_ADDRESS, or start a Ray on this machine for this process.

    A Ray that is started here ends with this process, however it ends.
    """
    if ray.is_initialized():
        return
    prefer(QUIET)
    address = address or os.environ.get("RAY_ADDRESS")
    try:
        if address:
            require_answer(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        else:
            start_here(cpus, object_store_gb)
    except UserError:
        raise
    except Exception as error:  # a bare one
        warnings.simplefilter("ignore", ResourceWarning)  # of processes that Ray itself ends at our exit
        wanted = f"The Ray cluster at {address} could not be reached" if address else "Ray did not start here"
        raise UserError(f"{wanted}: {str(error).splitlines()[0]} `attn doctor` says more.") from error


def prefer(settings: Mapping[str, str]) -> None:
    """Set what nobody has set yet."""
    os.environ.update({name: value for name, value in settings.items() if name not in os.environ})


@contextmanager
def preferring(settings: Mapping[str, str]) -> Iterator[None]:
    """The same for what is started meanwhile, and for nothing that is started later."""
    own = settings.keys() - os.environ.keys()
    prefer(settings)
    try:
        yield
    finally:
        for name in own:
            os.environ.pop(name, None)


def start_here(cpus: float | None, object_store_gb: float) -> None:
    """Ray gives itself half a minute to start, which a very busy machine may exceed: once more before we give up."""
    for attempt in range(2):
        try:
            with preferring(STILL):
                ray.init(
                    address="local",
                    num_cpus=int(cpus) if cpus else None,
                    object_store_memory=int(object_store_gb * 2**30),
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            dismiss(ray._private.worker._global_node)
            return
        except Exception:
            ray.shutdown()
            if attempt:
                raise


def dismiss(node: Any) -> None:
    """End the processes of a Ray of ours that would serve nobody: they look for log lines that are not shown, for nodes
    to ask for where there are no others, for visitors of a page that there is not."""
    node.kill_log_monitor(check_alive=False)
    node.kill_monitor(check_alive=False)
    node.kill_dashboard(check_alive=False)


def require_answer(address: str) -> None:
    """Ray itself would try for minutes before it says that nobody is there."""
    if address.startswith(("http://", "https://")):
        raise UserError(f"{address} is a job server: `attn submit RECIPE --address {address}` sends a recipe to it.")
    host, _, port = address.rpartition("://")[2].partition(":")
    if not port.isdigit():
        return  # "auto", "local": for Ray to understand
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_S).close()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            f"No Ray cluster answers at {address}: {reason}. Is it running, and can this machine reach it?"
        ) from error


def totals() -> Mapping[str, float]:
    """CPUs, GPUs and memory of the whole cluster, now."""
    return {name: float(amount) for name, amount in ray.cluster_resources().items()}


def grows() -> bool:
    """Whether nodes are added when work waits for them. The cluster definitions in infra/ say so, in this variable."""
    return os.environ.get("ATTN_CLUSTER_GROWS") == "1"


def capacity(on: Resources) -> Mapping[str, float]:
    """What work may count on: what is there, or what the profile expects where that will come when it is asked for."""
    have = totals()
    if not grows():
        return have
    return {**have, "CPU": max(have.get("CPU", 0), on.cpus or 0), "GPU": max(have.get("GPU", 0), on.gpus or 0)}


def require_resources(what: str, *, cpus: float = 0, gpus: float = 0) -> None:
    """Refuse before anything starts what the cluster could never give."""
    have = totals()
    for name, need in (("CPU", cpus), ("GPU", gpus)):
        if need > have.get(name, 0) and not grows():
            raise UserError(
                f"{what} needs {need:g} {name}s and the cluster has {have.get(name, 0):g}. "
                f"Choose a smaller profile (--on) or add nodes."
            )


def leave() -> None:
    """Let go of the cluster; a Ray that was started here ends."""
    if ray.is_initialized():
        ray.shutdown()
