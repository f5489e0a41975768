from __future__ import annotations

import random

import pytest

from gw.policy.answer_times import LEAST, AnswerTimes, Durations


def durations(values):
    made = Durations()
    for value in values:
        made.add(value)
    return made


def test_a_percentile_needs_values():
    assert durations([1.0] * (LEAST - 1)).p99_s is None
    assert durations([1.0] * LEAST).p99_s is not None


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.6), (0.5, 3.0), (0.05, 0.06), (6.0, 12.0)])
def test_the_percentile_is_at_most_a_fifth_too_high(low, high):
    chance = random.Random(1)
    values = [chance.uniform(low, high) for _ in range(1_500)]
    exact = sorted(values)[int(len(values) * 0.99)]
    assert exact * 0.97 <= durations(values).p99_s <= exact * 1.25


def test_it_is_the_bound_above_all_but_a_hundredth_of_the_values():
    chance = random.Random(2)
    for count in (LEAST, 99, 100, 101, 250, 1_999):
        values = sorted(chance.choice((0.01, 0.06, 0.3, 2.0, 20.0)) for _ in range(count))
        reached = values[-1 - count // 100]
        assert durations(values).p99_s == durations([reached] * LEAST).p99_s
    assert durations([0.01] * LEAST).p99_s == 0.05


def test_one_slow_answer_in_a_hundred_does_not_count():
    assert durations([0.3] * 199 + [9.0]).p99_s < 0.4
    assert durations([0.3] * 95 + [9.0] * 5).p99_s > 8


def test_old_values_fade():
    made = durations([5.0] * 1_999)
    for _ in range(20_000):
        made.add(0.2)
    assert made.p99_s < 0.3


def test_values_beyond_the_buckets_count_as_the_longest_and_shortest():
    assert durations([100.0] * 40).p99_s > 10
    assert durations([0.0] * 40).p99_s == pytest.approx(0.05)


def test_each_model_has_its_own_times():
    times = AnswerTimes()
    times.of("a/x").after_speech.add(1.0)
    assert times.of("a/x") is times.of("a/x")
    assert times.of("a/x") is not times.of("b/x")


def test_the_model_used_longest_ago_is_forgotten():
    times = AnswerTimes()
    first = times.of("a/0")
    second = times.of("a/1")
    for n in range(2, 512):
        times.of(f"a/{n}")
    assert times.of("a/0") is first
    times.of("a/512")
    assert times.of("a/0") is first
    assert times.of("a/1") is not second


def test_it_is_computed_anew_for_a_hundredth_more_of_values():
    made = durations([0.1] * 1_000)
    before_s = made.p99_s
    for _ in range(9):
        made.add(9.0)
    assert made.p99_s == before_s
    for _ in range(9):
        made.add(9.0)
    assert made.p99_s > 8
