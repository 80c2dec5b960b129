"""A real HTTP server on loopback that serves files, and misbehaves on request: /how/name, with `how` from MISCHIEF."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

MISCHIEF = (
    *("good", "cuts", "cuts-once", "stalls", "drips", "slow", "lies-short", "lies-long", "wrong-file", "wrong-range"),
    *("no-ranges", "missing", "broken", "broken-once"),
)


class Mirror(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = root
        self.requests: list[tuple[str, str]] = []  # path and Range of each
        self.times: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()

    def url(self, path: str, how: str = "good") -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{how}/{path}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is what some of these tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version: ClassVar[str] = "HTTP/1.1"
    server: Mirror

    def log_message(self, format: str, *args: object) -> None: ...

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.at_once += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.at_once)
            self.server.requests.append((self.path, self.headers.get("Range", "")))
            self.server.times[self.path] += 1
        self.serve()

    def serve(self) -> None:
        _, how, path = self.path.split("/", 2)
        again = self.server.times[self.path] > 1
        if how == "missing" or (how == "broken" or (how == "broken-once" and not again)):
            return self.answer(404 if how == "missing" else 503, b"no")
        data = (self.server.root / path).read_bytes()
        if how == "wrong-file":
            data = b"<html>our server has moved</html>".ljust(len(data))
        if how == "lies-long":
            return self.answer(200, data, length=len(data) + 1_000)
        if how == "lies-short":
            return self.answer(200, data, length=len(data) - 1_000)
        begin = self.headers.get("Range", "")
        start = int(begin.removeprefix("bytes=").removesuffix("-")) if begin and how != "no-ranges" else 0
        if start >= len(data):
            return self.answer(416, b"")
        if how == "wrong-range":
            return self.answer(206, data[:500], {"Content-Range": f"bytes 0-499/{len(data)}"})
        spoil = how in ("cuts", "stalls", "drips", "slow") or (how == "cuts-once" and not again)
        extra = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if start else {}
        self.answer(206 if start else 200, data[start:], extra, spoil=how if spoil else "")

    def answer(
        self,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        *,
        length: int | None = None,
        spoil: str = "",
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        step = {"cuts": len(body) // 2 + 1, "cuts-once": len(body) // 2 + 1, "stalls": 100, "drips": 10}
        size = step.get(spoil, len(body) // 10 + 1 if spoil == "slow" else max(1, len(body)))
        for start in range(0, len(body), size):
            if start and spoil:
                time.sleep(3 if spoil == "stalls" else 0.05)
            if start and spoil.startswith("cuts"):
                break
            if start + size >= len(body):  # the client may be back before we are told that the last byte is gone
                self.over()
            self.wfile.write(body[start : start + size])
            self.wfile.flush()
        else:
            return
        self.over()  # cut off

    def over(self) -> None:
        with self.server.lock:
            self.server.at_once -= 1


@contextmanager
def serving(root: Path) -> Iterator[Mirror]:
    mirror = Mirror(root)
    thread = threading.Thread(target=mirror.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield mirror
    finally:
        mirror.shutdown()
        mirror.server_close()
        thread.join()
