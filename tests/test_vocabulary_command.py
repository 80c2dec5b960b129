"""`attn vocabulary`: the pieces are those that the model itself is given."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_model import random_directory

from pipelines.cli import main
from transformer.subwords import Subwords


def test_a_sentence_is_cut_as_the_model_is_given_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = random_directory(tmp_path / "model")
    subwords = Subwords.load(directory / "subwords.model")
    assert main(["vocabulary", str(directory), "kaba lori ü", "--json"]) == 0
    (answer,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert answer["ids"] == subwords.encode("kaba lori ü")
    assert subwords.text_of(answer["subwords"]) == "kaba lori ü"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"kaba\n\nlori\n"), isatty=lambda: False))
    assert main(["vocabulary", str(directory)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [" ".join(subwords.pieces(subwords.encode(text))) for text in ("kaba", "", "lori")], "a line each"


def test_what_has_no_vocabulary_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vocabulary", str(tmp_path), "x"]) == 2
    assert "it has no subwords.model" in capsys.readouterr().err
    assert main(["vocabulary", "demo", "x", "--workspace", str(tmp_path)]) == 2
    assert "vocabulary of demo is not made yet" in capsys.readouterr().err
