from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from gw.policy.answer_times import ModelTimes
from gw.policy.silence import END_S, PROBE_S, RUNNING_S, SilenceClock
from gw.types.stt import ListenPace

BEGAN = 100.0
PROMPT = ListenPace(endpoint_s=0.3)


def made(pace=PROMPT, times=None):
    return SilenceClock(pace, times or ModelTimes(), 0.8, BEGAN)


def spoken(clock, seconds, at=BEGAN, frame_s=0.02):
    """Speech in real time; return when it has ended."""
    for _ in range(round(seconds / frame_s)):
        at += frame_s
        clock.hear(at, frame_s)
    return at


def first_overdue(clock, after, quiet_from=None, until_s=60.0):
    """Seconds after `after` at which the clock first complains; it is asked when it says so, and never later."""
    at, quiet_from = after, after if quiet_from is None else quiet_from
    while at < after + until_s:
        if clock.overdue(at, at - quiet_from) is not None:
            return round(at - after, 2)
        look = clock.look_again_at(at, at - quiet_from)
        assert look >= at
        at = max(look, at + 0.01)
    return None


def test_who_has_heard_nothing_owes_nothing():
    clock = made()
    assert not clock.owes
    assert first_overdue(clock, BEGAN) is None


def test_where_nothing_is_owed_nobody_has_to_look_until_something_is():
    clock = made()
    assert clock.look_again_at(BEGAN, math.inf) == math.inf
    end = spoken(clock, 0.02)
    assert clock.look_again_at(end, 0.0) < end + 1
    clock.event(end + 0.5)
    assert clock.look_again_at(end + 0.5, 0.5) == math.inf
    clock.transcript(final=False)
    assert clock.look_again_at(end + 0.5, 0.5) < end + 2
    clock.transcript(final=True)
    clock.finish(end + 1)
    assert clock.look_again_at(end + 1, 1.0) < end + 5


def test_less_speech_than_a_word_is_not_owed_an_answer():
    clock = made()
    assert first_overdue(clock, spoken(clock, 0.18)) is None


def test_an_answer_is_due_so_long_after_the_end_of_speech():
    clock = made()
    assert first_overdue(clock, spoken(clock, 0.4)) == pytest.approx(0.8, abs=0.05)


def test_an_event_after_the_end_of_speech_settles_it():
    clock = made()
    end = spoken(clock, 0.4)
    clock.event(end + 0.7)
    clock.transcript(final=True)
    assert first_overdue(clock, end + 0.7) is None


def test_an_event_during_speech_answers_what_was_before_it():
    clock = made()
    at = spoken(clock, 0.4)
    clock.event(at)
    assert first_overdue(clock, spoken(clock, 0.18, at)) is None
    clock = made()
    at = spoken(clock, 0.4)
    clock.event(at)
    assert first_overdue(clock, spoken(clock, 0.3, at)) == pytest.approx(0.8, abs=0.05)


def test_speech_after_the_last_word_of_a_transcript_is_still_owed_an_answer():
    clock = made()
    at = spoken(clock, 0.6)
    clock.event(at, uncovered_s=0.4)
    assert first_overdue(clock, at) == pytest.approx(0.8, abs=0.05)
    clock = made()
    at = spoken(clock, 0.6)
    clock.event(at + 0.4, uncovered_s=0.4)  # the speech was over: it is a breath, or the answer to all
    assert first_overdue(clock, at + 0.4) is None


def test_an_interim_transcript_is_owed_its_final():
    clock = made(ListenPace(endpoint_s=1.5))
    end = spoken(clock, 0.4)
    clock.event(end + 0.2)
    clock.transcript(final=False)
    assert first_overdue(clock, end + 0.2, quiet_from=end) == pytest.approx(1.5 + 0.8, abs=0.05)


def test_a_pause_counts_in_audio_not_in_time():
    """Whose microphone is muted sends no silence, and an utterance does not end."""
    clock = made(ListenPace(pause_s=0.5, endpoint_s=0.5))
    end = spoken(clock, 0.4)
    assert clock.overdue(end + 30, quiet_s=0.1) is None
    assert clock.overdue(end + 1.2, quiet_s=1.2) is None
    assert clock.overdue(end + 1.4, quiet_s=1.4) is not None


def test_a_recogniser_that_waits_for_a_command():
    clock = made(ListenPace(pause_s=math.inf, endpoint_s=math.inf, running_s=math.inf))
    end = spoken(clock, 5.0)
    assert first_overdue(clock, end) is None
    clock.flush(end + 1)
    assert first_overdue(clock, end + 1) == pytest.approx(0.8, abs=0.05)


def test_a_final_answers_a_flush():
    clock = made()
    end = spoken(clock, 0.4)
    clock.flush(end)
    clock.event(end + 0.5)
    clock.transcript(final=True)
    assert first_overdue(clock, end + 0.5) is None
    clock.flush(end + 1)  # with nothing owed there is nothing to answer
    assert first_overdue(clock, end + 1) is None


def test_speech_after_a_flush_has_its_own_clocks():
    clock = made(ListenPace(pause_s=2.0, endpoint_s=2.0))
    clock.flush(spoken(clock, 0.4))
    end = spoken(clock, 1.0, BEGAN + 0.6)
    assert first_overdue(clock, end) == pytest.approx(2.8, abs=0.05)


def test_a_frame_without_words_answers_a_flush():
    clock = made()
    end = spoken(clock, 1.4)
    clock.flush(end)
    clock.alive(end + 0.3)
    assert first_overdue(clock, end + 0.3) is None


def test_nothing_for_a_long_time_while_somebody_speaks():
    clock = made()
    at = BEGAN
    while clock.overdue(at, 0.0) is None:
        at += 0.02
        clock.hear(at, 0.02)
    assert at - BEGAN == pytest.approx(PROMPT.running_s, abs=0.05)


@pytest.mark.parametrize(("gap_s", "expected_s"), [(0.3, RUNNING_S), (2.0, 4.0)])
def test_running_speech_is_measured_by_the_models_own_times(gap_s, expected_s):
    times = ModelTimes()
    clock, at = made(times=times), BEGAN
    for _ in range(60):
        at = spoken(clock, gap_s, at)
        clock.event(at)
    began = at
    while clock.overdue(at, 0.0) is None:
        at += 0.02
        clock.hear(at, 0.02)
    assert expected_s <= at - began <= 1.25 * expected_s


def test_a_model_that_always_takes_longer_is_given_longer():
    times, at = ModelTimes(), BEGAN
    clock = made(ListenPace(answer_s=4.0), times)
    assert clock.answer_s == 4.0
    for _ in range(60):
        at = spoken(clock, 0.4, at) + 1.0
        clock.event(at)
    assert 1.2 <= clock.answer_s <= 1.6
    for _ in range(10_000):
        times.after_speech.add(0.2)
    assert clock.answer_s == 0.8


def test_the_end_of_a_session():
    clock = made()
    end = spoken(clock, 0.4)
    clock.finish(end)
    assert first_overdue(clock, end) == pytest.approx(0.8, abs=0.1)
    clock = made()
    clock.finish(BEGAN)
    assert first_overdue(clock, BEGAN) == pytest.approx(END_S, abs=0.05)


def test_audio_faster_than_it_was_spoken_gives_more_time():
    clock = made()
    clock.hear(BEGAN, 20.0)
    clock.finish(BEGAN)
    assert first_overdue(clock, BEGAN) == pytest.approx(20 / 4 + 0.8, abs=0.1)


def test_a_greeting_is_no_answer():
    clock = made()
    end = spoken(clock, 0.4)
    clock.alive(end)
    assert first_overdue(clock, end) == pytest.approx(0.8, abs=0.05)
    clock = made()
    end = spoken(clock, 2.0)
    clock.alive(end + 0.4)  # a frame without an event: it has heard nothing
    assert first_overdue(clock, end + 0.4) is None


def test_what_the_caller_held_up_is_not_the_recognisers_fault():
    clock = made()
    end = spoken(clock, 0.4)
    clock.resume(end + 10)
    assert clock.overdue(end + 10, 10.0) is None
    assert first_overdue(clock, end + 10) == pytest.approx(0.8, abs=0.05)


def test_what_was_no_speech_is_owed_no_answer():
    clock = made()
    end = spoken(clock, 0.4)
    clock.forgive(end + 0.9)
    assert first_overdue(clock, end + 0.9) is None


# ---- a flush by ourselves


LONG_PAUSE = ListenPace(endpoint_s=5.6, ends_on_flush=True)


def said(clock, event_after_s=0.0):
    """All words have come, in an interim transcript; return the end of speech."""
    end = spoken(clock, 0.6)
    clock.event(end + event_after_s)
    clock.transcript(final=False)
    return end


def test_a_recogniser_that_says_nothing_after_the_end_of_speech_is_sent_a_flush():
    clock = made(LONG_PAUSE)
    end = said(clock)
    assert not clock.should_flush(end + PROBE_S - 0.01, PROBE_S)
    assert clock.look_again_at(end, 0.0) == pytest.approx(end + PROBE_S, abs=0.01)
    assert not clock.should_flush(end + PROBE_S + 0.01, 0.0)  # no silence was sent: a muted microphone, or a word goes on
    assert clock.should_flush(end + PROBE_S + 0.01, PROBE_S)
    clock.probe(end + PROBE_S)
    assert not clock.should_flush(end + 2, 2)
    assert first_overdue(clock, end) == pytest.approx(1.1, abs=0.05)


@pytest.mark.parametrize("pace", [ListenPace(endpoint_s=5.6), replace(LONG_PAUSE, flush_is_seen=True)])
def test_one_that_has_answered_the_end_of_speech_is_not_where_that_would_be_seen(pace):
    clock = made(pace)
    end = said(clock, 0.1)
    assert not clock.should_flush(end + 3, 3)
    assert first_overdue(clock, end, until_s=10.0) == pytest.approx(5.6 + 0.1 + 0.8, abs=0.1)


@pytest.mark.parametrize("after_s", [0.1, 0.35])
def test_one_that_has_sent_an_interim_since_is_sent_a_flush_as_late_as_it_can_still_answer(after_s):
    clock = made(LONG_PAUSE)
    end = said(clock, after_s)
    assert not clock.should_flush(end + 0.39, 0.39)
    assert clock.should_flush(end + 0.41, 0.41)
    clock.probe(end + 0.41)
    clock.event(end + 0.5)  # an interim that crossed the flush
    clock.transcript(final=False)
    assert not clock.should_flush(end + 0.9, 0.9)
    assert first_overdue(clock, end) == pytest.approx(1.1, abs=0.05)


def test_one_that_answers_fast_is_sent_it_later():
    times = ModelTimes()
    for _ in range(60):
        times.after_speech.add(0.1)
    clock = made(LONG_PAUSE, times)
    end = said(clock, 0.1)
    assert not clock.should_flush(end + 0.59, 0.59)
    assert clock.should_flush(end + 0.61, 0.61)


def test_an_interim_long_after_the_end_of_speech_is_of_something_that_was_not_heard_here():
    clock = made(LONG_PAUSE)
    end = said(clock, 1.5)
    assert not clock.should_flush(end + 3, 3)


def test_nor_one_whose_flush_changes_more_than_a_pause():
    clock = made(ListenPace(endpoint_s=5.6))
    end = said(clock)
    assert not clock.should_flush(end + 3, 3)


def test_a_slow_recogniser_has_the_time_that_it_usually_needs():
    times = ModelTimes()
    for _ in range(60):
        times.after_speech.add(0.7)
    clock = made(LONG_PAUSE, times)
    end = said(clock)
    assert not clock.should_flush(end + 0.6, 0.6)
    assert clock.should_flush(end + 0.9, 0.9)
    clock.probe(end + 0.9)
    assert first_overdue(clock, end) == pytest.approx(0.9 + 1.25 * times.after_speech.p99_s, abs=0.05)


@pytest.mark.parametrize("what", ["answer", "answered speech", "speech"])
def test_an_answer_settles_a_flush_also_one_to_what_was_said_after_it(what):
    clock = made(LONG_PAUSE)
    end = said(clock)
    clock.probe(end + 0.3)
    if what == "answer":
        clock.event(end + 0.6)
        clock.transcript(final=True)
        assert first_overdue(clock, end + 0.6) is None
    else:
        at = spoken(clock, 0.1, end + 0.3)
        if what == "answered speech":
            clock.event(at + 0.1)
        assert (clock.overdue(end + 1.2, 1.2) is None) == (what == "answered speech")
