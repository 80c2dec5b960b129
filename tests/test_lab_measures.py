"""What the lab measures: exact properties are exact, known figures come back, and a variant differs in one thing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from jobs.lab import heads, mask, memory, positions, residual, scaling
from jobs.lab.bench import Bench
from jobs.lab.configs import HeadsConfig, MaskConfig, MemoryConfig, PositionsConfig, ResidualConfig, ScalingConfig
from jobs.lab.draws import Try, tuned
from jobs.lab.pruning import all_heads
from jobs.lab.recurrent import RecurrentTranslator, matched
from jobs.lab.sequences import Task
from jobs.lab.text_training import greedy, greedy_by_prefix
from jobs.lab.variants import around_sublayers, seeded, without_mask
from transformer.batching import collate
from transformer.config import END, ModelConfig
from transformer.model import count_parameters

TINY = ModelConfig(layers=2, d_model=16, d_ff=32, num_heads=2, dropout=0.0)
SENTENCES = [[5, 6, 7], [8, 9], [10, 11, 12, 13, 14]]


def test_scaling_comes_to_the_figures_of_an_independent_measurement() -> None:
    """64 keys: entropy and median norm of the Jacobian without scaling, as measured elsewhere on 4,000 draws."""
    config = ScalingConfig(draws=2_000)
    known = {4: (2.81, 0.26), 16: (1.38, 0.33), 64: (0.58, 0.19), 256: (0.27, 0.024)}
    for d_k, (entropy, norm) in known.items():
        found = scaling.at_initialisation(scaling.Point(config, d_k, scaled=False))
        assert found["entropy"] == pytest.approx(entropy, rel=0.08)
        assert found["jacobian_median"] == pytest.approx(norm, rel=0.2)
        scaled = scaling.at_initialisation(scaling.Point(config, d_k, scaled=True))
        assert 3.6 < scaled["entropy"] < 3.8
        assert 0.16 < scaled["jacobian_median"] < 0.19


def test_the_norm_of_the_jacobian_is_that_of_the_jacobian() -> None:
    scores = torch.randn(9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(dim=0), scores)
    assert float(scaling.jacobian_norm(scores.softmax(dim=0)[None])[0]) == pytest.approx(float(jacobian.norm()))


def test_the_mask_is_exact() -> None:
    found = mask.exact_effect(MaskConfig(model=TINY))["figures"]
    assert found["future_finite"] == 0
    assert found["leak"] == 0.0
    assert found["leak_without"] > 1e-3, "without the mask the same change is seen"


def test_without_positions_order_means_nothing_and_sinusoids_shift_by_one_matrix() -> None:
    found = positions.exact_properties(PositionsConfig())["figures"]
    assert found["permutation_error"] < 1e-5 < found["permutation_difference"]
    assert found["shift_error"] < 1e-5


def test_a_variant_that_changes_nothing_is_the_paper_s_model_bit_for_bit() -> None:
    batch = collate(SENTENCES, SENTENCES)
    for norm in ("post", "pre"):
        config = replace(TINY, norm=norm)
        plain = seeded(config, 20, 1).eval()
        variant = around_sublayers(seeded(config, 20, 1), norm="layer", residual=True).eval()
        assert torch.equal(plain.hidden_rows(batch), variant.hidden_rows(batch))
        other = around_sublayers(seeded(config, 20, 1), norm="layer", residual=False).eval()
        assert not torch.equal(plain.hidden_rows(batch), other.hidden_rows(batch))


def test_without_the_mask_padding_still_changes_nothing() -> None:
    model = without_mask(seeded(TINY, 20, 1)).eval()
    together = model.hidden_rows(collate(SENTENCES, SENTENCES))
    alone = torch.cat([model.hidden_rows(collate([ids], [ids])) for ids in SENTENCES])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_greedy_by_prefix_is_the_project_s_greedy_search() -> None:
    model = seeded(TINY, 20, 3)
    assert greedy_by_prefix(model)(SENTENCES) == greedy(model)(SENTENCES)


def test_the_recurrent_translator_has_as_many_parameters_and_ignores_padding() -> None:
    wanted = count_parameters(seeded(TINY, 200, 1))
    hidden = matched(16, wanted, 200)
    torch.manual_seed(1)
    model = RecurrentTranslator(16, hidden, 200).eval()
    assert count_parameters(model) == pytest.approx(wanted, rel=0.05)
    together = model.hidden_rows(collate(SENTENCES, SENTENCES))
    alone = torch.cat([model.hidden_rows(collate([ids], [ids])) for ids in SENTENCES])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_the_recurrent_translator_generates_what_it_predicts() -> None:
    torch.manual_seed(2)
    model = RecurrentTranslator(16, 24, 20).eval()
    for source, said in zip(SENTENCES, model.generate(SENTENCES, extra=3), strict=True):
        logits_NV = model.logits(model.hidden_rows(collate([source], [said])))
        logits_NV[:, :END] = -torch.inf
        assert logits_NV.argmax(dim=1)[: len(said)].tolist() == said


def test_removing_a_head_is_computing_without_it() -> None:
    model = seeded(TINY, 20, 1).eval()
    batch = collate(SENTENCES, SENTENCES)
    found = all_heads(model)
    assert len(found) == 2 * 2 * 3, "layers x heads x kinds of attention"
    before = model.hidden_rows(batch)
    kept = found[0].columns().clone()
    found[0].columns().zero_()
    assert not torch.equal(model.hidden_rows(batch), before)
    found[0].columns().copy_(kept)
    assert torch.equal(model.hidden_rows(batch), before)


def test_heads_that_look_alike_diverge_by_nothing() -> None:
    p = torch.tensor([[0.7, 0.3, 0.0]], dtype=torch.float64)
    q = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)
    assert float(heads.divergence(p, p)) == pytest.approx(0)
    assert float(heads.divergence(p, q)) == pytest.approx(math.log(2))


def test_four_neighbours_are_learned_only_from_where_they_stand() -> None:
    point = Try(heads.Point(HeadsConfig(updates=3), 4), 1e-3, 0)
    assert heads.learn_neighbours(point) == heads.learn_neighbours(point)


class Aside(Bench):
    """Points one after the other in this process."""

    def each(self, act: Any, items: Any, cpus: float = 1) -> list[Any]:
        return [act(item) for item in items]


def test_every_side_is_tuned_over_the_same_rates_and_drawn_again_at_its_best() -> None:
    best = {"few": 0.1, "many": 0.3}
    seen: list[Try] = []

    def act(one: Try) -> dict[str, float]:
        seen.append(one)
        return {"loss": abs(one.rate - best[one.side]) + one.draw}

    few, many = tuned(Aside(print), act, ["few", "many"], (0.3, 0.1, 0.2), 3)
    assert [(one.side, one.rate) for one in seen if one.draw == 0] == [(s, r) for s in best for r in (0.1, 0.2, 0.3)]
    assert (few.rate, many.rate, few.at_edge, many.at_edge) == (0.1, 0.3, True, True)
    assert [(one.side, one.rate, one.draw) for one in seen if one.draw] == [
        ("few", 0.1, 1), ("few", 0.1, 2), ("many", 0.3, 1), ("many", 0.3, 2),
    ]  # fmt: skip
    assert few.figures("few") == {
        "few/loss": 1.0, "few/loss_least": 0.0, "few/loss_most": 2.0, "few/rate": 0.1, "few/at_edge": 1.0,
    }  # fmt: skip


def test_another_draw_is_another_training() -> None:
    config = ResidualConfig(model=replace(TINY, num_heads=2), updates=3, warmup=1)
    variant = residual.Variant(config, residual.KINDS[0])
    first, again, other = (residual.train_deep(Try(variant, 1e-3, draw)) for draw in (0, 0, 1))
    assert first == again
    assert first["loss"] != other["loss"]
    assert first["first_over_last"] != other["first_over_last"]


def test_a_task_reverses_and_mixes_lengths() -> None:
    batch = Task(8, 3, 6).batch(50, np.random.default_rng(1))
    lengths = (batch.source_BS > END).sum(dim=1)
    assert set(lengths.tolist()) == {3, 4, 5, 6}
    first = batch.source_BS[0][: int(lengths[0])].tolist()
    assert batch.gold_N[: len(first)].tolist() == first[::-1]


def test_an_exponent_is_a_slope_over_the_longest_lengths() -> None:
    points = [(float(n), 5.0 + n**2 / 1e6) for n in (64, 128, 8192, 16384, 32768)]
    assert memory.exponent(points) == pytest.approx(2.0, abs=0.1)


@pytest.mark.slow
def test_peak_memory_is_measured_to_a_few_percent() -> None:
    config = MemoryConfig(d_model=64, num_heads=2, tries=1)
    tensor = memory.in_own_process(memory.Point(config, "calibration", 64))
    assert tensor["megabytes"] == pytest.approx(64, rel=0.05)
    written = memory.in_own_process(memory.Point(config, "written out", 2048))["backward_mb"]
    fused = memory.in_own_process(memory.Point(config, "fused", 2048))["backward_mb"]
    scores_mb = 2 * 2048**2 * 4 / 2**20
    assert written > 2 * scores_mb, "scores, softmax and a gradient"
    assert fused < scores_mb


@pytest.mark.slow
def test_how_far_a_gradient_reaches() -> None:
    found = memory.gradients_by_distance(MemoryConfig(distances=(1, 16)))["figures"]
    assert found["attention/gradient/far"] > 0.5 * found["attention/gradient/near"]
    assert found["LSTM/gradient/far"] < 0.1 * found["LSTM/gradient/near"]
    assert found["convolution/layers"] == 16, "one position to either side per layer"
