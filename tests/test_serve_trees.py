"""A parser in the service: trees over the words, their n-best and attention; no language pair of LibreTranslate's."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from local_models import LocalModels
from small_model import random_directory
from starlette.testclient import TestClient

from jobs.serve.engine import with_kind
from jobs.serve.http.app import build_app
from jobs.serve.settings import ServedModel, ServeSettings
from transformer.config import SearchConfig
from transformer.parsing.parser import Parser
from transformer.parsing.penn_words import penn_words
from transformer.parsing.trees import read_trees

SYMBOLS = ("(S", ")S", "(NP", ")NP", "XX")
FIRST = ServedModel(name="small", directory="unused")
PARSER = ServedModel(name="parser", directory="unused", target="trees")
TEXT = "kaba lori, mino. It's (el)!\n\nsundru"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_directory(tmp_path_factory.mktemp("serve") / "parser", symbols=SYMBOLS)


@pytest.fixture(scope="module")
def models(directory: Path) -> LocalModels:
    return LocalModels(random_directory(directory.parent / "model"), parser=directory)


@pytest.fixture(scope="module")
def client(models: LocalModels) -> TestClient:
    return TestClient(build_app(ServeSettings(models=(FIRST, PARSER)), models), raise_server_exceptions=False)


def test_what_writes_trees_is_a_parser_and_runs_on_our_engine(directory: Path) -> None:
    named = ServedModel(name="a", directory=str(directory), engine="ctranslate2")
    assert with_kind(named) == replace(named, target="trees", engine="torch")
    translates = replace(named, directory=str(random_directory(directory.parent / "other")))
    assert with_kind(translates) == translates


def test_each_sentence_is_answered_with_its_trees(client: TestClient, directory: Path) -> None:
    asked = {
        "text": TEXT,
        "model": "parser",
        "beam": 4,
        "n_best": 3,
        "attention": True,
        "search": True,
        "picture": True,
    }
    answer = client.post("/v1/translate", json=asked).json()
    sources = [each["source"] for each in answer["sentences"]]
    assert sources == ["kaba lori, mino.", "It's (el)!", "sundru"]
    parser, search = Parser.load(directory), SearchConfig(beam=4, alpha=0.3, extra_length=300, well_formed=True)
    for source, sentence in zip(sources, answer["sentences"], strict=True):
        for alternative in sentence["alternatives"]:
            (tree,) = read_trees(alternative["text"], "answer")
            assert list(tree.words) == penn_words(source)
        (parsed,) = parser.parse([penn_words(source)], search)
        assert parsed is not None
        assert sentence["translation"] == str(parsed.tree)
        assert sentence["picture"].startswith('<svg class="tree"')
        assert {each["piece"] for each in sentence["search"][0]} == {"▁(S", "▁(NP"}, "nothing else may come first"
        maps = sentence["attention"]
        assert len(maps["cross"][0][0]) == len(maps["target"])
        assert {"▁XX"} <= set(maps["target"]) <= {"<s>", *(f"▁{symbol}" for symbol in SYMBOLS)}
    assert answer["warnings"] == [], "brackets that follow one another are no loop"
    assert answer["translation"] == "{} {}\n\n{}".format(*(each["translation"] for each in answer["sentences"]))


def test_a_tree_is_streamed_as_it_is_written(client: TestClient) -> None:
    asked = {"text": TEXT, "model": "parser", "beam": 2, "stream": True, "picture": True}
    found = re.findall(r"event: (\w+)\ndata: (.*)\n\n", client.post("/v1/translate", json=asked).text)
    events: list[tuple[str, Any]] = [(name, json.loads(data)) for name, data in found]
    assert (events[0][1]["alpha"], events[-1][0]) == (0.3, "done")
    assert next(data["text"] for name, data in events if name == "words").startswith("(")
    whole = client.post("/v1/translate", json=asked | {"stream": False}).json()
    assert events[-1][1]["translation"] == whole["translation"]
    assert [data["picture"] for name, data in events if name == "sentence"] == [
        s["picture"] for s in whole["sentences"]
    ]


@pytest.mark.parametrize(
    ("path", "asked", "says"),
    [
        ("/v1/translate", {"text": "a", "format": "html"}, "parser parses text"),
        ("/v1/attention", {"source": "kaba", "target": "(S (XX kaba)"}, "never closed"),
        ("/v1/attention", {"source": "kaba", "target": "kaba"}, "outside of any tree"),
        ("/v1/attention", {"source": "kaba", "target": ""}, "one tree in brackets, not 0"),
    ],
)
def test_what_a_parser_cannot_do_is_a_sentence(client: TestClient, path: str, asked: dict[str, str], says: str) -> None:
    answer = client.post(path, json=asked | {"model": "parser"})
    assert answer.status_code == 400
    assert says in answer.json()["error"]


def test_a_parser_is_no_language_pair(client: TestClient, models: LocalModels) -> None:
    assert [each["code"] for each in client.get("/languages").json()] == ["de", "en"]
    assert client.get("/v1/models").json()[1]["target"] == {"code": "trees", "name": "tree"}
    alone = TestClient(build_app(ServeSettings(models=(PARSER,)), models), raise_server_exceptions=False)
    for source in ("en", "auto"):
        answer = alone.post("/translate", json={"q": "a", "source": source, "target": "trees"})
        assert (answer.status_code, "the models here parse" in answer.json()["error"]) == (400, True)
    assert alone.get("/languages").json() == alone.post("/detect", json={"q": "a"}).json() == []
    assert alone.get("/health").json() == {"status": "ok"}
