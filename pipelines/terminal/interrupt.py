"""Ctrl-C ends a command within two seconds, whatever its main thread waits for: a library that is being loaded, a
store or a server that does not answer.

Python tells the main thread of a signal only between two of its own instructions. The signal itself writes a byte into
a pipe at once; a thread reads it, and ends the process where the main thread has not.
"""

from __future__ import annotations

import os
import signal
import threading
import time

GRACE_S = 1.5
INTERRUPTED = 128 + signal.SIGINT
_orderly = threading.Event()


def end_soon() -> None:
    """From now on Ctrl-C ends this process after GRACE_S at the latest."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reading,), name="ctrl-c", daemon=True).start()


def end_in_order() -> None:
    """The main thread knows of Ctrl-C and is bringing things to an end: it may take its time."""
    _orderly.set()


def _watch(reading: int) -> None:
    while number := os.read(reading, 1):
        if number[0] == signal.SIGINT:
            time.sleep(GRACE_S)
            if not _orderly.is_set():
                os._exit(INTERRUPTED)
