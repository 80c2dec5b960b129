"""A real MLflow server on loopback, which may go away and come back."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from survival_cluster import end_all, free_port, wait_for


@dataclass
class TrackingServer:
    directory: Path  # of mlflow.db
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        store = [
            f"--backend-store-uri=sqlite:///{self.directory}/mlflow.db",
            f"--artifacts-destination={self.directory}/artifacts",
        ]
        command = [sys.executable, "-m", "mlflow", "server", *store, f"--port={self.port}", "--workers=1"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self.answers, "the tracking server")

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        if self.process is not None:
            end_all(self.process)
        self.process = None


@contextmanager
def serving(directory: Path) -> Iterator[TrackingServer]:
    server = TrackingServer(directory, free_port())
    try:
        server.start()
        yield server
    finally:
        server.stop()
