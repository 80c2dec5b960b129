"""LibreTranslate's HTTP API, so that what people already have works: its clients, plug-ins and scripts.

Bodies are JSON, forms or query parameters; of the two Python clients one sends forms and the other query parameters
with an empty body. Answers and errors have LibreTranslate's shape.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse

from jobs.serve.http.admission import Refused
from jobs.serve.http.fields import choice_field, text_field, texts_field, whole_field
from jobs.serve.http.schemas import DETECT, TRANSLATE, described
from jobs.serve.http.service import MOST_BEAM, USUAL, Service, search_config
from jobs.serve.settings import LANGUAGE_NAMES
from jobs.serve.text_pieces.detection import detect
from transformer.config import SearchConfig

HEALTH_S = 20.0


def router(service: Service) -> APIRouter:
    """/translate, /detect, /languages, /health and /frontend/settings."""
    routes = APIRouter(tags=["LibreTranslate"])
    sources = sorted({model.source for model in service.translators})
    targets = {
        source: sorted({model.target for model in service.translators if model.source == source}) for source in sources
    }

    @routes.post("/translate", summary="Translate a text or a list of texts", openapi_extra=described(TRANSLATE))
    async def translate(request: Request) -> JSONResponse:
        async with service.request(request) as fields:
            return JSONResponse(await answer(service, fields, sources))

    @routes.post("/detect", summary="The language of a text, among those there are", openapi_extra=described(DETECT))
    async def detect_language(request: Request) -> JSONResponse:
        async with service.request(request) as fields:
            texts, _ = texts_field(fields, "q")
            service.admission.check_size(texts)
            languages = sorted({*sources, *(target for some in targets.values() for target in some)})
            return JSONResponse(detect(" ".join(texts), languages))

    @routes.get("/languages", summary="Which languages are translated into which")
    async def languages() -> JSONResponse:
        codes = sorted({*sources, *(target for some in targets.values() for target in some)})
        return JSONResponse(
            [{"code": code, "name": LANGUAGE_NAMES.get(code, code), "targets": targets.get(code, [])} for code in codes]
        )

    @routes.get("/health", summary="Whether every model translates a word")
    async def health() -> JSONResponse:
        try:
            if service.admission.closed:
                raise Refused(503, "The service stops.")
            async with asyncio.timeout(HEALTH_S):
                greedy = SearchConfig(beam=1, extra_length=4)
                await asyncio.gather(*(service.models.translate(name, ["a"], greedy) for name in service.by_name))
        except (Refused, TimeoutError) as error:
            sentence = error.sentence if isinstance(error, Refused) else "A model does not answer."
            return JSONResponse({"status": "unavailable", "error": sentence}, 503)
        return JSONResponse({"status": "ok"})

    @routes.get("/frontend/settings", summary="What a page needs to know")
    async def frontend_settings() -> JSONResponse:
        limits, first = service.settings.limits, service.settings.models[0]
        return JSONResponse(
            {
                "apiKeys": service.settings.keys is not None,
                "keyRequired": service.settings.keys is not None,
                "charLimit": limits.characters,
                "frontendTimeout": 500,
                "suggestions": False,
                "filesTranslation": False,
                "supportedFilesFormat": [],
                "language": {
                    "source": {"code": first.source, "name": LANGUAGE_NAMES.get(first.source, first.source)},
                    "target": {"code": first.target, "name": LANGUAGE_NAMES.get(first.target, first.target)},
                },
            }
        )

    return routes


async def answer(service: Service, fields: dict[str, Any], sources: list[str]) -> dict[str, Any]:
    """What /translate answers: a text for a text, lists for a list."""
    texts, several = texts_field(fields, "q")
    service.admission.check_size(texts)
    source, target = text_field(fields, "source"), text_field(fields, "target")
    html = choice_field(fields, "format", ("text", "html")) == "html"
    most = min(service.settings.limits.alternatives, MOST_BEAM - 1)
    alternatives = whole_field(fields, "alternatives", 0, 0, most)
    search = search_config(USUAL, max(USUAL.beam, alternatives + 1), USUAL.alpha, alternatives + 1)
    detected = [detect(text, sources)[0] for text in texts] if source == "auto" and sources else None
    pairs = [
        service.model_for(found["language"] if detected else source, target) for found in detected or [{}] * len(texts)
    ]
    results = await asyncio.gather(
        *(service.translate(model, text, html, search) for model, text in zip(pairs, texts, strict=True))
    )
    found: dict[str, Any] = {"translatedText": [result.text for result in results]}
    if detected is not None:
        found["detectedLanguage"] = detected
    if alternatives:
        found["alternatives"] = [list(result.alternatives) for result in results]
    if not several:
        found = {name: value[0] for name, value in found.items()}
    sentences = [sentence for result in results for sentence in result.warnings]
    return found | ({"warnings": sentences} if sentences else {})
