"""Requests that may come from several conversations: none is joined, and once all of these have asked, none is in the way any more."""

from __future__ import annotations

import pytest

from gw.policy.turn_texts import REPEATED_S
from gw.types.ids import Link
from tests.policy.test_turns import Harness


@pytest.fixture
def harness():
    return Harness()


def heard(place):
    return [part.request_id for part in place.heard]


def two_say_yes(harness):
    sessions = [harness.live(), harness.live()]
    for session in sessions:
        harness.final(session, "yes please")
    return sessions


def test_after_as_many_requests_as_conversations_the_next_finds_its_own(harness):
    two_say_yes(harness)
    first, second = harness.chat("Yes, please."), harness.chat("Yes, please.")
    assert (first.turn_id, second.turn_id) == (None, None)
    harness.now += REPEATED_S + 1
    third = harness.live()
    harness.final(third, "yes please")
    assert heard(harness.chat("Yes, please.")) == [third.request_id]


def test_before_that_it_is_left_alone(harness):
    two_say_yes(harness)
    harness.chat("Yes, please.")
    harness.now += REPEATED_S + 1
    harness.final(harness.live(), "yes please")
    assert harness.chat("Yes, please.").turn_id is None


def test_a_failed_request_is_sent_again_and_counts_once(harness):
    two_say_yes(harness)
    harness.chat("Yes, please.").end(failed=True, cancelled=False)
    harness.chat("Yes, please.")
    harness.now += REPEATED_S + 1
    harness.final(harness.live(), "yes please")
    assert harness.chat("Yes, please.").turn_id is None


def test_a_request_just_now_may_be_repeated(harness):
    two_say_yes(harness)
    harness.chat("Yes, please.")
    harness.chat("Yes, please.")
    harness.now += REPEATED_S - 1
    harness.final(harness.live(), "yes please")
    assert harness.chat("Yes, please.").turn_id is None


def test_speech_of_two_answers_is_left_alone_and_then_out_of_the_way(harness):
    for _ in range(2):
        harness.chat("what is it", "Sure, one moment please. ")
    assert [harness.speech("Sure, one moment please.").turn_id for _ in range(2)] == [None, None]
    harness.now += REPEATED_S + 1
    third = harness.chat("and now", "Sure, one moment please. ")
    assert harness.speech("Sure, one moment please.").turn_id == third.request_id


def test_what_was_ignored_is_over_when_the_conversation_goes_on(harness):
    talkative = harness.live()
    harness.final(talkative, "yes please")
    harness.now += 1
    harness.final(talkative, "what are your opening hours")
    assert heard(harness.chat("What are your opening hours?")) == [talkative.request_id]
    other = harness.live()
    harness.final(other, "yes please")
    assert heard(harness.chat("Yes, please.")) == [other.request_id]


def test_recordings_of_others_that_fit_leave_it_alone(harness):
    """As a whole they are the message, and so is what was heard live."""
    harness.recording("can you repeat that please")
    harness.recording("can you repeat that please")
    session = harness.live()
    for _ in range(2):
        harness.final(session, "can you repeat that please")
    asked = harness.chat("Can you repeat that please? Can you repeat that please?")
    assert (asked.turn_id, asked.earlier, asked.heard) == (None, (), ())


def test_recordings_among_others(harness):
    own = [harness.recording("no"), harness.recording("thank you very much")]
    harness.recording("where are you")
    asked = harness.chat("No. Thank you very much.")
    assert asked.earlier == tuple(place.request_id for place in own)
    harness.recording("no")
    harness.recording("no")
    harness.recording("where is the river")
    assert harness.chat("No. Where is the river?").turn_id is None  # whose no?


def test_a_call_of_recordings_is_known_by_its_connections(harness):
    mine, others = ({"link": Link(), "endpoint": "/stt"}, {"link": Link(), "endpoint": "/llm"}), {"link": Link(), "endpoint": "/stt"}
    for text in ("where is the river", "what about monday"):
        harness.recording(text, **mine[0])
        assert harness.chat(text, **mine[1]).turn_id is not None
    own = harness.recording("yes please", **mine[0])
    harness.recording("yes please", **others)
    asked = harness.chat("Yes, please.", **mine[1])
    assert asked.earlier == (own.request_id,)
    assert asked.session_id is not None


def test_a_greeting_that_stands_in_the_app_is_known_by_its_sentences(harness):
    for sentence in ("Hello and welcome to the clinic!", "How can I help you today?"):
        harness.speech(sentence)
    harness.chat("hello", "Hello and welcome to the clinic! How can I help you today?")
    assert harness.speech("Hello and welcome to the clinic! How can I help you today?").turn_id is None
