"""Cleaning: what each reason drops and what it leaves alone, and that no pair is ever torn apart."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_corpus import invent, read_pairs, write_corpus, write_vocabulary

from jobs.configs import CleaningConfig, ShardConfig
from jobs.corpora import pair_files
from jobs.errors import UserError
from jobs.shards import cleaning
from jobs.shards.cleaning import Dropped
from jobs.shards.cut import Pooling, gather
from jobs.shards.encode import Encoding, encode_piece, processor
from jobs.shards.job import plan_encoding
from jobs.shards.language_check import looks_like_another_language, looks_like_another_script, looks_wrongly_encoded
from jobs.storage.artifacts import Artifact

PAPER = CleaningConfig()
ENGLISH = "The council has not said what it will do with the money that was left from last year."
GERMAN = "Der Rat hat nicht gesagt, was er mit dem Geld tun wird, das aus dem letzten Jahr noch da ist."
FRENCH = "Le conseil n'a pas dit ce qu'il fera avec les fonds qui sont encore dans la caisse de la ville."


def reason(source: str, target: str, **switches: object) -> str | None:
    """Why a pair is dropped, or None if it stays."""
    config = CleaningConfig(**switches)  # type: ignore[arg-type]
    source, target = cleaning.tidy(source, config), cleaning.tidy(target, config)
    return next((why for why, refuses in cleaning.refusals(config, "en", "de") if refuses(source, target)), None)


@pytest.mark.parametrize(
    ("switches", "source", "target", "why"),
    [
        ({}, "", "Haus", "empty"),
        ({}, "house", " \u2003\t ", "empty"),
        ({"normalise_unicode": False}, "\u2003", "Haus", "empty"),
        ({"same_text": True}, "BMW  320", "BMW 320", "same text"),
        ({"min_words": 2}, "a house", "Haus", "too few words"),
        ({"max_words": 3}, "a b c d", "a b", "too many words"),
        ({"max_ratio": 1.5}, "a b c d", "a b", "length ratio"),
        ({"wrong_encoding": True}, "a house", "fÃ¼r das Haus", "wrong encoding"),
        ({"wrong_encoding": True}, "it isnâ€™t", "nein", "wrong encoding"),
        ({"wrong_encoding": True}, "lost \ufffd", "nein", "wrong encoding"),
        ({"wrong_encoding": True}, "bell \x07", "nein", "wrong encoding"),
        ({"wrong_script": True}, "a house", "Этот дом мой", "wrong script"),
        ({"wrong_script": True}, "12.5 - 13.7 %", "12,5 - 13,7 %", "wrong script"),
        ({"wrong_language": True}, ENGLISH, ENGLISH, "wrong language"),
        ({"wrong_language": True}, GERMAN, GERMAN, "wrong language"),
        ({"wrong_language": True}, ENGLISH, FRENCH, "wrong language"),
    ],
)
def test_every_reason_drops_what_it_is_for_and_only_when_asked(
    switches: dict[str, object], source: str, target: str, why: str
) -> None:
    assert reason(source, target, **switches) == why
    everything_else: dict[str, object] = {
        "same_text": True, "min_words": 1, "wrong_encoding": True, "wrong_script": True, "wrong_language": True,
    }  # fmt: skip
    assert reason(ENGLISH, GERMAN, **(everything_else | switches)) in (None, "too many words")
    if why != "empty":
        assert reason(source, target) is None


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Yes.", "Ja."),
        ("No!", "Nein!"),
        ("a b", "a b c"),
        ("Genf, Paris, Rom", "Genf, Paris, Rom"),
        ("naïve façade", "Ærø größer Çelik"),
    ],
)
def test_short_and_harmless_pairs_stay(source: str, target: str) -> None:
    assert reason(source, target, wrong_encoding=True, wrong_script=True, wrong_language=True, max_ratio=1.5) is None


def test_text_is_put_in_one_form() -> None:
    assert cleaning.tidy("  Tu\u0308r\u00a0zu\u2028\x85jetzt ", PAPER) == "Tür zu jetzt"
    assert cleaning.tidy("„Ja“ – ‘no’…", CleaningConfig(normalise_punctuation=True)) == "\"Ja\" - 'no'..."
    untouched = "  Tu\u0308r\u00a0„zu“ "
    assert cleaning.tidy(untouched, CleaningConfig(normalise_unicode=False)) == untouched


def test_what_was_dropped_adds_up_and_the_sample_does_not_depend_on_the_order() -> None:
    pairs = [(key, f"source {key}", f"target {key}") for key in range(100)]
    whole, parts = Dropped(), Dropped()
    for key, source, target in pairs:
        whole.add("a", key, source, target)
    random.Random(1).shuffle(pairs)
    for start in range(0, 100, 7):
        part = Dropped()
        for key, source, target in pairs[start : start + 7]:
            part.add("a", key, source, target)
        parts.merge(Dropped.from_json(part.as_json()))
    assert parts == whole
    assert whole.counts == {"a": 100}
    assert [key for key, _, _ in whole.samples["a"]] == list(range(cleaning.SAMPLES))


def test_a_language_without_small_words_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    corpora = write_corpus(tmp_path / "c", invent(3), languages="en xx")
    config = ShardConfig(cleaning=CleaningConfig(wrong_language=True))
    with pytest.raises(UserError, match=r"wrong_language knows .*de.*, and not xx"):
        plan_encoding(config, corpora, corpora, corpora, 3)


# --- no pair is torn apart ---------------------------------------------------------------------------------------

NASTY = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from("ab \t\r\x00\x0b\x0c\x1c\x85\xa0\xad\u200b\u2028\u2029\ufeff\ufffdéüß'\"<>&|\\"),
    ),
    max_size=20,
)


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    directory = tmp_path_factory.mktemp("vocabulary")
    return write_vocabulary(directory / "v", write_corpus(directory / "c", invent(300)))


def check_that_survivors_are_originals(directory: Path, vocabulary: Artifact, pairs: list[tuple[str, str]]) -> None:
    """Whatever the text: what is left and what was dropped are together the corpus, pair by pair."""
    corpora = write_corpus(directory / "corpora", pairs, files=1, row_group=3)
    encoding = plan_encoding(ShardConfig(pool_pairs=10), corpora, vocabulary, Artifact(str(directory)), len(pairs))
    said = encode_piece(encoding, (0, pair_files.Piece(file="pairs/part-00000.parquet", first=0, pairs=len(pairs))))
    survivors = survivors_of(encoding)
    subwords = processor(vocabulary, encoding.vocabulary_digest)
    originals = Counter(
        (tuple(subwords.encode(cleaning.tidy(source, PAPER))), tuple(subwords.encode(cleaning.tidy(target, PAPER))))
        for source, target in pairs
    )
    assert Counter(survivors) <= originals
    assert len(survivors) + sum(said["dropped"]["counts"].values()) == len(pairs)
    assert all(source and target for source, target in survivors)


def survivors_of(encoding: Encoding) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    found = []
    for pool in range(encoding.pools):
        pooling = Pooling(
            encoded=encoding.out, pieces=1, out=encoding.out, vocabulary_size=400, micro_batch_tokens=100, seed=1,
            drop_duplicates=False,
        )  # fmt: skip
        table = gather(pooling, pool).to_pydict()
        found += [(tuple(s), tuple(t)) for s, t in zip(table["source"], table["target"], strict=True)]
    return found


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(NASTY, NASTY), min_size=1, max_size=40))
def test_every_survivor_of_a_hostile_corpus_is_an_original_pair(
    tmp_path_factory: pytest.TempPathFactory, vocabulary: Artifact, pairs: list[tuple[str, str]]
) -> None:
    check_that_survivors_are_originals(tmp_path_factory.mktemp("hostile"), vocabulary, pairs)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(pairs=st.lists(st.tuples(NASTY, NASTY), min_size=1, max_size=40))
def test_every_survivor_of_a_thousand_hostile_corpora_is_an_original_pair(
    tmp_path_factory: pytest.TempPathFactory, vocabulary: Artifact, pairs: list[tuple[str, str]]
) -> None:
    check_that_survivors_are_originals(tmp_path_factory.mktemp("hostile"), vocabulary, pairs)


# --- real text ---------------------------------------------------------------------------------------------------


def test_languages_are_told_apart_on_real_text(real_text: Path) -> None:
    for target in ("de", "fr"):
        pairs = read_pairs(real_text / "newstest" / f"newstest2013.en-{target}", "en", target)[:1000]
        for side, language, other in ((0, "en", target), (1, target, "en")):
            texts = [pair[side] for pair in pairs]
            assert sum(looks_like_another_language(text, language) for text in texts) <= 3
            assert sum(looks_like_another_language(text, other) for text in texts) > 750
            assert sum(looks_like_another_script(text, language) for text in texts) <= 10
            assert sum(looks_wrongly_encoded(text) for text in texts) == 0
