"""The HTTP application with a real engine in this process: LibreTranslate's shapes, limits, keys, hostile input."""

from __future__ import annotations

import asyncio
import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from local_models import LocalModels
from small_model import learned_directory, random_directory, source_lines
from starlette.testclient import TestClient

from jobs.errors import UserError
from jobs.serve.engine import Engine, Work, load
from jobs.serve.http.admission import Admission, Refused
from jobs.serve.http.app import ASSETS, app_of, build_app
from jobs.serve.http.keys import add_key, load_keys
from jobs.serve.http.service import Service
from jobs.serve.settings import Limits, ServedModel, ServeSettings
from transformer import beam
from transformer.config import SearchConfig

FIRST = ServedModel(name="small", directory="unused")
SETTINGS = ServeSettings(models=(FIRST, replace(FIRST, name="other"), replace(FIRST, name="french", target="fr")))
ASKED = {"q": "kaba lori", "source": "en", "target": "de"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> LocalModels:
    return LocalModels(random_directory(tmp_path_factory.mktemp("serve") / "model"))


@pytest.fixture(scope="module")
def client(models: LocalModels) -> TestClient:
    return TestClient(build_app(SETTINGS, models), raise_server_exceptions=False)


def with_settings(models: LocalModels, **changes: Any) -> TestClient:
    return TestClient(build_app(replace(SETTINGS, **changes), models), raise_server_exceptions=False)


def test_json_forms_and_query_parameters_are_answered_alike(client: TestClient) -> None:
    answers = [
        client.post("/translate", json=ASKED),
        client.post("/translate", data=ASKED),
        client.post("/translate", params=ASKED),
        client.post("/translate", files={name: (None, value) for name, value in ASKED.items()}),
        client.post(
            "/translate", content=json.dumps(ASKED), headers={"Content-Type": "application/x-www-form-urlencoded"}
        ),
    ]
    assert [answer.status_code for answer in answers] == [200] * 5
    assert len({answer.text for answer in answers}) == 1
    assert set(answers[0].json()) - {"warnings"} == {"translatedText"}


def test_the_translation_is_the_engines_own(client: TestClient, models: LocalModels) -> None:
    text = client.post("/translate", json=ASKED).json()["translatedText"]
    assert text == models.engine.translator.translate([ASKED["q"]])[0].text


def test_a_list_is_answered_with_lists(client: TestClient) -> None:
    answer = client.post("/translate", json=ASKED | {"q": ["kaba", "lori"], "source": "auto", "alternatives": 2}).json()
    assert {name: len(answer[name]) for name in ("translatedText", "detectedLanguage", "alternatives")} == {
        "translatedText": 2, "detectedLanguage": 2, "alternatives": 2,
    }  # fmt: skip
    assert answer["detectedLanguage"][0]["language"] == "en"
    assert all(len(some) <= 2 for some in answer["alternatives"])


def test_languages_are_those_of_the_models(client: TestClient) -> None:
    assert client.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": []},
        {"code": "en", "name": "English", "targets": ["de", "fr"]},
        {"code": "fr", "name": "French", "targets": []},
    ]
    assert client.post("/detect", data={"q": "le chat est dans la maison"}).json()[0]["language"] == "fr"
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/frontend/settings").json()["keyRequired"] is False


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"{", 400, "is not JSON"),
        (b"[1]", 400, "JSON object"),
        (b"[" * 100_000, 400, "nested too deeply"),
        (b'{"q": ' + b"9" * 5_000 + b"}", 400, "is not JSON"),
        (b'{"q": 1, "source": "en", "target": "de"}', 400, "q must be a text"),
        (b'{"q": ["a", 1], "source": "en", "target": "de"}', 400, "q must be a text or a list"),
        (b'{"source": "en", "target": "de"}', 400, "q is missing"),
        (b'{"q": "a", "target": "de"}', 400, "source is missing"),
        (b'{"q": "a", "source": "en", "target": "xx"}', 400, "not translated here"),
        (b'{"q": "a", "source": "en", "target": "de", "format": "pdf"}', 400, "format must be one of"),
        (b'{"q": "a", "source": "en", "target": "de", "alternatives": 1e999}', 400, "alternatives must be"),
        (b'{"q": "a", "source": "en", "target": "de", "alternatives": 0.5}', 400, "whole number"),
        (b"\xff\xfe\x00", 400, "is not JSON"),
        (b'{"q": "' + b"a" * 20_000 + b'", "source": "en", "target": "de"}', 413, "20,000 characters"),
        (b"x" * 1_000_001, 413, "too large"),
    ],
    ids=lambda value: value[:24].decode("ascii", "replace") if isinstance(value, bytes) else None,
)
def test_a_bad_request_is_a_sentence(client: TestClient, body: bytes, status: int, says: str) -> None:
    answer = client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert says in answer.json()["error"]


def test_a_body_without_end_is_neither_kept_nor_read_to_its_end(models: LocalModels) -> None:
    app, read, sent = build_app(SETTINGS, models), [], []

    async def receive() -> dict[str, Any]:
        read.append(1)
        return {"type": "http.request", "body": b"x" * 100_000, "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/translate", "query_string": b"", "headers": []}
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 413
    assert len(read) == 171


def test_unknown_addresses_and_methods_are_sentences(client: TestClient) -> None:
    assert client.get("/nothing").json() == {"error": "There is nothing at this address: /docs says what there is."}
    assert client.get("/translate").json() == {"error": "This address does not take GET."}
    assert client.get("/assets/../app.py").status_code == 404


def test_n_best_search_and_attention(client: TestClient, models: LocalModels) -> None:
    asked = {"text": "kaba lori. Mino el.\n\nsundru", "n_best": 3, "attention": True, "search": True}
    answer = client.post("/v1/translate", json=asked).json()
    assert [sentence["source"] for sentence in answer["sentences"]] == ["kaba lori.", "Mino el.", "sundru"]
    assert answer["translation"].count("\n") == 2
    for sentence in answer["sentences"]:
        scores = [each["score"] for each in sentence["alternatives"]]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)
        maps = sentence["attention"]
        assert sum(maps["cross"][0][0][0]) == pytest.approx(1000, abs=20)
        assert len(maps["encoder"][0]) == 4
        assert {each["fate"] for step in sentence["search"] for each in step} <= {"kept", "ended", "dropped"}
    assert answer["model"] == "small"


def test_words_come_before_the_translation_and_lead_to_it(client: TestClient) -> None:
    asked = {"text": "kaba lori.\nmino", "search": True, "n_best": 2}
    with client.stream("POST", "/v1/translate", json=asked, headers={"Accept": "text/event-stream"}) as answer:
        found = re.findall(r"event: (\w+)\ndata: (.*)\n\n", "".join(answer.iter_text()))
    events = [(name, json.loads(data)) for name, data in found]
    names = [name for name, _ in events]
    assert (names[0], names[-1]) == ("start", "done")
    assert names.index("words") < names.index("sentence")
    sentences = [data for name, data in events if name == "sentence"]
    whole = client.post("/v1/translate", json=asked | {"search": False}).json()
    assert [each["alternatives"] for each in sentences] == [each["alternatives"] for each in whole["sentences"]]
    assert events[-1][1]["translation"] == whole["translation"]


def test_watching_a_search_changes_nothing(models: LocalModels) -> None:
    translator, seen = models.engine.translator, []
    ids = translator.subwords.encode_all(source_lines(6))
    config = SearchConfig(n_best=3)
    assert beam.search(translator.model, ids, config, watch=seen.append) == beam.search(translator.model, ids, config)
    assert seen


def test_the_steps_lead_to_the_translation(models: LocalModels) -> None:
    alternatives, steps = models.engine.searched("kaba lori", SearchConfig(), None)
    paths, texts = [[]], []
    for step in steps:
        extended = [(paths[each["parent"]] + [each["piece"]], each["fate"]) for each in step]
        texts += [path[:-1] for path, fate in extended if fate == "ended"]
        paths = [path for path, fate in extended if fate == "kept"]
    assert alternatives[0].text in [models.engine.translator.subwords.text_of(path) for path in texts]


def test_keys_are_needed_where_there_are_keys(models: LocalModels, tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys", "alice")
    assert key not in (tmp_path / "keys").read_text()
    assert (tmp_path / "keys").stat().st_mode & 0o077 == 0
    client = with_settings(models, keys=load_keys(tmp_path / "keys"), host="0.0.0.0")
    assert client.post("/translate", json=ASKED).status_code == 403
    assert client.post("/translate", json=ASKED | {"api_key": "guess"}).status_code == 403
    assert client.post("/translate", json=ASKED | {"api_key": key}).status_code == 200
    assert client.post("/translate", params=ASKED | {"api_key": key}).status_code == 200
    assert client.post("/translate", json=ASKED, headers={"Authorization": f"Bearer {key}"}).status_code == 200
    assert client.get("/metrics").status_code == 403
    assert client.get("/").status_code == 200
    (tmp_path / "keys").write_text("no hash\n")
    with pytest.raises(UserError, match="line 1"):
        load_keys(tmp_path / "keys")


def test_another_address_is_refused_without_keys() -> None:
    for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9"):
        assert replace(SETTINGS, host=host).host == host
    for host in ("0.0.0.0", "::", "192.168.1.4", "example.org"):
        with pytest.raises(ValueError, match="without keys everybody"):
            replace(SETTINGS, host=host)


def test_a_key_has_so_many_requests_a_minute() -> None:
    now = [0.0]
    admission = Admission(replace(SETTINGS, limits=Limits(requests_per_minute=3)), clock=lambda: now[0])
    for _ in range(3):
        admission.count("alice")
    with pytest.raises(Refused) as refused:
        admission.count("alice")
    assert (refused.value.status, refused.value.retry_after_s) == (429, 20)
    admission.count("bob")
    now[0] = 20.0
    admission.count("alice")
    with pytest.raises(Refused):
        admission.count("alice")


def test_a_full_service_says_so(models: LocalModels) -> None:
    admission = Admission(replace(SETTINGS, limits=Limits(concurrent=1)))
    with admission.place():
        with pytest.raises(Refused) as refused, admission.place():
            pass
        assert (refused.value.status, refused.value.retry_after_s) == (503, 1)
    with admission.place():
        pass


def test_a_rate_is_an_answer(models: LocalModels) -> None:
    client = with_settings(models, limits=Limits(requests_per_minute=1))
    assert client.post("/translate", json=ASKED).status_code == 200
    answer = client.post("/translate", json=ASKED)
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["Retry-After"]) <= 60


def test_what_takes_too_long_is_given_up_and_a_service_that_stops_says_so(models: LocalModels) -> None:
    class Slow(LocalModels):
        def __init__(self) -> None:
            self.metrics = models.metrics

        async def translate(self, *_: Any) -> Any:
            await asyncio.sleep(60)

    async def ask(app: Any) -> tuple[int, bytes | None, str]:
        body, sent = json.dumps(ASKED).encode(), []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/translate", "query_string": b"", "headers": []}
        await app(scope, receive, send)
        return sent[0]["status"], dict(sent[0]["headers"]).get(b"retry-after"), json.loads(sent[1]["body"])["error"]

    async def stop() -> list[Any]:
        service = Service(SETTINGS, Slow())
        asked = asyncio.create_task(ask(app_of(service)))
        await asyncio.sleep(0.1)
        draining = asyncio.create_task(service.drain(0.3))
        await asyncio.sleep(0.05)
        late = await ask(app_of(service))
        await draining
        return [await asked, late]

    limited = replace(SETTINGS, limits=Limits(timeout_s=0.1))
    assert asyncio.run(ask(build_app(limited, Slow()))) == (504, None, "This took longer than 0.1 s and was given up.")
    assert asyncio.run(stop()) == [
        (503, b"1", "The service stops, and had no time for this. Try again."),
        (503, b"1", "The service stops. Try again."),
    ]


def test_other_sites_are_let_in_only_when_asked(models: LocalModels, client: TestClient) -> None:
    header = {"Origin": "https://example.org"}
    assert "access-control-allow-origin" not in client.get("/languages", headers=header).headers
    open_to = with_settings(models, cors=("https://example.org",))
    assert open_to.get("/languages", headers=header).headers["access-control-allow-origin"] == "https://example.org"


def test_figures_for_prometheus_hold_no_text(client: TestClient) -> None:
    client.post("/translate", json=ASKED)
    client.get("/secret-words-in-a-path")
    text = client.get("/metrics").text
    for name in ("attn_requests_total", "attn_request_seconds_count", "attn_source_tokens_total", "attn_target_tokens"):
        assert name in text
    assert 'path="/translate",status="200"' in text
    assert "secret" not in text
    assert "kaba" not in text


def test_what_is_translated_is_in_no_log_unless_asked(models: LocalModels, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    for logged in (False, True):
        caplog.clear()
        assert with_settings(models, log_text=logged).post("/translate", json=ASKED | {"api_key": "k3y"}).is_success
        assert ("kaba lori" in caplog.text) is logged
        assert "k3y" not in caplog.text


def test_what_was_not_foreseen_is_a_sentence_too(models: LocalModels) -> None:
    class Broken(LocalModels):
        def __init__(self) -> None:
            self.metrics = models.metrics

        async def translate(self, *_: Any) -> Any:
            raise ZeroDivisionError("secret")

    answer = TestClient(build_app(SETTINGS, Broken()), raise_server_exceptions=False).post("/translate", json=ASKED)
    assert (answer.status_code, answer.json()) == (500, {"error": "Something went wrong here: ZeroDivisionError."})


def test_the_api_describes_itself_and_the_page_needs_no_other_host(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert {"/translate", "/detect", "/languages", "/health", "/frontend/settings", "/v1/translate"} <= set(
        described["paths"]
    )
    for file in ASSETS.iterdir():
        path = {"index.html": "/", "docs.html": "/docs"}.get(file.name, f"/assets/{file.name}")
        answer = client.get(path)
        assert answer.status_code == 200
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        addresses = set(re.findall(r"https?://[^\"'\s)]+", answer.text)) - {"http://www.w3.org/2000/svg"}
        assert not addresses, f"{file.name} leads to {addresses}"


def test_a_damaged_model_is_a_sentence(models: LocalModels, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a model directory: it has no config\.json"):
        load(tmp_path)
    directory = random_directory(tmp_path / "model")
    weights = (directory / "model.safetensors").read_bytes()
    (directory / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(UserError, match="is damaged"):
        load(directory)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ctranslate2", "ctranslate2-int8"])
def test_another_engine_says_the_same_and_shows_its_attention(models: LocalModels, tmp_path: Path, engine: Any) -> None:
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    directory = learned_directory(tmp_path)
    other = Engine(ServedModel(name="other", directory=str(directory), engine=engine), 1, 2_000)
    ours = Engine(ServedModel(name="ours", directory=str(directory)), 1, 2_000)
    work = Work(tuple(source_lines(40, seed=4, longest=4)), SearchConfig(), 300)
    said, expected = ([found[0].text for found in each.translate([work])[0].alternatives] for each in (other, ours))
    same = sum(a == b for a, b in zip(said, expected, strict=True))
    assert same == 40 if engine == "ctranslate2" else same >= 36  # eight bits may change a word now and then
    assert other.attention("kaba", None)["cross"]


def hostile(rng: random.Random) -> bytes:
    """A body that no sane client sends."""
    odd = [
        "\x00",
        "\ud800",
        "\udfff",
        "\u202e",
        "\u2028",
        "🏳️‍🌈",
        "a\u0301" * 20,
        "﷽" * 8,
        "<" * 40,
        "{" * 40,
        "%s",
        "&#x0;",
        " " * 200,
    ]
    kind = rng.randrange(6)
    if kind == 0:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(80)))
    if kind == 1:
        return b"[" * rng.randrange(1, 5_000)
    if kind == 2:
        return json.dumps({"q": rng.choice([None, 1e308, {}, [[]], True]), "source": "en", "target": "de"}).encode()
    text = "".join(rng.choice([*odd, "kaba ", "lori. ", "\n"]) for _ in range(rng.randrange(8)))
    body = {"q": text, "source": rng.choice(["en", "auto"]), "target": "de", "format": rng.choice(["text", "html"])}
    if kind == 3:
        body["alternatives"] = rng.choice([-1, 10**30, "x", 2, float("nan")])
    return json.dumps(body).encode()


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


@pytest.mark.slow
@pytest.mark.parametrize("requests", [600, pytest.param(10_000, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)])])
def test_hostile_requests_are_answered_and_leave_nothing(models: LocalModels, requests: int) -> None:
    client, rng, statuses = with_settings(models), random.Random(1), set()
    before = 0.0
    for number in range(requests):
        answer = client.post("/translate", content=hostile(rng), headers={"Content-Type": "application/json"})
        statuses.add(answer.status_code)
        assert answer.status_code == 200 or list(answer.json()) == ["error"], answer.text
        if number == requests * 3 // 10:
            before = resident_mb()
    assert statuses <= {200, 400, 413}
    assert resident_mb() - before < 60, "memory grows"
    assert client.post("/translate", json=ASKED).status_code == 200
