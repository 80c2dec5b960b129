"""Law 9 on the command line: a wrong name, type or value is one sentence with the nearest right name."""

from __future__ import annotations

import pytest

from jobs.errors import UserError
from pipelines.recipes.recipes import DEMO
from pipelines.recipes.settings import apply


def test_every_kind_of_field_is_reached_and_typed() -> None:
    changed = apply(
        DEMO,
        [
            "training.steps=2_000", "model.dropout=0.25", "model.d_k=16", "model.positions=learned",
            "model.tied_embeddings=no", "shards.cleaning.max_ratio=1.5", "training.clip_norm=none",
            "corpora.train_pairs=10",
        ],
    )  # fmt: skip
    assert changed.training.steps == 2000
    assert changed.model.dropout == 0.25
    assert changed.model.d_k == 16
    assert changed.model.positions == "learned"
    assert changed.model.tied_embeddings is False
    assert changed.shards.cleaning.max_ratio == 1.5
    assert changed.training.clip_norm is None
    assert changed.corpus.train_pairs == 10, "corpora is another word for corpus"
    assert DEMO.training.steps != 2000, "the recipe itself is untouched"


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("training.stepz=3", "Did you mean training.steps?"),
        ("trainin.steps=3", "Did you mean training?"),
        ("training.steps=many", "it is a whole number"),
        ("training.steps=2.5", "it is a whole number"),
        ("model.dropout=1.5", "must be at least 0 and below 1"),
        ("model.norm=past", "one of post, pre. Did you mean post?"),
        ("model.tied_embeddings=perhaps", "true or false"),
        ("model=3", "that is a section"),
        ("training.steps.more=3", "has no fields of its own"),
        ("training.steps", "section.field=value"),
        ("model.num_heads=7", "is not a multiple of"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(setting: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        apply(DEMO, [setting])
    assert says in str(caught.value)
