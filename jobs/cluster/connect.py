"""Connect to a Ray cluster or start one on this machine, and check that it has the resources needed."""

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
from jobs.errors import UserError, reason_of
from jobs.events import Log, Note
from jobs.stage import Demand

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
    address: str | None = None,
    *,
    cpus: float | None = None,
    object_store_gb: float = 2.0,
    dashboard: bool = False,
    log_to_driver: bool = False,
) -> str:
    """Join the cluster at `address`, or the one in RAY_ADDRESS, or start a Ray on this machine for this process.

    A Ray that is started here ends with this process, however it ends. With `log_to_driver` this process prints what
    Ray and its workers say. Returns the dashboard's address, or "".
    """
    if ray.is_initialized():
        return ""
    address = address or os.environ.get("RAY_ADDRESS")
    set_defaults(QUIET | TRAIN_TAB if address or dashboard else QUIET)
    try:
        if address:
            require_reachable(address)
            level = logging.INFO if log_to_driver else logging.ERROR
            context = ray.init(address=address, log_to_driver=log_to_driver, logging_level=level)
        else:
            context = start_local(cpus, object_store_gb, dashboard)
        return f"http://{context.dashboard_url}" if context.dashboard_url else ""
    except UserError:
        raise
    except Exception as error:  # a bare one
        warnings.simplefilter("ignore", ResourceWarning)  # of processes that Ray itself ends at our exit
        wanted = f"The Ray cluster at {address} could not be reached" if address else "Ray did not start here"
        raise UserError(f"{wanted}: {str(error).splitlines()[0]} `attn doctor` says more.") from error


def dashboard_address(address: str | None) -> str:
    """Where the dashboard of a running Ray is; that of this machine if no address is given."""
    try:
        context = ray.init(address=address or "auto", log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        sentence = "No Ray is running here that others may join: `attn run ... --dashboard` starts one with a dashboard"
        raise UserError(f"{sentence} and prints its address; --address names a cluster.") from error
    try:
        if not context.dashboard_url:
            raise UserError("This Ray runs without a dashboard: `ray start --head` has one.")
        return f"http://{context.dashboard_url}"
    finally:
        ray.shutdown()


def set_defaults(settings: Mapping[str, str]) -> None:
    """Set environment variables that are not set."""
    os.environ.update({name: value for name, value in settings.items() if name not in os.environ})


def start_local(cpus: float | None, object_store_gb: float, dashboard: bool) -> Any:
    """Start a Ray on this machine, with a second attempt: its start has a limit that a busy machine may exceed."""
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


def require_reachable(address: str) -> None:
    """Refuse an address that does not answer: Ray itself would retry for minutes."""
    if address.startswith(("http://", "https://")):
        raise UserError(f"{address} is a job server: `attn submit RECIPE --address {address}` sends a recipe to it.")
    host, _, port = address.rpartition("://")[2].partition(":")
    if not port.isdigit():
        return  # "auto", "local": Ray's own words
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_S).close()
    except OSError as error:
        raise UserError(
            f"No Ray cluster answers at {address}: {reason_of(error)}. Is it running, and can this machine reach it?"
        ) from error


def cluster_resources() -> Mapping[str, float]:
    """CPUs, GPUs and memory of the whole cluster, now."""
    return {name: float(amount) for name, amount in ray.cluster_resources().items()}


def can_autoscale() -> bool:
    """Whether nodes may be added on demand. Known to be false only of a Ray that we started: of another cluster, an
    autoscaler's limits show when it is asked for nodes."""
    return str(ray.get_runtime_context().namespace) != OWN_NAMESPACE


def capacity(on: Resources) -> Mapping[str, float]:
    """CPUs and GPUs to schedule on: those of the cluster, or those of the profile where nodes may be added."""
    have = cluster_resources()
    if not can_autoscale():
        return have
    return {**have, "CPU": max(have.get("CPU", 0), on.cpus or 0), "GPU": max(have.get("GPU", 0), on.gpus or 0)}


def require_profile(on: Resources, demands: Sequence[Demand], have: Mapping[str, float]) -> None:
    """Refuse a profile that asks for more than a Ray that we started has, before anything is made."""
    lacking = lack(on, demands, have)
    if lacking and not can_autoscale():
        raise UserError(f"{lacking}. Choose a smaller profile (--on) or name a cluster (--address).")


def lack(on: Resources, demands: Sequence[Demand], have: Mapping[str, float]) -> str:
    """What is missing for the largest of these demands, in words; empty if nothing. GPUs first: they decide."""
    for name, needed in (
        ("GPU", max((demand.gpus for demand in demands), default=0)),
        ("CPU", max((demand.cpus for demand in demands), default=0)),
    ):
        if needed > have.get(name, 0):
            return f"The profile {on.name} needs {needed:g} {name}s and there are {have.get(name, 0):g}"
    return ""


def require_resources(what: str, bundles: Sequence[Mapping[str, float]], log: Log) -> None:
    """Check that the cluster has these bundles of resources, each on one node; in use or not, since Ray queues.

    Where they are missing: a UserError on a Ray that we started; elsewhere the autoscaler is asked for nodes, for at
    most NODES_S seconds.
    """
    missing = shortage(bundles)
    if not missing:
        return
    needs = f"{what} needs {missing}"
    if not can_autoscale():
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
    """What the cluster lacks of these, in words; empty if nothing."""
    have = cluster_resources()
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


def disconnect() -> None:
    """Disconnect; a Ray that was started here ends."""
    if ray.is_initialized():
        ray.shutdown()
