"""Who is let in, and how much: keys, requests per minute, requests at once, the size of a body.

`Refused` is an HTTP status and a sentence. The counts are those of one replica of the API.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

from jobs.serve.http.keys import digest
from jobs.serve.settings import ServeSettings

DISCARDED = 16_000_000  # bytes of a body that is too large, read before it is refused
AGAIN = "Try again."
KEPT = 10_000  # callers whose rate is remembered
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Refused(Exception):
    """A request that is not served: an HTTP status, a sentence, and in how many seconds to try again."""

    def __init__(self, status: int, sentence: str, retry_after_s: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.retry_after_s = retry_after_s


class Admission:
    """Lets requests in one by one. `clock` is in seconds."""

    def __init__(self, settings: ServeSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.keys = settings.keys
        self.limits = settings.limits
        self.clock = clock
        self.inside = 0
        self.closed = False  # the service stops
        self.buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # caller: (requests left, when)

    def caller(self, key: str | None) -> str:
        """The owner of a key. Everybody is the same caller where no keys are needed."""
        if self.keys is None:
            return "anyone"
        if not key:
            raise Refused(403, "This service needs an API key: send it as api_key or as a bearer token.")
        owner = self.keys.get(digest(key))
        if owner is None:
            raise Refused(403, "This API key is not known here.")
        return owner

    def count(self, caller: str) -> None:
        """Take one from the caller's bucket, which holds a minute's requests and fills evenly."""
        per_minute = self.limits.requests_per_minute
        if per_minute is None:
            return
        now = self.clock()
        left, since = self.buckets.pop(caller, (float(per_minute), now))
        left = min(float(per_minute), left + (now - since) * per_minute / 60)
        self.buckets[caller] = (max(left - 1, left if left < 1 else 0), now)
        if len(self.buckets) > KEPT:
            self.buckets.popitem(last=False)
        if left < 1:
            wait = math.ceil((1 - left) * 60 / per_minute)
            raise Refused(429, f"Too many requests: {per_minute} a minute are allowed. Try again in {wait} s.", wait)

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """One of the places for requests at once, for as long as the request takes."""
        if self.closed:
            raise Refused(503, f"The service stops. {AGAIN}", 1)
        if self.inside >= self.limits.concurrent:
            raise Refused(503, f"The service is full: {self.inside} requests are being answered. {AGAIN}", 1)
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    def check_size(self, texts: list[str]) -> None:
        if len(texts) > self.limits.texts:
            raise Refused(413, f"{len(texts)} texts in one request are too many: {self.limits.texts} are allowed.")
        characters = sum(map(len, texts))
        if characters > self.limits.characters:
            raise Refused(
                413, f"{characters:,} characters in one request are too many: {self.limits.characters:,} are allowed."
            )


async def read_body(headers: Any, receive: Receive, most: int) -> bytes:
    """The body of a request, if it is not larger than it may be. What is too much is not kept, but read for a while:
    most clients send all of it before they look at an answer."""
    too_large = Refused(413, f"The body of this request is too large: {most:,} bytes are allowed.")
    declared = headers.get("content-length", "")
    if declared.isdigit() and int(declared[:20]) > most + DISCARDED:
        raise too_large
    body, discarded = bytearray(), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "The request ended before its body did.")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if discarded or len(body) > most:
            discarded += len(body)
            body.clear()
            if not more or discarded > most + DISCARDED:
                raise too_large
        elif not more:
            return bytes(body)
