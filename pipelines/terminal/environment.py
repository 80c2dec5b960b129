"""What the libraries we use are told before they are loaded: call nobody, and listen to nobody else.

Ray's workers have the environment of the process that starts Ray. This must run before Ray and MLflow are imported:
both read these variables once.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

SILENT = {  # where the user has not set them
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "RAY_USAGE_STATS_ENABLED": "0",
}
OWN_RAY = {  # whatever the environment says
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # a Ray of one machine: its ports are those of the loopback device
    "RAY_AUTH_MODE": "token",
}


def call_nobody() -> None:
    for name, value in SILENT.items():
        os.environ.setdefault(name, value)


def keep_ray_private() -> None:
    """For a Ray that is started here and ends with us: on the loopback device only, and with a token that no other
    user of this machine can read."""
    os.environ.update(OWN_RAY)
    if os.environ.get("RAY_AUTH_TOKEN"):
        return
    file = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    with contextlib.suppress(OSError):  # Ray itself says what is wrong with it
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            file.chmod(0o600)
        else:
            with os.fdopen(handle, "w") as made:
                made.write(secrets.token_hex(32))
