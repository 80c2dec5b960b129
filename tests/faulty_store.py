"""A real HTTP proxy in front of an S3 server, which stumbles as object stores do: 500s, 503s, slowness, cut lines."""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
BROKEN = b"<?xml version='1.0'?><Error><Code>InternalError</Code><Message>We encountered an error.</Message></Error>"

OWN = ("content-length", "transfer-encoding", "connection")  # headers of one connection, not of what is sent


class FaultyStore:
    """Which requests go wrong, and how. Counted, so that a test can tell that it tested something."""

    def __init__(self) -> None:
        self.every = 0  # one request of so many goes wrong; 0: none
        self.down = False  # all of them do
        self.delay = 0.0  # seconds before each answer
        self.faults = 0
        self._requests = itertools.count(1)

    def fault(self) -> int:
        """0, 500, 503, or 1: the line is cut."""
        number = next(self._requests)
        if self.down or (self.every and number % self.every == 0):
            self.faults += 1
            return 503 if self.down else (500, 503, 1)[self.faults % 3]
        return 0


@contextmanager
def in_front_of(host: str, port: int) -> Iterator[tuple[FaultyStore, int]]:
    """The store that stumbles, and the port where it is."""
    store = FaultyStore()

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.body()
            time.sleep(store.delay)
            fault = store.fault()
            if fault == 1:
                self.close_connection = True
                return
            if fault:
                self.answer(fault, [("Content-Type", "application/xml")], SLOW_DOWN if fault == 503 else BROKEN)
                return
            behind = http.client.HTTPConnection(host, port, timeout=60)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in OWN}
            behind.request(self.command, self.path, body, headers)
            answer = behind.getresponse()
            self.answer(answer.status, answer.getheaders(), answer.read())
            behind.close()

        def body(self) -> bytes:
            if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass  # trailers
            return b"".join(parts)

        def answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            sizes = [value for name, value in headers if name.lower() == "content-length"]
            for name, value in headers:
                if name.lower() not in OWN:
                    self.send_header(name, value)
            size = sizes[0] if self.command == "HEAD" and sizes else str(len(body))
            self.send_header("Content-Length", size)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = pass_on

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield store, server.server_port
        finally:
            server.shutdown()
