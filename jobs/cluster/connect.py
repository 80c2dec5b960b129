"""Ray: find the cluster or start one here, quietly, and say in a sentence what is missing."""

from __future__ import annotations

import logging
import os
import socket
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.util.placement_group import placement_group, remove_placement_group

from jobs.configs import Resources
from jobs.errors import UserError
from jobs.events import Log, Note

ANSWER_S = 10.0
NODES_S = 900.0  # an autoscaler starts a machine in minutes
QUIET = {
    "RAY_DEDUP_LOGS": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
OWN_NAMESPACE = "attn-local"  # of a Ray that we started
TRAIN_TAB = {"RAY_TRAIN_ENABLE_STATE_TRACKING": "1"}  # trainings appear in the dashboard


def connect(
    address: str | None = None, *, cpus: float | None = None, object_store_gb: float = 2.0, dashboard: bool = False
) -> str:
    """Join the cluster at `address`, or the one in RAY_ADDRESS, or start a Ray on this machine for this process.

    A Ray that is started here ends with this process, however it ends. Returns the dashboard's address, or "".
    """
    if ray.is_initialized():
        return ""
    address = address or os.environ.get("RAY_ADDRESS")
    prefer(QUIET | TRAIN_TAB if address or dashboard else QUIET)
    try:
        if address:
            require_answer(address)
            context = ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        else:
            context = start_here(cpus, object_store_gb, dashboard)
        return f"http://{context.dashboard_url}" if context.dashboard_url else ""
    except UserError:
        raise
    except Exception as error:  # a bare one
        warnings.simplefilter("ignore", ResourceWarning)  # of processes that Ray itself ends at our exit
        wanted = f"The Ray cluster at {address} could not be reached" if address else "Ray did not start here"
        raise UserError(f"{wanted}: {str(error).splitlines()[0]} `attn doctor` says more.") from error


def prefer(settings: Mapping[str, str]) -> None:
    """Set what nobody has set yet."""
    os.environ.update({name: value for name, value in settings.items() if name not in os.environ})


def start_here(cpus: float | None, object_store_gb: float, dashboard: bool) -> Any:
    """Ray gives itself half a minute to start, which a very busy machine may exceed: once more before we give up."""
    for attempt in range(2):
        try:
            context = ray.init(
                address="local",
                num_cpus=int(cpus) if cpus else None,
                object_store_memory=int(object_store_gb * 2**30),
                include_dashboard=dashboard,
                log_to_driver=False,
                logging_level=logging.ERROR,
                namespace=OWN_NAMESPACE,
            )
            return context
        except Exception:
            ray.shutdown()
            if attempt:
                raise
    raise AssertionError("unreachable")


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


def may_grow() -> bool:
    """Whether nodes may be added when work waits for them. Only a Ray that we started is known to stay as it is: what
    the autoscaler of another cluster can bring, if it has one, is found out by asking it."""
    return str(ray.get_runtime_context().namespace) != OWN_NAMESPACE


def capacity(on: Resources) -> Mapping[str, float]:
    """What work may count on: what is there, or what the profile expects where that may come when it is asked for."""
    have = totals()
    if not may_grow():
        return have
    return {**have, "CPU": max(have.get("CPU", 0), on.cpus or 0), "GPU": max(have.get("GPU", 0), on.gpus or 0)}


def require_resources(what: str, bundles: Sequence[Mapping[str, float]], log: Log) -> None:
    """Have the cluster hold these bundles of resources, each on one node, before anything starts.

    What is there but in use is not our concern: Ray queues. What is not there at all is refused on a Ray of ours and
    asked of any other cluster's autoscaler, for a quarter of an hour.
    """
    missing = shortage(bundles)
    if not missing:
        return
    needs = f"{what} needs {missing}"
    if not may_grow():
        raise UserError(f"{needs}. Choose a smaller profile (--on) or add nodes.")
    log(Note(f"{needs}: waiting for nodes, which the cluster's autoscaler has been asked for."))
    demand = placement_group([{name: amount for name, amount in each.items() if amount} for each in bundles])
    try:
        if not demand.wait(NODES_S):
            raise UserError(
                f"{needs}, and no nodes came in {NODES_S / 60:.0f} minutes. Choose a smaller profile (--on)."
            )
    finally:
        remove_placement_group(demand)


def shortage(bundles: Sequence[Mapping[str, float]]) -> str:
    """What the whole cluster lacks of these, in words, or nothing."""
    have = totals()
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for name in ("CPU", "GPU"):
        need = sum(bundle.get(name, 0) for bundle in bundles)
        if need > have.get(name, 0):
            return f"{need:g} {name}s and the cluster has {have.get(name, 0):g}"
        at_once = max(bundle.get(name, 0) for bundle in bundles)
        largest = max(node.get(name, 0) for node in nodes)
        if at_once > largest:
            return f"{at_once:g} {name}s on one node and the largest has {largest:g}"
    return ""


def leave() -> None:
    """Let go of the cluster; a Ray that was started here ends."""
    if ray.is_initialized():
        ray.shutdown()
