"""The stage `score`: every figure of one model on one test set."""

from __future__ import annotations

from jobs.stage import Stage

SCORE = Stage(name="score", job="jobs.score.job", judges_model=True, publishes_files=True)
