from __future__ import annotations

import pytest
import trio

from gw.policy.merged_turns import HOLD_S
from gw.policy.speaking_owners import MAX_OWNERS, SPREAD_S
from gw.policy.turn_events import PlaceFacts, TurnChat, TurnSpeech, TurnTranscript
from gw.policy.turn_texts import TurnPlace
from gw.store.record_lines import decode_record
from gw.types.llm import LastUser
from gw.types.usage import HeardSpeech
from gw.workers.shared_turns import SharedTurns
from tests.fakes.records import record

WORDS, KEY = "Where is the museum?", ("default", "k", None)
COMPACT = "whereisthemuseum"
PART = HeardSpeech(request_id="ear", model_id="sim/tone", ended_at=1.0, final_at=1.0, audio_seconds=1.0)


@pytest.fixture
async def shared(autojump_clock, nursery):
    turns = SharedTurns()
    nursery.start_soon(turns.run)
    return turns


def facts(id_: str) -> PlaceFacts:
    return PlaceFacts(id_, KEY, None, 0, "/v1/x")


def own(id_: str) -> TurnPlace:
    return TurnPlace(request_id=id_, key=KEY, endpoint="/v1/x")


def heard(at: float = 1.0) -> TurnTranscript:
    return TurnTranscript(at, facts("ear"), COMPACT, PART)


async def test_a_record_is_completed_once_other_workers_have_had_time_to_report(shared):
    shared.expect("a")
    shared.take("b", [TurnChat(1.1, facts("chat"), LastUser(COMPACT, 0))], 1.2)
    await trio.sleep(HOLD_S / 2)
    shared.take("a", [heard()], 1.0)
    began = trio.current_time()
    await shared.wait_applied(shared.until("b"), began)
    assert trio.current_time() <= began + HOLD_S
    complete, line = shared.completed("b", record("chat"), b"as it came")
    assert complete.turn_id == "chat"
    assert decode_record(line) == complete
    untouched = record("other")
    assert shared.completed("b", untouched, b"as it came") == (untouched, b"as it came")


async def test_no_time_passes_when_all_workers_have_reported(shared):
    shared.take("a", [heard()], 2.0)
    shared.take("b", [], 2.0)
    began = trio.current_time()
    await shared.wait_applied(shared.until("b"), began)
    assert trio.current_time() == began


async def test_what_waits_is_applied_in_time_without_further_reports(shared):
    shared.take("a", [], 0.5)
    place = own("chat")
    shared.take("b", [heard()], 1.0)
    shared.chat(place, lambda: LastUser(WORDS, 0), 1.1)
    assert place.turn_id is None
    await trio.sleep(HOLD_S + 0.001)
    assert place.turn_id == "chat"


async def test_all_can_be_applied_at_once_for_callers_who_wait(shared):
    shared.take("a", [], 0.5)
    shared.take("b", [heard(), TurnChat(1.1, facts("chat"), LastUser(COMPACT, 0))], 1.2)
    shared.apply_all()
    assert shared.complete("b", record("chat")).turn_id == "chat"


async def test_the_keepers_own_requests_are_joined_with_those_of_workers(shared):
    """A browser with a short-lived token transcribes and speaks through the keeper, its server thinks through a worker."""
    ear, voice, late = own("ear"), own("voice"), own("late")
    shared.transcript(ear, WORDS, 1.0, PART)
    shared.take("a", [TurnChat(1.1, facts("chat"), LastUser(COMPACT, 0))], 3.0)
    answer = shared.chat(late, lambda: LastUser("Thank you", 0), 2.0)
    answer.pieces.append("You are welcome, good bye.")
    assert shared.speech(voice, "You are welcome", 2.1) is False
    assert shared.speech(voice, "You are welcome, good bye.", 2.2) is False  # all of it; the turn is known by then
    assert (voice.turn_id, voice.earlier) == ("late", ("late",))
    assert shared.complete("a", record("chat")).session_id == "ear"
    assert shared.speech(TurnPlace(request_id="w", key=KEY, turn_id="sent"), "x", 2.3) is True


async def test_workers_learn_which_keys_speak_but_not_each_time(shared):
    spread = []
    shared.follow = spread.append
    spoken = TurnSpeech(1.0, facts("voice"), WORDS)
    shared.take("a", [heard(), spoken, TurnChat(1.1, facts("chat"), None)], 1.2)
    shared.take("b", [spoken], 1.3)
    assert spread == [[("default", "k")]]
    await trio.sleep(SPREAD_S)
    shared.take("b", [spoken], 1.4)
    assert spread == [[("default", "k")]] * 2
    keys = [*map(str, range(MAX_OWNERS)), "k"]  # so many that the first one is forgotten, and spread again
    for key in keys:
        shared.transcript(TurnPlace(request_id="r", key=("default", key, None)), WORDS, 1.5)
    assert spread[2:] == [[("default", key)] for key in keys]


async def test_a_worker_that_has_ended_is_forgotten(shared):
    shared.take("a", [], 0.5)
    shared.take("b", [heard()], 2.0)
    shared.forget("a")
    began = trio.current_time()
    await shared.wait_applied(2.0, began)
    assert trio.current_time() == began
