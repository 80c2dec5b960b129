"""Ray Train's own list of a run's checkpoints: which there are, and how to mend it.

Ray Train restores what its snapshot file lists, and only that. It does not write the file atomically, so a killed
driver may leave it torn; the checkpoints themselves say whether they are whole (state.json comes last). Loads no torch.

Reads, writes   work/<run>/checkpoint_manager_snapshot.json
"""

from __future__ import annotations

from typing import Any

import ray

from jobs.artifacts import Artifact

SNAPSHOT = "checkpoint_manager_snapshot.json"
STATE = "state.json"  # as in transformer/checkpoint.py


def checkpoint_names(run: Artifact) -> list[str]:
    """Directories of the checkpoints that the run has, oldest first."""
    if not run.exists(SNAPSHOT):
        return []
    return sorted(entry["checkpoint_dir_name"] for entry in run.read_json(SNAPSHOT)["checkpoint_results"])


def update_of(name: str) -> int:
    """1500 of update-0001500."""
    return int(name.rpartition("-")[2])


def mend(run: Artifact) -> None:
    """Before a run goes on: a snapshot that Ray Train could not read is written anew from the whole checkpoints."""
    if not run.exists(SNAPSHOT):
        return
    whole = sorted(name.split("/")[0] for name in run.names() if name.endswith(f"/{STATE}"))
    try:
        torn = not set(checkpoint_names(run)) <= set(whole)
    except (ValueError, KeyError):
        torn = True
    if torn:
        run.write_json(SNAPSHOT, snapshot_of(whole))


def snapshot_of(names: list[str]) -> dict[str, Any]:
    """What Ray Train writes for these checkpoints, oldest first."""
    results = [{"version": 0, "checkpoint_dir_name": name, "metrics": {"update": update_of(name)}} for name in names]
    return {
        "ray_version": ray.__version__,
        "checkpoint_results": results,
        "checkpoint_report_indices": list(range(len(results))),
        "latest_checkpoint_result": results[-1] if results else None,
        "pending_training_results": [],
        "pending_validation_specs": [],
        "current_report_index": len(results),
        "validated_checkpoint_dir_names": [],
        "timed_out_validation_checkpoint_dir_names": [],
        "failed_validation_checkpoint_dir_names": [],
    }
