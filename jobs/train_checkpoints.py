"""Checkpoints of a training run through Ray Train: reported by every rank, written by rank 0 off the training thread.

Writes  work/<run>/update-0001500/ and its like (see transformer/checkpoint.py)
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ray
import ray.train
import torch
from ray.train import Checkpoint, CheckpointUploadMode

from jobs.artifacts import Artifact
from jobs.object_store import resolve
from jobs.train_curve import Curve
from transformer import checkpoint
from transformer.model import Transformer


class Saver:
    """Writes while the next update computes its gradient; one checkpoint at a time."""

    def __init__(self, run: Artifact, rank: int) -> None:
        self.run = run
        self.rank = rank
        self._idle = threading.Event()
        self._idle.set()
        self._taken: checkpoint.Snapshot | None = None

    def settle(self) -> None:
        """Called before weights change: wait, if need be, until those of the last checkpoint are written."""
        if self._taken is not None:
            self._taken.written.wait()
            self._taken = None

    def save(self, model: Transformer, optimizer: torch.optim.Optimizer, curve: Curve) -> None:
        """Called by every rank after the same update."""
        update = curve.standing.update
        name = f"update-{update:07d}"
        if self.rank > 0:
            ray.train.report({}, checkpoint_dir_name=name, checkpoint_upload_mode=CheckpointUploadMode.ASYNC)
            return
        self._idle.wait()
        self._idle.clear()
        taken = self._taken = checkpoint.snapshot(model, optimizer, curve.standing.to_json(), curve.points)

        def write(place: Checkpoint, _name: str) -> Checkpoint:
            try:
                write_checkpoint(self.run.child(name), taken)
                return place
            finally:
                taken.written.set()
                self._idle.set()

        store, path = resolve(self.run.at(name))

        ray.train.report(
            {"update": update},
            checkpoint=Checkpoint(path=path, filesystem=store),  # where `write` will put it
            checkpoint_dir_name=name,
            checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
            checkpoint_upload_fn=write,
            delete_local_checkpoint_after_upload=False,
        )


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


@contextmanager
def last_checkpoint() -> Iterator[Path | None]:
    """The newest checkpoint of this run as a local directory, or None at the beginning."""
    found = ray.train.get_checkpoint()
    if found is None:
        yield None
        return
    with found.as_directory() as directory:
        yield Path(directory)
