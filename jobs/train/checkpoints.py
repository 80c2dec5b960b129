"""Checkpoints of a training run through Ray Train: reported by every rank, written by rank 0 off the training thread.

Ray Train keeps the list of a run's checkpoints and goes on from the last one in it. A checkpoint is
complete when it has its state.json, which is written last.

Writes  work/<run>/update-0001500/ and its like (see transformer/checkpoint.py)
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray.train
import ray.train.collective
import torch
from ray.train import Checkpoint, CheckpointUploadMode, Result
from torch.utils.hooks import RemovableHandle

from jobs.storage.artifacts import Artifact
from jobs.storage.object_store import resolve
from jobs.train.curve import Curve
from transformer import checkpoint
from transformer.config import TrainingConfig
from transformer.model import Transformer

RETENTION = "retention"  # the metric by which Ray Train keeps checkpoints: the highest, and always the newest


def directory_name(update: int) -> str:
    return f"update-{update:07d}"


def update_of(name: str) -> int:
    """1500 of update-0001500."""
    return int(name.rpartition("-")[2])


def retention(update: int, config: TrainingConfig) -> int:
    """0 for a checkpoint out of turn, saved because a node is about to go: it is not averaged, and goes first."""
    return update if update % config.checkpoint_every == 0 or update == config.steps else 0


class Saver:
    """Writes while training goes on; one checkpoint at a time, so that at most one snapshot is in memory."""

    def __init__(self, run: Artifact, rank: int, config: TrainingConfig) -> None:
        self.run = run
        self.rank = rank
        self.config = config
        self._idle = threading.Event()
        self._idle.set()
        self._wait: RemovableHandle | None = None  # of the optimiser, for the copies of the last snapshot

    def save(self, model: Transformer, optimizer: torch.optim.Optimizer, curve: Curve) -> None:
        """Called by every rank after the same update."""
        update = curve.standing.update
        name = directory_name(update)
        if self.rank > 0:
            ray.train.report({}, checkpoint_dir_name=name, checkpoint_upload_mode=CheckpointUploadMode.ASYNC)
            return
        self._idle.wait()
        self._idle.clear()
        taken = checkpoint.snapshot(model, optimizer, curve.standing.to_json(), curve.points)
        if self._wait is not None:
            self._wait.remove()
        self._wait = checkpoint.step_after(optimizer, taken.copied) if taken.copied is not None else None

        def write(place: Checkpoint, _name: str) -> Checkpoint:
            try:
                write_checkpoint(self.run.child(name), taken)
                return place
            finally:
                self._idle.set()

        ray.train.report(
            {**self._metrics(update), **(curve.points[-1] if curve.points else {}), "update": update},
            checkpoint=self._place(name),  # where `write` will put it
            checkpoint_dir_name=name,
            checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
            checkpoint_upload_fn=write,
            delete_local_checkpoint_after_upload=False,
        )

    def register_unknown(self) -> None:
        """Called by every rank: tell Ray Train of whole checkpoints later than the last one in its list, oldest first.

        One that was written just before a worker was lost may not have reached the list, or the list was torn. Each
        rank goes on from the last that it reported itself.
        """
        known = ray.train.get_checkpoint()
        last = known.path.rstrip("/").rpartition("/")[2] if known else ""
        found = whole_checkpoints(self.run) if self.rank == 0 else []
        for name in ray.train.collective.broadcast_from_rank_zero(found):
            if name > last:
                ray.train.report(
                    self._metrics(update_of(name)),
                    checkpoint=self._place(name),
                    checkpoint_dir_name=name,
                    checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD,
                )

    def _metrics(self, update: int) -> dict[str, Any]:
        return {"update": update, RETENTION: retention(update, self.config)}

    def _place(self, name: str) -> Checkpoint:
        store, path = resolve(self.run.at(name))
        return Checkpoint(path=path, filesystem=store)


def write_checkpoint(place: Artifact, taken: checkpoint.Snapshot) -> None:
    """Store a snapshot. Half of one that an earlier attempt left goes first; a whole one stays, and is as good.

    A worker that lost its cluster writes on for a while, and must not take away what another run goes on from.
    """
    if place.exists(checkpoint.STATE):
        return
    if place.exists():
        place.delete()
    if place.is_local:
        checkpoint.write(Path(place.uri), taken)
    else:
        with tempfile.TemporaryDirectory(prefix="attn-") as draft:
            checkpoint.write(Path(draft), taken)
            for file in checkpoint.FILES:
                place.publish(Path(draft) / file, file)


def whole_checkpoints(run: Artifact) -> list[str]:
    """Directories of the checkpoints that can be gone on from, oldest first, whether Ray Train knows them or not."""
    return sorted(name.partition("/")[0] for name in run.names() if name.endswith(f"/{checkpoint.STATE}"))


def discard_torn_list(run: Artifact) -> None:
    """Ray Train does not write its list atomically, so a killed driver may leave one that cannot be read: then its
    files go, and the workers register the checkpoints anew (`Saver.register_unknown`)."""
    store, path = resolve(run.uri)
    try:
        Result.from_path(path, storage_filesystem=store)
    except Exception:  # torn, missing, of another version of Ray, or naming a checkpoint that is gone
        for name in run.names():
            if "/" not in name:
                run.delete(name)


@contextmanager
def last_checkpoint() -> Iterator[Path | None]:
    """The newest checkpoint of this run as a local directory, or None at the beginning."""
    found: Checkpoint | None = ray.train.get_checkpoint()
    if found is None:
        yield None
        return
    with found.as_directory() as directory:
        yield Path(directory)
