"""Laws of the search: greedy, exhaustive and full decoding are its corners, and no sentence sees its neighbours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer import beam
from transformer.batching import Ragged, padded
from transformer.beam import Hypothesis, forced, search
from transformer.config import END, PAD, START, ModelConfig, SearchConfig
from transformer.decoder_cache import DecoderCache
from transformer.model import Transformer
from transformer.unpadded import Rectangle

TINY = ModelConfig(layers=2, d_model=16, d_ff=32, num_heads=2)
PAPER = SearchConfig(extra_length=6)
seeds = st.integers(0, 10_000)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def opinionated(seed: int, vocabulary: int = 12, config: ModelConfig = TINY) -> Transformer:
    """A random model with clear preferences, which ends its translations now and then."""
    torch.manual_seed(seed)
    model = Transformer(config, vocabulary).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return model


def sentences(seed: int, count: int, vocabulary: int = 12, longest: int = 9) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, longest + 1, (count,), generator=generator).tolist()
    return [torch.randint(END + 1, vocabulary, (length,), generator=generator).tolist() for length in lengths]


@torch.no_grad()
def log_probabilities(model: Transformer, source: Sequence[int], prefix: Sequence[int]) -> torch.Tensor:
    """Of every next subword, by the whole model from scratch."""
    logits = model(torch.tensor([[*source, END]]), torch.tensor([[START, *prefix]]))[0, -1]
    return logits.double().log_softmax(dim=-1)


def penalised(log_probability: float, length: int, alpha: float) -> float:
    return float(log_probability / ((5 + length) / 6) ** alpha)


def slow_search(model: Transformer, source: Sequence[int], config: SearchConfig) -> list[Hypothesis]:
    """The definition in beam.py, literally: one sentence, no cache, no early stop."""
    limit = len(source) + config.extra_length
    living: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[Hypothesis] = []
    favourite = False
    while living and not (favourite and len(finished) >= config.beam):
        extensions = []
        for score, ids in living:
            following = log_probabilities(model, source, ids)
            allowed = [END] if len(ids) == limit else range(END, len(following))
            extensions += [(score + float(following[token]), ids, token) for token in allowed]
        extensions.sort(key=lambda extension: -extension[0])
        favourite |= extensions[0][2] == END
        for score, ids, token in extensions[: config.beam]:
            if token == END:
                finished.append(Hypothesis(ids, penalised(score, len(ids) + 1, config.alpha), score))
        living = [(score, (*ids, token)) for score, ids, token in extensions if token != END][: config.beam]
    return sorted(finished, key=lambda hypothesis: -hypothesis.score)[: config.n_best]


def assert_same(ours: list[Hypothesis], theirs: list[Hypothesis]) -> None:
    assert [h.ids for h in ours] == [h.ids for h in theirs]
    assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-4)


@settings(max_examples=8, deadline=None)
@given(seed=seeds, width=st.integers(1, 5), alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]), data=st.data())
def test_fast_search_is_slow_search(seed: int, width: int, alpha: float, data: st.DataObject) -> None:
    """Cache, batching, early stop and leaving the batch change nothing."""
    n_best = data.draw(st.integers(1, width))
    config = SearchConfig(beam=width, alpha=alpha, extra_length=4, n_best=n_best)
    model, sources = opinionated(seed), sentences(seed, 4, longest=5)
    for ours, source in zip(search(model, sources, config), sources, strict=True):
        assert_same(ours, slow_search(model, source, config))


@settings(max_examples=10, deadline=None)
@given(seed=seeds, alpha=st.sampled_from([0.0, 0.6, 1.5]))
def test_beam_one_is_greedy(seed: int, alpha: float) -> None:
    model, (source,) = opinionated(seed), sentences(seed, 1)
    ids: list[int] = []
    while len(ids) < len(source) + PAPER.extra_length:
        following = log_probabilities(model, source, ids)
        following[:END] = -math.inf
        token = int(following.argmax())
        if token == END:
            break
        ids.append(token)
    (found,) = search(model, [source], replace(PAPER, beam=1, alpha=alpha))
    assert found[0].ids == tuple(ids)


@settings(max_examples=8, deadline=None)
@given(seed=seeds, alpha=st.sampled_from([0.0, 0.6, 2.0]))
def test_a_wide_beam_finds_what_trying_everything_finds(seed: int, alpha: float) -> None:
    vocabulary, longest = END + 3, 3  # two words and END, at most three words
    model, source = opinionated(seed, vocabulary), [END + 1, END + 2]
    words = range(END + 1, vocabulary)
    everything = [ids for length in range(longest + 1) for ids in itertools.product(words, repeat=length)]
    scores = forced(model, [source] * len(everything), everything)
    ranked = sorted(
        (-penalised(score.log_probability, score.tokens, alpha), ids)
        for score, ids in zip(scores, everything, strict=True)
    )
    config = SearchConfig(beam=len(everything), alpha=alpha, extra_length=longest - len(source), n_best=3)
    (found,) = search(model, [source], config)
    assert [h.ids for h in found] == [ids for _, ids in ranked[:3]]
    assert [-h.score for h in found] == pytest.approx([score for score, _ in ranked[:3]], abs=1e-4)


@settings(max_examples=8, deadline=None)
@given(seed=seeds, config=st.sampled_from([TINY, replace(TINY, norm="pre", d_k=4, d_v=12, positions="learned")]))
def test_cached_decoding_is_full_decoding(seed: int, config: ModelConfig) -> None:
    """Whoever goes on from whom, a step against the cache gives what the whole prefix gives."""
    model = opinionated(seed, config=config).double()
    generator = torch.Generator().manual_seed(seed)
    source = torch.from_numpy(padded(Ragged.of(sentences(seed, 3)), last=END))
    prefixes = torch.full((3, 1, 1), START)
    cache = DecoderCache(model, source)
    for step in range(9):
        with torch.no_grad():
            ours_NWD = cache.step(prefixes[:, :, -1]).view(*prefixes.shape[:2], -1)
            memory = model.encode(source, Rectangle.of(source))
            for w in range(prefixes.size(1)):
                rows = Rectangle.of(prefixes[:, w])
                full_NTD = rows.unpack(model.decode(prefixes[:, w], rows, memory))
                torch.testing.assert_close(ours_NWD[:, w], full_NTD[:, -1], atol=1e-9, rtol=1e-9)
        parents = torch.randint(0, prefixes.size(1), (source.size(0), 3), generator=generator)
        tokens = torch.randint(END + 1, 12, (source.size(0), 3, 1), generator=generator)
        past = prefixes.gather(1, parents.unsqueeze(2).expand(-1, -1, prefixes.size(2)))
        prefixes = torch.cat((past, tokens), dim=2)
        cache.follow(parents)
        if step == 4:  # a sentence leaves
            rows = torch.tensor([0, 2])
            cache.select(rows)
            source, prefixes = source[rows], prefixes[rows]


def test_the_store_grows_with_length_and_not_with_beam_times_length() -> None:
    """Hypotheses that all go on from one leave the others' slots free."""
    model = opinionated(1)
    cache = DecoderCache(model, torch.tensor([[5, END]]))
    for _ in range(40):
        width = cache.past_NWC.size(1)
        cache.step(torch.full((1, width), 5))
        cache.follow(torch.zeros(1, 4, dtype=torch.long))
    assert cache.past_NWC.size(2) <= 40 + 4


@settings(max_examples=3, deadline=None)
@given(seed=seeds, data=st.data())
def test_a_translation_does_not_depend_on_its_batch(seed: int, data: st.DataObject) -> None:
    model, sources = opinionated(seed), sentences(seed, 20, longest=5)
    config = replace(PAPER, n_best=2, extra_length=3)
    alone = [search(model, [source], config)[0] for source in sources]
    order = data.draw(st.permutations(range(len(sources))))
    size = data.draw(st.integers(2, 20))
    for some in (order[start : start + size] for start in range(0, len(order), size)):
        for i, found in zip(some, search(model, [sources[i] for i in some], config), strict=True):
            assert_same(found, alone[i])


def test_what_is_done_stays_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences that are done and wait for the others take nothing more in."""
    model, sources = opinionated(3), sentences(3, 12, longest=5)
    fond_of_length = replace(PAPER, beam=2, alpha=3.0)
    leaving = search(model, sources, fond_of_length)
    monkeypatch.setattr(beam, "DONE_SHARE", 2.0)
    waiting = search(model, sources, fond_of_length)
    for ours, theirs in zip(waiting, leaving, strict=True):
        assert_same(ours, theirs)


@settings(max_examples=8, deadline=None)
@given(seed=seeds, width=st.integers(1, 5))
def test_scores_are_the_models_own(seed: int, width: int) -> None:
    """What the search says of a translation is what forcing the model through it says."""
    model, sources = opinionated(seed), sentences(seed, 3)
    config = SearchConfig(beam=width, extra_length=5, n_best=width)
    for source, found in zip(sources, search(model, sources, config), strict=True):
        assert found, "a search finds at least one translation"
        assert len({h.ids for h in found}) == len(found)
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
        for hypothesis, score in zip(found, forced(model, [source] * len(found), [h.ids for h in found]), strict=True):
            assert len(hypothesis.ids) <= len(source) + 5
            assert not {PAD, START, END} & set(hypothesis.ids)
            assert score.tokens == len(hypothesis.ids) + 1
            assert hypothesis.log_probability == pytest.approx(score.log_probability, abs=1e-4)
            assert hypothesis.score == pytest.approx(penalised(score.log_probability, score.tokens, 0.6), abs=1e-4)


def test_forced_scoring_does_not_depend_on_its_batch_or_its_chunks() -> None:
    model, sources, targets = opinionated(3), sentences(3, 6), sentences(4, 6)
    together = forced(model, sources, targets, chunk=5)
    for source, target, score in zip(sources, targets, together, strict=True):
        (alone,) = forced(model, [source], [target])
        assert score.tokens == alone.tokens
        assert score.log_probability == pytest.approx(alone.log_probability, abs=1e-4)
        steps = [float(log_probabilities(model, source, target[:i])[t]) for i, t in enumerate([*target, END])]
        assert score.log_probability == pytest.approx(sum(steps), abs=1e-4)


def test_nothing_in_nothing_out() -> None:
    assert search(opinionated(1), [], PAPER) == []


def test_an_empty_and_a_very_long_source_are_translated() -> None:
    model = opinionated(2)
    sources: list[list[int]] = [[], [5, 6, 7] * 100]
    empty, long = search(model, sources, replace(PAPER, beam=2, extra_length=2))
    assert len(empty[0].ids) <= 2
    assert len(long[0].ids) <= 302


def test_damaged_weights_are_named() -> None:
    model = opinionated(1)
    with torch.no_grad():
        model.embedding.weight.fill_(math.nan)
    with pytest.raises(ValueError, match="not numbers"):
        search(model, [[5]], PAPER)


def test_the_length_penalty_is_the_papers() -> None:
    assert float(beam.length_penalty(1, 0.6)) == 1.0
    assert float(beam.length_penalty(7, 0.6)) == pytest.approx(2**0.6)
    assert float(beam.length_penalty(30, 0.0)) == 1.0


@settings(max_examples=20, deadline=None)
@given(seed=seeds, vocabulary=st.sampled_from([5, 63, 64, 65, 200, 1100]), count=st.integers(1, 8))
def test_the_most_probable_words_are_found_without_sorting_all(seed: int, vocabulary: int, count: int) -> None:
    torch.manual_seed(seed)
    model = Transformer(replace(TINY, layers=1), vocabulary)
    with torch.no_grad():
        model.embedding.weight.mul_(10)
        hidden = torch.randn(6, TINY.d_model)
        logits = beam.logits(model, hidden)
        torch.testing.assert_close(logits, model.logits(hidden))
        top, tokens, totals = beam.most_probable(logits.clone(), count)
    torch.testing.assert_close(totals, logits.logsumexp(dim=1))
    sayable = logits.clone()
    sayable[:, :END] = -math.inf
    expected = sayable.topk(min(count, vocabulary), dim=1)
    torch.testing.assert_close(top, expected.values)
    assert torch.equal(tokens[top > -math.inf], expected.indices[top > -math.inf])


def test_improbable_early_ends_do_not_cut_off_what_the_model_is_sure_of() -> None:
    """A model that says "a" with probability 0.9 whatever came before, END with 0.06, "b" and "c" with 0.02 each."""
    model = opinionated(1, vocabulary=END + 4)
    wanted = torch.tensor([1e-9, 1e-9, 1e-9, 0.06, 0.9, 0.02, 0.02]).log()
    with torch.no_grad():
        model.embedding.weight.zero_()
        model.embedding.weight[:, 0] = wanted
        last = model.decoder_layers[-1].around_feed_forward.norm
        last.weight.zero_()
        last.bias.zero_()
        last.bias[0] = 1.0
    (found,) = search(model, [[END + 1] * 4], SearchConfig(extra_length=6, n_best=1))
    assert found[0].ids == (END + 1,) * 10
    assert found[0].log_probability == pytest.approx(10 * math.log(0.9) + math.log(0.06), abs=1e-3)
