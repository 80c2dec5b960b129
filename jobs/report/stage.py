"""The stage `report`: one page about the rows of a recipe."""

from __future__ import annotations

from jobs.stage import Stage

REPORT = Stage(name="report", job="jobs.report.job", publishes_files=True, describes_itself_only=True)
