from __future__ import annotations

from gw.policy.recent_times import MOST, RecentTimes


def made(count):
    times = RecentTimes()
    times.follow(["m"])
    for number in range(count):
        times.add("m", "chat", 0.1, float(number))
    return times


def test_samples_keep_their_order_and_moment():
    assert list(made(3).of("m", "chat")) == [(0.0, 0.1), (1.0, 0.1), (2.0, 0.1)]


def test_kinds_of_calls_are_apart_and_models_that_are_not_followed_are_not_kept():
    times = made(1)
    times.add("other", "chat", 1.0, 0.0)
    assert (times.of("m", "speech"), times.of("other", "chat")) == ((), ())
    times.follow([])
    assert times.of("m", "chat") == ()


def test_memory_is_bounded():
    samples = made(1_000).of("m", "chat")
    assert (len(samples), samples[-1]) == (MOST, (999.0, 0.1))
