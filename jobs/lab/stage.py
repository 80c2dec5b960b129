"""The stage `lab`: one experiment, measured and judged."""

from __future__ import annotations

from jobs.configs import Resources
from jobs.stage import Estimate, Lineage, Stage


def no_estimate(lineage: Lineage, on: Resources) -> Estimate | None:
    """What an experiment takes depends on all of its settings; `attn lab` lists the minutes of the full ones."""
    return None


LAB = Stage(name="lab", version=3, job="jobs.lab.job", estimate=no_estimate, publishes_files=True)
