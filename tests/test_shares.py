"""Rows of a table share the whole cluster: none of it is idle while a row could use it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from step_job import StepConfig, stage

from jobs.cluster.profiles import load_profile
from jobs.configs import Resources, TrainResources, TranslateResources
from jobs.stage import Stage
from jobs.train.stage import TRAIN
from jobs.translate.stage import TRANSLATE
from pipelines.execution.shares import Shares
from pipelines.steps.step import Step


def steps(count: int, of: Stage = TRAIN) -> list[Step]:
    return [Step(stage=of, config=StepConfig(value=number)) for number in range(count)]


def workers(shares: Shares, waiting: list[Step]) -> list[int]:
    """Of each step that starts; it waits no longer."""
    started = shares.start(waiting)
    for step, _ in started:
        waiting.remove(step)
    return [on.train.workers for _, on in started]


@settings(deadline=None)
@given(
    gpus=st.integers(1, 64), most=st.integers(1, 12), rows=st.integers(1, 40), cpus=st.sampled_from((0.5, 1.0, 4.0)),
    data=st.data(),
)  # fmt: skip
def test_no_gpu_is_idle_while_a_row_could_use_it(
    gpus: int, most: int, rows: int, cpus: float, data: st.DataObject
) -> None:
    on = Resources(train=TrainResources(workers=most, cpus_per_worker=cpus, gpus_per_worker=1))
    shares = Shares(on, {"CPU": 64 * cpus, "GPU": gpus})
    waiting, running = steps(rows), dict[str, tuple[Step, int]]()
    while waiting or running:
        for step, share in shares.start(waiting):
            waiting.remove(step)
            running[step.key] = step, share.train.workers
            assert 1 <= share.train.workers <= most
        used = sum(count for _, count in running.values())
        assert used <= gpus
        if len(running) + len(waiting) == rows:
            assert used >= min(gpus, most * rows)
        assert not waiting or used == gpus
        ended, _ = running.pop(data.draw(st.sampled_from(sorted(running))))
        shares.release(ended)


def test_the_remainder_is_used_too() -> None:
    assert workers(Shares(load_profile("gpu32"), {"CPU": 256, "GPU": 32}), steps(5)) == [7, 7, 6, 6, 6]
    assert workers(Shares(load_profile("gpu8"), {"CPU": 64, "GPU": 8}), steps(3)) == [3, 3, 2]
    assert workers(Shares(load_profile("cpu-cluster"), {"CPU": 64}), steps(2)) == [5, 5]


def test_gpu32_is_full_from_four_rows_on() -> None:
    for rows in range(1, 41):
        used = sum(workers(Shares(load_profile("gpu32"), {"CPU": 256, "GPU": 32}), steps(rows)))
        assert used == min(32, 8 * rows)


def test_a_laptop_does_as_it_did() -> None:
    for rows, shares in ((1, [2]), (2, [1, 1]), (20, [1, 1])):
        assert workers(Shares(load_profile("laptop"), {"CPU": 2}), steps(rows)) == shares


def test_the_next_row_takes_what_ended_and_no_more() -> None:
    shares, waiting = Shares(load_profile("gpu8"), {"CPU": 64, "GPU": 8}), steps(9)
    first = waiting[0]
    assert workers(shares, waiting) == [1] * 8
    assert workers(shares, waiting) == []
    shares.release(first)
    assert workers(shares, waiting) == [1]


def test_a_training_waits_for_a_short_step_and_does_not_start_on_half_of_the_workers() -> None:
    shares = Shares(load_profile("laptop"), {"CPU": 2})
    (short,), training = steps(1, stage("short")), steps(1)
    assert [step for step, _ in shares.start([short, *training])] == [short]
    shares.release(short)
    assert workers(shares, training) == [2]


def test_with_nothing_running_what_does_not_fit_is_started_for_its_job_to_say_so() -> None:
    on = load_profile("gpu8")
    assert workers(Shares(on, {"CPU": 64}), steps(1)) == [8]
    assert workers(Shares(on, {"CPU": 64}), steps(3)) == [8], "the others wait for what becomes of it"


def test_translations_and_trainings_share_alike() -> None:
    on = replace(Resources(), translate=TranslateResources(actors=8, gpus_per_actor=1))
    on = replace(on, train=TrainResources(workers=8, gpus_per_worker=1))
    started = Shares(on, {"CPU": 64, "GPU": 16}).start([*steps(1, TRANSLATE), *steps(2)])
    assert [share.translate.actors for _, share in started[:1]] == [6]
    assert [share.train.workers for _, share in started[1:]] == [5, 5]
