"""What the libraries we use are told before they are loaded: call nobody, and keep to themselves.

Set only where the user has not. Ray's workers have the environment of the process that starts Ray.
"""

from __future__ import annotations

import os

SILENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


def call_nobody() -> None:
    for name, value in SILENT.items():
        os.environ.setdefault(name, value)
