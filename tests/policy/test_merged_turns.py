"""Events of several processes, whose order is that of their times, not of their arrival."""

from __future__ import annotations

import math

import pytest

from gw.policy.merged_turns import HOLD_S, MAX_PENDING, MergedTurns
from gw.policy.turn_events import (
    PlaceFacts,
    TurnAnswerText,
    TurnChat,
    TurnLinkClosed,
    TurnRequestEnded,
    TurnSpeech,
    TurnTranscript,
)
from gw.types.llm import LastUser
from gw.types.usage import HeardSpeech
from tests.fakes.records import record

WORDS = "whereisthemuseum"


def facts(id_: str, link: int = 0, turn_id: str | None = None) -> PlaceFacts:
    return PlaceFacts(id_, ("default", None, None), turn_id, link, "/v1/x")


def heard(id_: str, at: float, link: int = 0) -> TurnTranscript:
    part = HeardSpeech(request_id=id_, model_id="sim/tone", ended_at=at, final_at=at, audio_seconds=1.0)
    return TurnTranscript(at, facts(id_, link), WORDS, part)


def asked(id_: str, at: float, link: int = 0) -> TurnChat:
    return TurnChat(at, facts(id_, link), LastUser(WORDS, 0))


def test_a_chat_request_is_joined_to_a_transcript_of_another_process_that_arrives_later():
    merged = MergedTurns()
    merged.expect("a")
    merged.add("b", [asked("chat", 10.2)], 10.2, now=0.0)
    merged.add("a", [heard("ear", 10.1)], 10.15, now=0.05)
    merged.apply(0.0 + HOLD_S)  # the first process has reported until 10.15, so what came at 10.2 waits for that long
    complete = merged.complete("b", record("chat"))
    assert (complete.session_id, complete.turn_id) == ("ear", "chat")
    assert [part.request_id for part in complete.heard] == ["ear"]


def test_events_are_applied_at_once_when_all_processes_have_reported_later_ones():
    merged = MergedTurns()
    merged.add("a", [], 10.0, now=0.0)
    merged.add("b", [asked("chat", 10.2)], 10.3, now=0.0)
    assert merged.applied_until == 10.0
    assert merged.due_at == HOLD_S
    merged.add("a", [heard("ear", 10.1)], 10.4, now=0.01)
    assert merged.applied_until == 10.3
    assert merged.complete("b", record("chat")).turn_id == "chat"


def test_an_event_waits_for_a_process_that_reports_nothing_for_a_bounded_time():
    merged = MergedTurns()
    merged.add("a", [heard("ear", 10.1)], 10.1, now=0.0)
    merged.add("b", [asked("chat", 10.2)], 10.2, now=0.0)
    merged.apply(HOLD_S)
    assert merged.applied_until == 10.2
    assert merged.due_at == math.inf
    assert merged.complete("b", record("chat")).turn_id == "chat"


def test_an_answer_that_is_written_in_one_process_is_spoken_in_another():
    merged = MergedTurns()
    merged.add("a", [asked("chat", 10.0), TurnAnswerText(10.0, "chat", "It is round "), TurnAnswerText(10.3, "chat", "the corner.")],
               10.5, now=0.0)  # fmt: skip
    merged.add("b", [TurnSpeech(10.4, facts("voice"), "It is round the corner."), TurnRequestEnded(10.6, "voice", False, False)],
               11.0, now=0.0)  # fmt: skip
    merged.add("a", [TurnRequestEnded(10.7, "chat", False, False)], 11.0, now=0.0)
    spoken, written = merged.complete("b", record("voice")), merged.complete("a", record("chat"))
    assert spoken.turn_id == written.turn_id == "chat"
    assert spoken.earlier == ("chat",)


def test_a_record_of_a_request_that_said_nothing_stays_as_it_is():
    merged = MergedTurns()
    made = record("chat", turn_id="sent", session_id="by the app")
    assert merged.complete("a", made) is made
    merged.add("a", [TurnChat(1.0, PlaceFacts("chat", ("default", None, "by the app"), "sent", 0, "/v1/x"), None)], 1.0, now=0.0)
    assert merged.complete("a", made) is made


@pytest.mark.parametrize(("failed", "turn_id"), [(True, "first"), (False, None)])
def test_only_a_request_that_failed_leaves_its_transcript_for_the_next_one(failed, turn_id):
    merged = MergedTurns()
    merged.add("a", [heard("ear", 10.0)], 30.0, now=0.0)
    merged.add("b", [asked("first", 10.1), TurnRequestEnded(10.2, "first", failed, False), asked("again", 20.0)], 30.0, now=0.0)
    assert [part.request_id for part in merged.complete("b", record("first")).heard] == ["ear"]
    assert merged.complete("b", record("again")).turn_id == turn_id


def test_a_process_that_has_ended_holds_nothing_up_and_its_connections_are_closed():
    merged = MergedTurns()
    merged.add("a", [heard("ear", 10.0, link=1)], 10.0, now=0.0)
    merged.add("b", [asked("chat", 10.5, link=1)], 10.6, now=0.0)
    merged.forget("a")
    merged.apply(0.0)
    assert merged.applied_until == 10.6
    late = [TurnLinkClosed(10.7, 1), TurnLinkClosed(10.7, 1), TurnAnswerText(10.7, "x", "?"), TurnRequestEnded(10.7, "x", False, False)]
    merged.add("b", late, 10.8, now=0.0)
    assert merged.complete("b", record("chat")).turn_id == "chat"
    assert merged.complete("a", record("ear")).turn_id is None


def test_events_that_wait_are_bounded():
    merged = MergedTurns()
    merged.add("a", [], 0.0, now=0.0)
    merged.add("b", [asked(f"chat{number}", 1.0 + number) for number in range(MAX_PENDING + 5)], 1e9, now=0.0)
    assert merged.applied_until == 5.0  # the first five
