"""The service on Ray Serve: one deployment for the API, one for each model, joined by handles.

A model's replica forms batches by tokens. `@serve.batch` goes on cutting what arrives into small batches while one is
being computed, so those that wait are joined before the next one starts: under load batches fill by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any

from ray import serve
from ray.exceptions import RayError
from ray.serve.config import AutoscalingConfig
from ray.serve.exceptions import RayServeException
from ray.serve.schema import LoggingConfig

from jobs.cluster.connect import can_autoscale
from jobs.cluster.profiles import load_profile
from jobs.configs import ServeResources
from jobs.errors import UserError
from jobs.serve.engine import SMALLEST, Done, Engine, Work, with_kind
from jobs.serve.gateway import Gateway
from jobs.serve.http.app import app_of
from jobs.serve.http.keys import load_keys
from jobs.serve.http.service import Service
from jobs.serve.settings import LANGUAGES, NAMED, Limits, ServedModel, ServeSettings
from transformer.config import SearchConfig

BATCHES = 64  # small batches of Serve's that may wait to be joined
DRAIN_S = 20.0  # for requests under way when the service stops
BURST = 32  # times the places: that many may arrive at once and still be told in our words that the service is full
HEALTH_S = 10.0
APPLICATION = "attn"


def total_size(works: list[Work]) -> int:
    return sum(work.size for work in works)


class Abandoned(Exception):
    """Ends a search whose asker is gone."""


class ModelServer:
    """One replica of a model. One thread computes; everything else waits without blocking the health check."""

    def __init__(self, model: ServedModel, on: ServeResources) -> None:
        self.budget = on.batch_tokens
        self.engine = Engine(model, int(on.cpus_per_replica), on.batch_tokens, "cuda" if on.gpus_per_replica else "cpu")
        batch: Any = self.batch
        batch.set_max_batch_size(on.batch_tokens)
        batch.set_batch_wait_timeout_s(on.batch_wait_s)
        self.thread = ThreadPoolExecutor(max_workers=1)
        self.waiting: list[tuple[list[Work], asyncio.Future[list[Done]]]] = []
        self.worker: asyncio.Task[None] | None = None

    async def translate(self, sentences: tuple[str, ...], search: SearchConfig) -> Done:
        """The translations of some sentences, made together with those of other requests."""
        size = min(self.budget, self.engine.size(sentences))  # more than a batch is cut by the engine itself
        done: Done = await self.batch(Work(sentences, search, size))
        return done

    @serve.batch(
        max_batch_size=2_000, batch_wait_timeout_s=0.005, max_concurrent_batches=BATCHES, batch_size_fn=total_size
    )
    async def batch(self, works: list[Work]) -> list[Done]:
        future: asyncio.Future[list[Done]] = asyncio.get_running_loop().create_future()
        self.waiting.append((works, future))
        if self.worker is None or self.worker.done():
            self.worker = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        """Join what waits, up to the budget, and compute it, for as long as something waits."""
        while self.waiting:
            taken = [self.waiting.pop(0)]
            size = total_size(taken[0][0])
            while self.waiting and size + total_size(self.waiting[0][0]) <= self.budget:
                taken.append(self.waiting.pop(0))
                size += total_size(taken[-1][0])
            await self._compute(taken)

    async def _compute(self, taken: list[tuple[list[Work], asyncio.Future[list[Done]]]]) -> None:
        works = [work for some, _ in taken for work in some]
        try:
            done = iter(await self._in_thread(self.engine.translate, works))
            for some, future in taken:
                if not future.done():
                    future.set_result([next(done) for _ in some])
        except Exception as error:
            for _, future in taken:
                if not future.done():
                    future.set_exception(error)

    async def stream(self, sentence: str, search: SearchConfig) -> AsyncIterator[dict[str, Any]]:
        """The translation of one sentence as it grows: {"text"} many times, at last {"alternatives", "steps"}."""
        loop, texts, gone = asyncio.get_running_loop(), asyncio.Queue[str | None](), threading.Event()

        def on_words(text: str) -> None:
            if gone.is_set():  # the search ends here: who types asks for another before this one is found
                raise Abandoned
            loop.call_soon_threadsafe(texts.put_nowait, text)

        found = asyncio.ensure_future(self._in_thread(self.engine.searched, sentence, search, on_words))
        found.add_done_callback(lambda _: texts.put_nowait(None))
        try:
            while (text := await texts.get()) is not None:
                while not texts.empty() and (newer := texts.get_nowait()) is not None:
                    text = newer
                yield {"text": text}
                if found.done():
                    break
            alternatives, steps = await found
            yield {"alternatives": alternatives, "steps": steps}
        finally:
            gone.set()
            found.cancel()

    async def attention(self, source: str, target: str | None) -> dict[str, Any]:
        maps: dict[str, Any] = await self._in_thread(self.engine.attention, source, target)
        return maps

    async def check_health(self) -> None:
        """Ray Serve replaces a replica whose model no longer translates a word."""
        await self._in_thread(self.engine.searched, "a", SearchConfig(beam=1, extra_length=4), None)

    async def _in_thread(self, function: Any, *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.thread, function, *args)


@serve.ingress()
class Api:
    """The HTTP API. Holds no model: a lost model replica loses no request, it is sent again."""

    def __init__(self, settings: ServeSettings, *models: serve.handle.DeploymentHandle[Any]) -> None:
        names = [model.name for model in settings.models]
        self.service = Service(settings, Gateway(dict(zip(names, models, strict=True))))

    def __serve_build_asgi_app__(self) -> Any:
        return app_of(self.service)

    async def drain(self, seconds: float) -> None:
        await self.service.drain(seconds)


def application(settings: ServeSettings) -> serve.Application:
    """The whole service, to be given to `serve.run`."""
    on, quiet = settings.on, LoggingConfig(log_level="WARNING", enable_access_log=False)
    ongoing = 2 * max(1, on.batch_tokens // SMALLEST)  # one batch computed, one that fills: of the smallest works
    models = []
    for model in settings.models:
        deployment: Any = serve.deployment(
            ModelServer,
            name=f"model-{model.name}",
            max_ongoing_requests=ongoing,
            max_queued_requests=on.queued_requests,
            ray_actor_options={"num_cpus": on.cpus_per_replica, "num_gpus": on.gpus_per_replica},
            **replicas(on, ongoing),
            health_check_period_s=HEALTH_S, health_check_timeout_s=3 * HEALTH_S, graceful_shutdown_timeout_s=DRAIN_S,
            graceful_shutdown_wait_loop_s=0.5, max_constructor_retry_count=2, logging_config=quiet,
        )  # fmt: skip
        models.append(deployment.bind(model, on))
    api: Any = serve.deployment(
        Api,
        name="api",
        max_ongoing_requests=2 * settings.limits.concurrent,  # the API itself says who is too many
        max_queued_requests=BURST * settings.limits.concurrent,
        ray_actor_options={"num_cpus": 0},
        graceful_shutdown_timeout_s=DRAIN_S, graceful_shutdown_wait_loop_s=0.5, logging_config=quiet,
    )  # fmt: skip
    bound: serve.Application = api.bind(settings, *models)
    return bound


def replicas(on: ServeResources, ongoing: int) -> dict[str, Any]:
    """How many copies of a model; without a range to choose from nothing is measured for the choice."""
    if on.min_replicas == on.max_replicas:
        return {"num_replicas": on.min_replicas}
    scaling = AutoscalingConfig(
        min_replicas=on.min_replicas, max_replicas=on.max_replicas, target_ongoing_requests=max(1, ongoing // 8),
        upscale_delay_s=5, downscale_delay_s=120,
    )  # fmt: skip
    return {"autoscaling_config": scaling}


def build(args: Mapping[str, Any]) -> serve.Application:
    """The service of a Serve config file (infra/kuberay/service.yaml), which says where it listens."""
    return application(settings_of(args))


def settings_of(args: Mapping[str, Any]) -> ServeSettings:
    """`models`: NAME=ADDRESS or NAME:en-fr=ADDRESS, each a model directory that every node can read; `keys`: a file.

    `languages` are those of models without their own; `engine`, `profile`, `limits` and `cors` are as in `attn serve`.
    """
    models = []
    for text in args["models"]:
        named = NAMED.fullmatch(str(text))
        pair = LANGUAGES.fullmatch(str(named["languages"] or args.get("languages", "en-de")) if named else "")
        if named is None or pair is None:
            raise UserError(
                f"A model is NAME=ADDRESS or NAME:en-fr=ADDRESS, languages are such as en-de: not {text!r}."
            )
        model = ServedModel(
            name=named["name"], directory=named["model"], source=pair["source"], target=pair["target"],
            engine=args.get("engine", "torch"),
        )  # fmt: skip
        models.append(with_kind(model))
    for name in args.get("limits", {}):
        if name not in (known := [each.name for each in fields(Limits)]):
            raise UserError(f"There is no limit {name}: there are {', '.join(known)}.")
    return ServeSettings(
        models=tuple(models),
        host="0.0.0.0",
        keys=load_keys(Path(str(args["keys"]))),
        cors=tuple(args.get("cors", ())),
        limits=Limits(**args.get("limits", {})),
        on=load_profile(str(args.get("profile", "laptop"))).serve,
    )


def start(settings: ServeSettings) -> None:
    """Start the service on the Ray that this process is connected to; returns when it answers."""
    logging.getLogger("ray.serve").setLevel(logging.WARNING)  # what it tells is told by who calls us
    serve.start(
        proxy_location="HeadOnly",
        http_options={
            "host": settings.host, "port": settings.port, "request_timeout_s": settings.limits.timeout_s + 10,
            "keep_alive_timeout_s": 60,
        },
        logging_config=LoggingConfig(log_level="WARNING", enable_access_log=False),
    )  # fmt: skip
    serve.run(application(settings), name=APPLICATION, route_prefix="/")


def stop(draining: bool = False) -> None:
    """End the service; `draining`: let nobody else in, and answer what is under way first.

    In one event loop: with some of Serve's settings a handle can be used in no other, nor without one. A Ray that we
    started ends with the service; on another cluster Serve stays if it has something else.
    """
    asyncio.run(_stop(draining))


async def _stop(draining: bool) -> None:
    if draining:
        with contextlib.suppress(RayServeException, RayError, TimeoutError):  # what is broken has nothing to finish
            handle: Any = serve.get_app_handle(APPLICATION)
            async with asyncio.timeout(DRAIN_S + 5):
                await handle.drain.remote(DRAIN_S)
    if can_autoscale() and set(serve.status().applications) - {APPLICATION}:
        serve.delete(APPLICATION)
    else:
        await serve.shutdown_async()
