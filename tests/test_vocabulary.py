"""The subword vocabulary: reproducible, shared, without unknowns, and refused with a sentence where it cannot be."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from small_corpus import HERE, SMALL, invent, write_corpus

from jobs.configs import VocabularyConfig
from jobs.corpora import pair_files
from jobs.corpora.pair_rows import numbered_tables
from jobs.errors import UserError
from jobs.events import Note
from jobs.storage.artifacts import Artifact
from jobs.vocabulary import job
from transformer.config import END, PAD, START, SUBWORDS, UNKNOWN
from transformer.subwords import Subwords


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return write_corpus(tmp_path_factory.mktemp("corpora") / "c", invent(600))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(corpora: Artifact, kind: str) -> None:
    config = replace(SMALL, kind=kind, sample_pairs=300)
    first, again = job.learn(config, corpora), job.learn(config, corpora)
    assert first == again
    assert job.learn(replace(config, seed=2), corpora)[0] != first[0]


def test_ids_are_the_projects_and_nothing_is_unknown(corpora: Artifact) -> None:
    model, listing, sampled = job.learn(SMALL, corpora)
    processor = SentencePieceProcessor(model_proto=model)
    assert (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()) == (
        PAD,
        UNKNOWN,
        START,
        END,
    )
    strange = "Ж 漢字 😀 ĳ ž"
    ids = processor.encode(strange)
    assert UNKNOWN not in ids
    assert Subwords(model).decode(ids) == "Ж 漢字 😀 ij ž"
    assert len(listing.splitlines()) == len(processor) == SMALL.size
    assert sampled == 600


def test_bpe_learns_the_same_from_counts_of_words_as_from_sentences(corpora: Artifact) -> None:
    model, _, _ = job.learn(SMALL, corpora)
    plain = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([text for pair in invent(600) for text in pair]), model_writer=plain, model_type="bpe",
        vocab_size=400, byte_fallback=True, character_coverage=job.COVERAGE, pad_id=PAD, unk_id=UNKNOWN,
        bos_id=START, eos_id=END, minloglevel=2,
    )  # fmt: skip
    ours, theirs = SentencePieceProcessor(model_proto=model), SentencePieceProcessor(model_proto=plain.getvalue())
    assert [ours.id_to_piece(i) for i in range(400)] == [theirs.id_to_piece(i) for i in range(400)]


def sampled(corpora: Artifact, config: VocabularyConfig, rows: int = 1000) -> list[tuple[str, str]]:
    """The pairs of a sample, read in pieces of so many."""
    files = pair_files.files(corpora)
    sample, first, taken = job.draw(config, sum(count for _, count in files)), 0, []
    for piece in pair_files.cut(files, rows):
        for table in numbered_tables(corpora, piece, first):
            taken += [(row["source"], row["target"]) for row in sample.of(table).to_pylist()]
        first += piece.pairs
    assert len(taken) == sample.pairs
    return taken


def test_the_sample_is_seeded_bounded_and_of_whole_pairs(corpora: Artifact) -> None:
    pairs = invent(600)
    config = VocabularyConfig(size=400, sample_pairs=100)
    taken = sampled(corpora, config)
    assert 60 <= len(taken) <= 100
    assert set(taken) <= set(pairs)
    assert taken == sampled(corpora, config, rows=37), "however the corpus is cut"
    assert taken != sampled(corpora, replace(config, seed=2))
    assert sampled(corpora, replace(config, sample_pairs=10_000)) == pairs
    full = [seed for seed in range(20) if len(sampled(corpora, replace(config, seed=seed))) == 100]
    assert 3 < len(full) < 17, "about half of all draws would have given more"


def test_the_lottery_is_fair_and_the_same_for_ever() -> None:
    drawn = job.uniform_numbers(np.arange(200_000, dtype=np.uint64), seed=1)
    assert abs(drawn.mean() - 0.5) < 0.003
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.01
    assert [round(float(number), 6) for number in drawn[:3]] == [0.240837, 0.624345, 0.380255]


def test_a_vocabulary_that_the_text_cannot_fill_is_refused_with_the_largest_that_it_can(corpora: Artifact) -> None:
    with pytest.raises(UserError, match=r"vocabulary\.size=30000 is more than the text supports") as refused:
        job.learn(VocabularyConfig(size=30_000), corpora)
    largest = int(re.findall(r"at most (\d+) subwords", str(refused.value))[0])
    model, _, _ = job.learn(VocabularyConfig(size=largest), corpora)
    assert len(Subwords(model)) == largest


def test_a_vocabulary_too_small_for_the_letters_is_refused(tmp_path: Path) -> None:
    many = [("".join(chr(0x4E00 + i) for i in range(100)), "a b c")] * 20
    with pytest.raises(UserError, match=r"vocabulary\.size=300 is too small.*Set vocabulary\.size to \d+"):
        job.learn(VocabularyConfig(size=300), write_corpus(tmp_path / "c", many))


@pytest.mark.parametrize(("pairs", "sentence"), [([], "There are no pairs in"), ([("", "")] * 3, "There is no text")])
def test_an_empty_corpus_is_refused(tmp_path: Path, pairs: list[tuple[str, str]], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        job.learn(SMALL, write_corpus(tmp_path / "c", pairs, files=1))


@pytest.mark.ray
def test_the_job_learns_on_ray_and_passes_a_sentence_on(
    corpora: Artifact, tmp_path: Path, ray_session: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, said = Artifact(str(tmp_path / "out")), []
    learned = job.learn(SMALL, corpora)

    def refuse(*_: object) -> None:
        raise AssertionError("read by the driver")

    monkeypatch.setattr(pair_files, "read", refuse)
    monkeypatch.setattr(job, "PIECE_PAIRS", 111)
    facts = job.run(SMALL, corpora=corpora, out=out, on=HERE, log=said.append)
    assert (out.read_bytes(SUBWORDS), out.read_text(job.LISTING), facts["sampled_pairs"]) == learned
    assert facts["vocabulary_size"] == 400
    assert facts["sampled_pairs"] == 600
    assert any(isinstance(event, Note) and "600 pairs" in event.text for event in said)
    with pytest.raises(UserError, match="more than the text supports"):
        job.run(VocabularyConfig(size=30_000), corpora=corpora, out=out, on=HERE, log=said.append)
