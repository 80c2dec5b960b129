"""From the API to the models' replicas: works cut small enough to share batches, sent again when a replica is lost."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, RayServeException, ReplicaUnavailableError
from ray.serve.handle import DeploymentHandle

from jobs.serve.engine import Done
from jobs.serve.http.admission import Refused
from jobs.serve.http.metrics import ServeMetrics
from jobs.serve.text_pieces.whole_text import Alternatives
from transformer.config import SearchConfig

SENTENCES = 16  # in one work: a long text is several, which other requests may stand between
PAUSES_S = (0.1, 0.25, 0.5, 1.0, 2.0)  # before another attempt; the last one until the request's time is up


class Gateway:
    """The models by name. Raises `Refused` with a sentence for whatever goes wrong there."""

    def __init__(self, handles: Mapping[str, DeploymentHandle[Any]]) -> None:
        self.handles = handles
        self.metrics = ServeMetrics()

    async def translate(self, model: str, sentences: Sequence[str], search: SearchConfig) -> list[Alternatives]:
        """The translations of each sentence."""
        works = [tuple(sentences[at : at + SENTENCES]) for at in range(0, len(sentences), SENTENCES)]
        done: list[Done] = await asyncio.gather(*(self._call(model, "translate", work, search) for work in works))
        for each in done:
            self.metrics.count_done(model, each)
        return [alternatives for each in done for alternatives in each.alternatives]

    async def attention(self, model: str, source: str, target: str | None) -> dict[str, Any]:
        maps: dict[str, Any] = await self._call(model, "attention", source, target)
        return maps

    async def stream(self, model: str, sentence: str, search: SearchConfig) -> AsyncIterator[dict[str, Any]]:
        """The translation of one sentence as it grows; from the start again if the replica is lost on the way."""
        handle: Any = self.handles[model].options(stream=True)
        for attempt in itertools.count():
            try:
                async for event in handle.stream.remote(sentence, search):
                    yield event
                return
            except (RayActorError, RayTaskError, RayServeException) as error:
                await self._again(model, error, attempt)

    async def _call(self, model: str, method: str, *args: Any) -> Any:
        waiting = self.metrics.waiting.labels(model)
        waiting.inc()
        try:
            for attempt in itertools.count():
                try:
                    return await getattr(self.handles[model], method).remote(*args)
                except (RayActorError, RayTaskError, RayServeException) as error:
                    await self._again(model, error, attempt)
        finally:
            waiting.dec()

    async def _again(self, model: str, error: Exception, attempt: int) -> None:
        """Wait for another replica, or say what is wrong."""
        if isinstance(error, BackPressureError):
            raise Refused(503, f"The model {model} has a full queue. Try again.", 1) from error
        if not isinstance(error, RayActorError | ReplicaUnavailableError):
            reason = str(getattr(error, "cause", error)).strip().splitlines() or [type(error).__name__]
            raise Refused(500, f"The model {model} could not translate this: {reason[-1]}") from error
        self.metrics.retries.labels(model).inc()
        await asyncio.sleep(PAUSES_S[min(attempt, len(PAUSES_S) - 1)])
