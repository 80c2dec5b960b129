"""Our own API beside LibreTranslate's: n-best with scores, every step of the search, attention, words as they come."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from jobs.serve.http.admission import Refused
from jobs.serve.http.fields import choice_field, flag_field, text_field
from jobs.serve.http.metrics import CONTENT_TYPE
from jobs.serve.http.schemas import V1_ATTENTION, V1_TRANSLATE, described
from jobs.serve.http.service import ModelCalls, Service, key_of
from jobs.serve.settings import LANGUAGE_NAMES, ServedModel
from jobs.serve.text_pieces.spans import spans
from jobs.serve.text_pieces.whole_text import (
    SentenceResult,
    clean,
    joined,
    warnings,
    with_protected_kept,
)
from jobs.serve.trees import picture, tree_of

SEARCHES_SHOWN = 12  # sentences of a text whose search is shown; those behind them are translated in batches
SENTENCE = 1_000  # characters of a sentence whose attention is asked for


def router(service: Service) -> APIRouter:
    """/v1/translate, /v1/attention, /v1/models and /metrics."""
    routes = APIRouter(tags=["attn"])

    @routes.post(
        "/v1/translate", summary="Translate, with scores, search and attention", openapi_extra=described(V1_TRANSLATE)
    )
    async def translate(request: Request) -> Response:
        streamed = "text/event-stream" in request.headers.get("accept", "")
        async with contextlib.AsyncExitStack() as held:
            fields = await held.enter_async_context(service.request(request))
            wanted = TranslateRequest(service, fields)
            if streamed or flag_field(fields, "stream"):
                return StreamingResponse(
                    events(service, wanted), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
                )
            return JSONResponse(await whole(service, wanted))

    @routes.post("/v1/attention", summary="Who looks at whom in one sentence", openapi_extra=described(V1_ATTENTION))
    async def attention(request: Request) -> JSONResponse:
        async with service.request(request) as fields:
            source, target = clean(text_field(fields, "source")), fields.get("target")
            if target is not None:
                target = clean(text_field(fields, "target"))
            if not source.strip() or max(len(source), len(target or "")) > SENTENCE:
                raise Refused(
                    413 if source.strip() else 400, f"source must be one sentence of up to {SENTENCE} characters."
                )
            model = service.model_named(text_field(fields, "model", service.settings.models[0].name))
            if model.parses and target is not None:
                require_tree(target)
            return JSONResponse(await service.models.attention(model.name, source, target))

    @routes.get("/v1/models", summary="Which models there are")
    async def models() -> JSONResponse:
        return JSONResponse([about(model) for model in service.settings.models])

    @routes.get("/metrics", summary="Figures for Prometheus")
    async def metrics(request: Request) -> Response:
        service.admission.caller(key_of(request, dict(request.query_params)))
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    return routes


def about(model: ServedModel) -> dict[str, Any]:
    """A model as its users see it: not where it lies."""
    return {
        "name": model.name,
        "source": {"code": model.source, "name": LANGUAGE_NAMES.get(model.source, model.source)},
        "target": {"code": model.target, "name": LANGUAGE_NAMES.get(model.target, model.target)},
        "engine": model.engine,
    }


def require_tree(text: str) -> None:
    try:
        tree_of(text)
    except ValueError as error:
        raise Refused(400, str(error)) from error


class TranslateRequest:
    """A checked request to /v1/translate."""

    def __init__(self, service: Service, fields: dict[str, Any]) -> None:
        self.text = clean(text_field(fields, "text"))
        service.admission.check_size([self.text])
        self.model = service.model_named(text_field(fields, "model", service.settings.models[0].name))
        self.html = choice_field(fields, "format", ("text", "html")) == "html"
        if self.html and self.model.parses:
            raise Refused(400, f"{self.model.name} parses text: format must be text.")
        self.search = service.search(fields, self.model)
        self.attention = flag_field(fields, "attention")
        self.steps = flag_field(fields, "search")
        self.picture = flag_field(fields, "picture") and self.model.parses


async def whole(service: Service, wanted: TranslateRequest) -> dict[str, Any]:
    """The answer at once."""
    started = time.perf_counter()
    result = await service.translate(wanted.model, wanted.text, wanted.html, wanted.search)
    sentences = []
    for number, sentence in enumerate(result.sentences):
        found = described_sentence(sentence)
        if number < SEARCHES_SHOWN and wanted.attention:
            found["attention"] = await service.models.attention(
                wanted.model.name, sentence.source, sentence.alternatives[0].text
            )
        if number < SEARCHES_SHOWN and wanted.picture:
            found["picture"] = picture(sentence.alternatives[0].text)
        if number < SEARCHES_SHOWN and wanted.steps:
            async for event in service.models.stream(wanted.model.name, sentence.source, wanted.search):
                found["search"] = event.get("steps")
        sentences.append(found)
    return {
        "model": wanted.model.name,
        "translation": result.text,
        "alternatives": list(result.alternatives),
        "sentences": sentences,
        "warnings": list(result.warnings),
        "seconds": round(time.perf_counter() - started, 4),
    }


def described_sentence(sentence: SentenceResult) -> dict[str, Any]:
    best = sentence.alternatives[0]
    return {
        "source": sentence.source,
        "translation": best.text,
        "score": round(best.score, 4),
        "tokens": best.tokens,
        "alternatives": [asdict(each) | {"score": round(each.score, 4)} for each in sentence.alternatives],
        "loops": sentence.loops,
        "repaired": sentence.repaired,
    }


def event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


async def events(service: Service, wanted: TranslateRequest) -> AsyncIterator[str]:
    """The answer as it is made: `start`, then for each sentence `words` many times and `sentence`, at last `done`."""
    started = time.perf_counter()
    parts, calls = spans(wanted.text, wanted.html), ModelCalls(service.models, wanted.model.name)
    start = {"model": wanted.model.name, "beam": wanted.search.beam, "alpha": wanted.search.alpha}
    yield event("start", {**start, "spans": [[part.text, part.translate] for part in parts]})
    results: list[SentenceResult] = []
    sources = [part.text for part in parts if part.translate]
    try:
        async with service.place():
            for number, source in enumerate(sources[:SEARCHES_SHOWN]):
                async for found in sentence_events(service, wanted, source):
                    if isinstance(found, str):
                        yield event("words", {"sentence": number, "text": found})
                    else:
                        result, steps = found
                        results.append(result)
                        extra = {"search": steps} if wanted.steps else {}
                        if wanted.picture:
                            extra["picture"] = picture(result.alternatives[0].text)
                        yield event("sentence", {"sentence": number, **described_sentence(result), **extra})
            for result in await service.sentences(wanted.model, sources[SEARCHES_SHOWN:], wanted.search):
                results.append(result)
                yield event("sentence", {"sentence": len(results) - 1, **described_sentence(result)})
        yield event(
            "done",
            {
                "translation": await joined(parts, results, calls.sentences, calls.attention),
                "warnings": list(warnings(results)),
                "seconds": round(time.perf_counter() - started, 4),
            },
        )
    except Refused as refused:
        yield event("error", {"error": refused.sentence})


async def sentence_events(
    service: Service, wanted: TranslateRequest, source: str
) -> AsyncIterator[str | tuple[SentenceResult, Any]]:
    """One sentence: its words as they come, then its translations and every step of the search."""
    wide = replace(wanted.search, n_best=wanted.search.beam)
    async for found in service.models.stream(wanted.model.name, source, wide):
        if "text" in found:
            yield found["text"]
            continue
        kept = found["alternatives"] if wanted.model.parses else with_protected_kept(source, found["alternatives"])
        if kept is None:
            (result,) = await service.sentences(wanted.model, [source], wanted.search)
        else:
            result = SentenceResult(source, kept[: wanted.search.n_best], trees=wanted.model.parses)
        yield result, found["steps"]
