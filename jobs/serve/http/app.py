"""The HTTP application: LibreTranslate's API, our own, the page and its files. Every error is {"error": "sentence"}."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jobs.serve.http import libretranslate, v1
from jobs.serve.http.admission import Refused
from jobs.serve.http.service import Models, Service, Timing
from jobs.serve.settings import ServeSettings

ASSETS = Path(__file__).parents[1] / "assets"
PAGES = {"/": "index.html", "/docs": "docs.html"}
SAFETY = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
WORDS = {
    404: "There is nothing at this address: /docs says what there is.",
    405: "This address does not take {method}.",
}


def build_app(settings: ServeSettings, models: Models) -> Any:
    """The application of one replica."""
    return app_of(Service(settings, models))


def app_of(service: Service) -> Any:
    settings = service.settings
    app = FastAPI(
        title="attn",
        description="Translate with a Transformer, and see its attention.",
        docs_url=None,  # theirs loads scripts from another host; ours is assets/docs.html
        redoc_url=None,
    )
    app.include_router(libretranslate.router(service))
    app.include_router(v1.router(service))
    add_pages(app)
    add_errors(app)
    if settings.cors:
        app.add_middleware(CORSMiddleware, allow_origins=list(settings.cors), allow_methods=["*"], allow_headers=["*"])
    return Timing(app, service.metrics, frozenset(app.openapi()["paths"]))


def add_pages(app: FastAPI) -> None:
    files = {f"/assets/{file.name}": file for file in ASSETS.iterdir() if file.is_file()}
    files |= {path: ASSETS / name for path, name in PAGES.items()}

    async def page(request: Request) -> Response:
        file = files[request.url.path]
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        return Response(file.read_bytes(), media_type=kind, headers=SAFETY)

    for path in files:
        app.add_api_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)


def add_errors(app: FastAPI) -> None:
    async def refused(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, Refused)
        headers = {"Retry-After": str(error.retry_after_s)} if error.retry_after_s else None
        return JSONResponse({"error": error.sentence}, error.status, headers)

    async def wrong_address(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        sentence = WORDS.get(error.status_code, str(error.detail)).format(method=request.method)
        return JSONResponse({"error": sentence}, error.status_code, error.headers)

    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": f"Something went wrong here: {type(error).__name__}."}, 500)

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(HTTPException, wrong_address)
    app.add_exception_handler(Exception, unexpected)
