"""A vendor's times without the silence that was sent beside the caller's audio."""

from __future__ import annotations

import math

import pytest

from gw.wire.added_silence import AddedSilence


def test_times_leave_silences_out():
    times = AddedSilence()
    times.add(1.0, 0.5)
    times.add(3.0, 2.0)
    assert [times.own_s(at_s) for at_s in (0.5, 1.2, 1.5, 3.0, 4.0, 6.0)] == [0.5, 1.0, 1.0, 2.5, 2.5, 3.5]


def test_silences_before_an_answer_are_forgotten_and_still_left_out():
    times = AddedSilence()
    for n in range(1_000):
        times.add(n * 2.0, 0.5)
        times.answered(n * 2.0 + 0.5)
    assert times.own_s(1_999.5) == pytest.approx(1_499.5)
    assert len(times._silences) == 0


@pytest.mark.parametrize("time", [None, -1.0, math.inf, math.nan])
def test_impossible_times_count_as_the_beginning(time):
    times = AddedSilence()
    times.add(0.0, 1.0)
    times.answered(time)
    assert times.own_s(time) == 0.0
