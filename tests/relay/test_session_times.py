from __future__ import annotations

import math

import pytest

from gw.relay.session_times import TimeMap, is_covered, shifted, within
from gw.types.stt import Final, Interim, ListenEnd, SpeechStarted, UtteranceEnd, VendorFrame, Word

TIMES = TimeMap([(10.0, 11.0), (15.0, 16.5), (20.0, math.inf)])


def test_a_session_without_a_predecessor_has_its_own_times():
    assert TimeMap([(0.0, math.inf)]).is_same
    assert not TimeMap([(0.5, math.inf)]).is_same
    assert not TIMES.is_same


@pytest.mark.parametrize(
    ("sent_s", "start_s", "end_s"),
    [
        (0.0, 10.0, 10.0), (0.5, 10.5, 10.5), (1.0, 15.0, 11.0), (2.0, 16.0, 16.0), (2.5, 20.0, 16.5), (4.0, 21.5, 21.5),
    ],
)  # fmt: skip
def test_times_of_what_was_left_out_are_added(sent_s, start_s, end_s):
    assert (TIMES.start(sent_s), TIMES.end(sent_s)) == pytest.approx((start_s, end_s))


def test_an_event_is_moved_with_its_words_and_loses_its_frame():
    words = (Word(text="a", start_s=0.5, end_s=1.0), Word(text="b", start_s=1.0, end_s=2.0))
    moved = shifted(Final(text="a b", start_s=0.5, end_s=2.0, words=words, raw="frame"), TIMES)
    assert (moved.start_s, moved.end_s, moved.raw) == (10.5, 16.0, None)
    assert [(word.start_s, word.end_s) for word in moved.words] == [(10.5, 11.0), (15.0, 16.0)]
    assert shifted(SpeechStarted(at_s=1.0), TIMES).at_s == 15.0
    assert shifted(UtteranceEnd(at_s=1.0), TIMES).at_s == 11.0
    assert shifted(ListenEnd(raw="x"), TIMES).raw is None
    assert shifted(VendorFrame(raw="x"), TIMES).raw == "x"


def test_what_is_covered():
    assert is_covered(Interim(text="a", start_s=0, end_s=1.0), 1.0)
    assert not is_covered(Final(text="a", start_s=0, end_s=1.1), 1.0)
    assert is_covered(SpeechStarted(at_s=0.5), 1.0)
    assert not is_covered(ListenEnd(), 1.0)


def test_times_that_cannot_be_are_the_nearest_ones():
    words = (Word(text="a", start_s=-1e308, end_s=1.0), Word(text="b", start_s=math.nan, end_s=1e308))
    odd = Final(text="a b", start_s=-0.5, end_s=math.inf, words=words, raw="frame")
    sane = Interim(text="a", start_s=0.0, end_s=9.0, words=(Word(text="a", start_s=0.5, end_s=1.0),), raw="frame")
    events = within([odd, sane, SpeechStarted(at_s=1e308), UtteranceEnd(at_s=-1.0, raw="frame"), ListenEnd()], 10.0)
    assert (events[0].start_s, events[0].end_s, events[0].raw) == (0.0, 10.0, None)
    assert [(word.start_s, word.end_s) for word in events[0].words] == [(0.0, 1.0), (10.0, 10.0)]
    assert (events[1], events[4]) == (sane, ListenEnd())
    assert events[1] is sane
    assert (events[2].at_s, events[3].at_s, events[3].raw) == (10.0, 0.0, None)
    same = [sane, VendorFrame(raw="x")]
    assert within(same, 10.0) is same
