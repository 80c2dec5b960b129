"""The stage `lab_page`: one page about the experiments of the lab."""

from __future__ import annotations

from jobs.stage import Stage

LAB_PAGE = Stage(name="lab_page", job="jobs.lab_page.job", publishes_files=True, describes_itself_only=True)
