"""Checks on the cluster itself, before a run: does every node see the workspace, does MLflow answer?

Run as a job of its own:   python -m jobs.cluster.submit.preflight WORKSPACE [MLFLOW]
Prints one line that begins with MARK and goes on in JSON, for client.py. Leaves nothing behind in the
workspace.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from jobs.cluster.connect import connect
from jobs.errors import UserError
from jobs.storage.artifacts import Artifact

MARK = "attn-preflight "
NEEDED = ("torch", "mlflow", "pyarrow", "sentencepiece", "sacrebleu", "safetensors", "rich", "jinja2")
TIMEOUT_S = 60.0  # for all nodes to answer


def missing_libraries() -> list[str]:
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def tracking_problem(address: str) -> str:
    """Empty if MLflow answers at that address, else why not."""
    if not address.startswith(("http://", "https://")):
        return ""
    try:
        with urllib.request.urlopen(f"{address.rstrip('/')}/health", timeout=10) as answer:
            return "" if answer.status == 200 else f"it answered with status {answer.status}"
    except (urllib.error.URLError, OSError, ValueError) as error:
        return str(getattr(error, "reason", error))


def check_node(workspace: str, mark: str, node: str, tracking: str) -> Mapping[str, str]:
    """From one node: read what the driver wrote, write what the driver will read, and ask MLflow for its health."""
    place = Artifact(workspace)
    try:
        seen = place.read_text(f".preflight-{mark}/driver") == mark
        place.write_text(f".preflight-{mark}/{node}", node)
        trouble = "" if seen else "it has another content there"
    except FileNotFoundError:
        trouble = "what the head wrote is not there: this node does not share it"
    except (OSError, UserError) as error:
        trouble = str(error)
    return {"node": node, "workspace": trouble, "tracking": tracking_problem(tracking)}


def check_nodes(workspace: str, tracking: str) -> list[Mapping[str, str]]:
    """The result of `check_node` on every node; of the driver alone if it cannot write the workspace."""
    place, mark = Artifact(workspace), uuid.uuid4().hex
    try:
        place.write_text(f".preflight-{mark}/driver", mark)
    except (OSError, UserError) as error:
        return [{"node": "the head", "workspace": str(error), "tracking": tracking_problem(tracking)}]
    try:
        task = ray.remote(num_cpus=0, max_retries=0)(check_node)
        nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
        tasks = {
            task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(
                workspace, mark, node, tracking
            ): node
            for node in nodes
        }
        ready, late = ray.wait(list(tasks), num_returns=len(tasks), timeout=TIMEOUT_S)
        found: list[Mapping[str, str]] = [{**ray.get(one), "node": nodes[tasks[one]]} for one in ready]
        for answer, one in zip(found, ready, strict=True):
            if not answer["workspace"] and not place.exists(f".preflight-{mark}/{tasks[one]}"):
                found[found.index(answer)] = {**answer, "workspace": "what it wrote is not there for the head"}
        return found + [{"node": nodes[tasks[one]], "workspace": "it did not answer", "tracking": ""} for one in late]
    finally:
        place.delete(f".preflight-{mark}")


def main(arguments: Sequence[str]) -> int:
    workspace, tracking = [*arguments, ""][:2]
    report: dict[str, Any] = {"python": sys.version.split()[0], "missing": missing_libraries(), "nodes": []}
    if not report["missing"]:
        connect()
        report["nodes"] = check_nodes(workspace, tracking)
    print(MARK + json.dumps(report), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
