from __future__ import annotations

from gw.policy.response_times import ENOUGH, WINDOW, ResponseTimes


def test_too_few_answers_have_no_percentile():
    times = ResponseTimes()
    for _ in range(ENOUGH - 1):
        times.add("m", 1.0)
    assert times.p95("m") is None
    assert times.p95("unknown") is None


def test_the_percentile_is_of_the_latest_answers_of_one_candidate():
    times = ResponseTimes()
    for number in range(WINDOW):
        times.add("m", number / 100)
        times.add("other", 9.0)
    assert times.p95("m") == 0.57  # the 58th of the first 60: it is taken anew after every eighth answer
    for _ in range(WINDOW):
        times.add("m", 5.0)
    assert times.p95("m") == 5.0


def test_the_number_of_candidates_is_bounded():
    times = ResponseTimes()
    for number in range(2_500):
        for _ in range(ENOUGH + 8):
            times.add(number, 1.0)
    assert times.p95(0) is None
    assert times.p95(2_499) == 1.0
