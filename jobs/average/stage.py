"""The stage `average`: the last checkpoints as one model directory."""

from __future__ import annotations

from jobs.stage import Stage

AVERAGE = Stage(name="average", job="jobs.average.job", is_model=True)
