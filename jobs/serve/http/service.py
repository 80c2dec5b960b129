"""What every way in shares: who calls, which model, how to search, how long it may take, what is counted and logged."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol

from starlette.requests import Request

from jobs.serve.http.admission import AGAIN, Admission, Refused
from jobs.serve.http.fields import number_field, read_fields, text_field, whole_field
from jobs.serve.http.metrics import ServeMetrics
from jobs.serve.settings import ServedModel, ServeSettings
from jobs.serve.text_pieces.spans import spans
from jobs.serve.text_pieces.whole_text import (
    Alternatives,
    SentenceResult,
    TextResult,
    clean,
    joined,
    translate_sentences,
    translate_text,
    warnings,
)
from transformer.config import SearchConfig
from transformer.parsing.parser import SEARCH

MOST_BEAM = 16
USUAL = SearchConfig()
log = logging.getLogger("ray.serve")


class Models(Protocol):
    """Where sentences are translated: jobs/serve/gateway.py, or an engine of this process in a test."""

    metrics: ServeMetrics

    async def translate(self, model: str, sentences: Sequence[str], search: SearchConfig) -> list[Alternatives]: ...
    async def attention(self, model: str, source: str, target: str | None) -> dict[str, Any]: ...
    def stream(self, model: str, sentence: str, search: SearchConfig) -> AsyncIterator[dict[str, Any]]: ...


class Service:
    """The state of one replica of the API."""

    def __init__(self, settings: ServeSettings, models: Models) -> None:
        self.settings = settings
        self.models = models
        self.metrics = models.metrics
        self.admission = Admission(settings)
        self.deadlines: set[asyncio.Timeout] = set()  # of the requests that are being answered
        self.by_name = {model.name: model for model in settings.models}
        self.translators = [model for model in settings.models if not model.parses]

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """One of the places for requests, held until the request is answered, or timed out."""
        limit = self.settings.limits.timeout_s
        try:
            with self.admission.place():
                self.metrics.inside.set(self.admission.inside)
                async with asyncio.timeout(limit) as deadline:
                    self.deadlines.add(deadline)
                    try:
                        yield
                    finally:
                        self.deadlines.discard(deadline)
        except TimeoutError:
            if self.admission.closed:
                raise Refused(503, f"The service stops, and had no time for this. {AGAIN}", 1) from None
            raise Refused(504, f"This took longer than {limit:g} s and was given up.") from None
        finally:
            self.metrics.inside.set(self.admission.inside)

    @contextlib.asynccontextmanager
    async def request(self, request: Request) -> AsyncIterator[dict[str, Any]]:
        """The fields of a request that is let in."""
        async with self.place():
            fields = await read_fields(request, self.settings.limits.body_bytes)
            self.admission.count(self.admission.caller(key_of(request, fields)))
            if self.settings.log_text:
                log.warning("%s %s", request.url.path, fields | {"api_key": None})
            yield fields

    async def drain(self, seconds: float) -> None:
        """Let nobody else in, and return when all requests are answered: with a sentence, those that take longer."""
        self.admission.closed = True
        until = time.monotonic() + seconds
        while self.admission.inside and time.monotonic() < until:
            await asyncio.sleep(0.05)
        for deadline in self.deadlines:
            deadline.reschedule(asyncio.get_running_loop().time())
        while self.admission.inside and time.monotonic() < until + 1:
            await asyncio.sleep(0.05)

    def model_named(self, name: str) -> ServedModel:
        if name not in self.by_name:
            raise Refused(400, f"There is no model {name[:80]!r} here: there are {', '.join(self.by_name)}.")
        return self.by_name[name]

    def model_for(self, source: str, target: str) -> ServedModel:
        """The first model of a language pair."""
        for model in self.translators:
            if (model.source, model.target) == (source, target):
                return model
        pairs = ", ".join(sorted({f"{model.source} to {model.target}" for model in self.translators}))
        there = f"there is {pairs}" if pairs else "the models here parse, and /v1/translate asks them"
        raise Refused(400, f"{source[:20]} to {target[:20]} is not translated here: {there}.")

    def search(self, fields: Mapping[str, Any], model: ServedModel) -> SearchConfig:
        """What the paper has for this kind of model, and what the request changes of it."""
        usual = SEARCH if model.parses else USUAL
        most = max(MOST_BEAM, usual.beam)
        n_best = whole_field(fields, "n_best", 1, 1, MOST_BEAM)
        beam = whole_field(fields, "beam", max(usual.beam, n_best), 1, most)
        alpha = number_field(fields, "alpha", usual.alpha, 0.0, 5.0)
        if n_best > beam:
            raise Refused(400, f"n_best must be from 1 to the beam ({beam}).")
        return search_config(usual, beam, alpha, n_best)

    async def translate(self, model: ServedModel, text: str, html: bool, search: SearchConfig) -> TextResult:
        calls = ModelCalls(self.models, model.name)
        if model.parses:
            parts = spans(clean(text), html)
            results = await self.sentences(model, [part.text for part in parts if part.translate], search)
            whole = await joined(parts, results, calls.sentences, calls.attention)
            return TextResult(whole, (), tuple(results), warnings(results))
        result = await translate_text(text, html, search, calls.sentences, calls.attention)
        self.metrics.loops.labels(model.name).inc(sum(sentence.loops for sentence in result.sentences))
        return result

    async def sentences(self, model: ServedModel, sources: list[str], search: SearchConfig) -> list[SentenceResult]:
        """Each sentence's translations. A tree is over all words of its sentence: nothing is lost, nothing put back."""
        calls = ModelCalls(self.models, model.name)
        if model.parses:
            found = await calls.sentences(sources, search)
            return [SentenceResult(source, some, trees=True) for source, some in zip(sources, found, strict=True)]
        return await translate_sentences(sources, search, calls.sentences, calls.attention)


@lru_cache(maxsize=256)  # a config checks itself: once for each kind of request, not for each request
def search_config(usual: SearchConfig, beam: int, alpha: float, n_best: int) -> SearchConfig:
    return replace(usual, beam=beam, alpha=alpha, n_best=n_best)


class ModelCalls:
    """A model's translations and attention, for a text that is put together here."""

    def __init__(self, models: Models, name: str) -> None:
        self.models, self.name = models, name

    async def sentences(self, some: Sequence[str], how: SearchConfig) -> list[Alternatives]:
        return await self.models.translate(self.name, some, how)

    async def attention(self, source: str, target: str) -> dict[str, Any]:
        return await self.models.attention(self.name, source, target)


def key_of(request: Request, fields: Mapping[str, Any]) -> str | None:
    """The API key of a request: as LibreTranslate has it, or as a header."""
    if fields.get("api_key"):
        return text_field(fields, "api_key")
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key")


class Timing:
    """ASGI around the whole application: counts each request's status and time by its route, never by its text."""

    def __init__(self, app: Any, metrics: ServeMetrics, paths: frozenset[str]) -> None:
        self.app, self.metrics, self.paths = app, metrics, paths

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500
        path = scope["path"] if scope["path"] in self.paths else "other"

        async def watched(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watched)
        finally:
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.latency.labels(path).observe(time.perf_counter() - started)
