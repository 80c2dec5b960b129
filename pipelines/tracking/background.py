"""One thread that carries out writes to MLflow in order, waiting out a server's absence so that training need not."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from mlflow.exceptions import MlflowException

PATIENCE_S = 60.0  # at the end, wait so long for an absent server


class BackgroundWriter:
    """One thread that carries out writes in order, and again until they succeed."""

    def __init__(self) -> None:
        self.todo: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self.closing = threading.Event()
        self.answered = 0.0  # when the server last took something; waiting for it to end counts from then
        self.lost = 0
        self.thread = threading.Thread(target=self._work, daemon=True, name="mlflow")
        self.thread.start()

    def later(self, act: Callable[[], None]) -> None:
        self.todo.put(act)

    def _work(self) -> None:
        while (act := self.todo.get()) is not None:
            try:
                self._insist(act)
                self.answered = time.time()
            except (MlflowException, OSError) as error:
                self.lost += 1
                print(f"MLflow did not take a write: {error}", flush=True)

    def _insist(self, act: Callable[[], None]) -> None:
        """Until it is done, or refused, or nobody is left to wait for it."""
        pause = 0.5
        while not self._waited_enough():
            try:
                return act()
            except MlflowException as error:
                if error.get_http_status_code() < 500:
                    raise
            except OSError:
                pass
            if self.closing.wait(pause):
                time.sleep(1.0)
            pause = min(10.0, 2 * pause)
        raise TimeoutError("the server stayed away")

    def _waited_enough(self) -> bool:
        return self.closing.is_set() and time.time() - self.answered > PATIENCE_S

    def close(self, at_most: float | None = None) -> int:
        """Write what is left, however much, as long as somebody takes it; the number of writes that were given up."""
        self.answered = time.time()
        self.closing.set()
        self.todo.put(None)
        self.thread.join(at_most)
        return self.lost + (self.todo.qsize() if self.thread.is_alive() else 0)
