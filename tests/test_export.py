"""What every export has in common: a model is carried over whole, or refused in a sentence."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from small_model import SHAPE, random_directory

from jobs.errors import UserError
from jobs.translate import export


def test_a_setting_that_no_export_knows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, other = tmp_path / "usual", tmp_path / "other"
    random_directory(usual)
    random_directory(other, dataclasses.replace(SHAPE, norm="pre"))
    export.load_for_export(other)
    monkeypatch.setattr(export, "KNOWN", export.KNOWN - {"norm"})
    export.load_for_export(usual)
    with pytest.raises(UserError, match=r"model\.norm=pre cannot be exported"):
        export.load_for_export(other)
