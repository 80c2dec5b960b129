"""The service on a real Ray Serve: existing clients, batches, lost replicas, full queues, slow clients."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deep_translator import LibreTranslator
from libretranslatepy import LibreTranslateAPI
from ray import serve
from small_model import learned_directory, source_lines

from jobs.configs import ServeResources
from jobs.serve import deployment
from jobs.serve.gateway import Gateway
from jobs.serve.http.admission import Refused
from jobs.serve.settings import Limits, ServedModel, ServeSettings
from transformer.config import SearchConfig
from transformer.translator import Translator

pytestmark = pytest.mark.ray
LINES = source_lines(64, seed=9, longest=5)
REPLICA = "ray::ServeReplica:attn:model-small"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return learned_directory(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def expected(directory: Path) -> dict[str, str]:
    found = Translator.load(directory).translate(LINES)
    return {line: each.text for line, each in zip(LINES, found, strict=True)}


@pytest.fixture(scope="module")
def address(ray_session: None, directory: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    small = ServedModel(name="small", directory=str(directory))
    deployment.start(
        ServeSettings(
            models=(small,),
            port=port,
            limits=Limits(concurrent=48, timeout_s=120),
            on=ServeResources(min_replicas=2, max_replicas=2, cpus_per_replica=0.5),
        )
    )
    yield f"http://127.0.0.1:{port}"
    deployment.stop()


def post(address: str, path: str, body: Any) -> tuple[int, Any, dict[str, str]]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=150) as answer:
            return answer.status, json.loads(answer.read()), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read()), dict(error.headers)


def translate(address: str, line: str) -> tuple[int, Any, dict[str, str]]:
    return post(address, "/translate", {"q": line, "source": "en", "target": "de"})


def test_existing_clients_get_the_models_words(address: str, expected: dict[str, str]) -> None:
    line, other = LINES[:2]
    client = LibreTranslateAPI(address)
    assert client.translate(line, "en", "de") == expected[line]
    assert client.languages()[1] == {"code": "en", "name": "English", "targets": ["de"]}
    assert client.detect("the cat is in the house")[0]["language"] == "en"
    others = LibreTranslator(source="en", target="de", api_key="none", custom_url=f"{address}/")
    assert others.translate(f"{line}\n\n{other}") == f"{expected[line]}\n\n{expected[other]}"


def test_requests_share_batches_and_keep_their_own_words(address: str, expected: dict[str, str]) -> None:
    def figure(name: str) -> float:
        text = urllib.request.urlopen(f"{address}/metrics", timeout=20).read().decode()
        return float(re.search(rf'^attn_batch_sentences_{name}{{model="small"}} (\S+)$', text, re.MULTILINE)[1])  # type: ignore[index]

    before = [figure(name) for name in ("sum", "count")]
    with ThreadPoolExecutor(32) as threads:
        answers = list(threads.map(lambda line: translate(address, line), LINES))
    assert [answer[1] for answer in answers] == [{"translatedText": expected[line]} for line in LINES]
    after = [figure(name) for name in ("sum", "count")]
    assert (after[0] - before[0]) / (after[1] - before[1]) > 1.5, "works share batches"


def replicas() -> list[int]:
    """The processes of the model's replicas that descend from this process."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name, pid = (entry / "cmdline").read_text(), int(entry.name)
            while name.startswith(REPLICA) and pid not in (0, os.getpid()):
                pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended while we looked
        if name.startswith(REPLICA) and pid == os.getpid():
            found.append(int(entry.name))
    return found


def test_killed_replicas_lose_no_request(address: str, expected: dict[str, str]) -> None:
    def client(number: int) -> list[tuple[int, Any, str]]:
        lines = [LINES[(number * 16 + i) % len(LINES)] for i in range(16)]
        return [(*translate(address, line)[:2], line) for line in lines]

    with ThreadPoolExecutor(12) as threads:
        under_way = [threads.submit(client, number) for number in range(12)]
        time.sleep(0.5)
        killed = replicas()
        assert len(killed) == 2
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        answers = [answer for each in under_way for answer in each.result()]
    assert len(answers) == 12 * 16
    assert {status for status, _, _ in answers} == {200}, [body for status, body, _ in answers if status != 200][:3]
    assert all(body["translatedText"] == expected[line] for _, body, line in answers)


def test_too_many_at_once_are_told_to_try_again(address: str, expected: dict[str, str]) -> None:
    with ThreadPoolExecutor(240) as threads:  # five times the places
        answers = list(threads.map(lambda number: translate(address, LINES[number % 64]), range(240)))
    assert {status for status, _, _ in answers} <= {200, 503}
    for status, body, headers in answers:
        if status == 503:
            assert "Try again" in body["error"]
            assert headers["retry-after"] == "1"
    assert translate(address, LINES[0])[1] == {"translatedText": expected[LINES[0]]}


def test_a_slow_client_and_a_large_body_disturb_nobody(address: str, expected: dict[str, str]) -> None:
    host, port = address.removeprefix("http://").split(":")
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
    slow = [socket.create_connection((host, int(port))) for _ in range(8)]
    for each in slow:
        each.sendall(head + b'{"q": ')
    assert translate(address, LINES[0])[1] == {"translatedText": expected[LINES[0]]}
    status, body, _ = post(address, "/translate", b"x" * 10_000_000)
    assert (status, list(body)) == (413, ["error"])
    for each in slow:
        each.close()
    assert translate(address, LINES[1])[0] == 200


def test_words_are_streamed(address: str, expected: dict[str, str]) -> None:
    body = json.dumps({"text": LINES[3], "stream": True, "search": True}).encode()
    request = urllib.request.Request(f"{address}/v1/translate", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = re.findall(r"event: (\w+)\ndata: (.*)\n\n", answer.read().decode())
    names = [name for name, _ in events]
    assert names[0] == "start"
    assert names[-2:] == ["sentence", "done"]
    assert json.loads(events[-1][1])["translation"] == expected[LINES[3]]
    _, maps, _ = post(address, "/v1/attention", {"source": LINES[3], "target": expected[LINES[3]]})
    assert len(maps["cross"]) == 2


def test_a_models_full_queue_is_a_sentence(address: str, directory: Path) -> None:
    narrow: Any = serve.deployment(deployment.ModelServer, max_ongoing_requests=1, max_queued_requests=1)
    model, on = ServedModel(name="narrow", directory=str(directory)), ServeResources(cpus_per_replica=0.1)
    handle = serve.run(
        narrow.options(ray_actor_options={"num_cpus": 0}).bind(model, on), name="narrow", route_prefix=None
    )

    async def flood() -> list[Any]:
        gateway = Gateway({"narrow": handle})
        works = (gateway.translate("narrow", [line], SearchConfig()) for line in LINES)
        return await asyncio.gather(*works, return_exceptions=True)

    answers = asyncio.run(flood())
    serve.delete("narrow")
    refused = [answer for answer in answers if isinstance(answer, Exception)]
    assert 0 < len(refused) < len(LINES)
    assert all(isinstance(each, Refused) and (each.status, each.retry_after_s) == (503, 1) for each in refused)
