"""Turns of requests of several gateways: what one reports, all of them find, in whichever order it arrives."""

from __future__ import annotations

from itertools import cycle, repeat

import pytest
import trio

from gw.fleet_turns import LATE_S, MOST_UNSENT, FleetTurns
from gw.policy.merged_turns import HOLD_S
from gw.policy.turn_events import PlaceFacts, TurnChat, TurnRequestEnded
from gw.policy.turn_texts import TurnPlace
from gw.store.record_lines import decode_record, encode_record
from gw.types.llm import LastUser
from gw.types.usage import HeardSpeech
from gw.vault import ContentCipher
from tests.fakes.hosting import VirtualWallClock
from tests.fakes.records import record
from tests.fakes.turn_boards import BoardServer

WORDS, KEY = "Where is the museum?", ("default", "k", None)
SECRET = ContentCipher.new_key()


class AheadClock(VirtualWallClock):
    """A wall clock that is ahead of the server's."""

    def __init__(self, ahead_s: float) -> None:
        super().__init__(1e-6)
        self.ahead_s = ahead_s

    def now(self) -> float:
        return super().now() + self.ahead_s


class Fleet:
    """Gateways `a` and `b`, whose clocks differ by minutes, and what was written to the rows of their records later."""

    def __init__(self, nursery: trio.Nursery, delays_s=None) -> None:
        self.server = BoardServer(repeat(0.001) if delays_s is None else delays_s, VirtualWallClock())
        self.joined = []
        self.clocks = {"a": AheadClock(-40.0), "b": AheadClock(70.0)}
        self.gateways = {
            name: FleetTurns(self.server.board(), ContentCipher(SECRET), name, clock, self.joined.append)
            for name, clock in self.clocks.items()
        }
        for turns in self.gateways.values():
            nursery.start_soon(turns.run)

    def hear(self, name: str, request_id: str) -> TurnPlace:
        place = own(request_id)
        part = HeardSpeech(request_id=request_id, model_id="sim/tone", ended_at=1.0, final_at=1.0, audio_seconds=1.0)
        self.gateways[name].transcript(place, WORDS, self.clocks[name].now(), part)
        return place

    def ask(self, name: str, request_id: str) -> TurnPlace:
        place = own(request_id)
        self.gateways[name].chat(place, lambda: LastUser(WORDS, 0), self.clocks[name].now())
        return place

    def commit(self, name: str, request_id: str):
        [line] = self.gateways[name].completed_lines([(request_id, encode_record(record(request_id)))])
        return decode_record(line)


def own(request_id: str) -> TurnPlace:
    return TurnPlace(request_id=request_id, key=KEY, endpoint="/v1/x")


def end(place: TurnPlace) -> None:
    place.end(failed=False, cancelled=False)


@pytest.fixture
async def fleet(autojump_clock, nursery):
    made = Fleet(nursery)
    await trio.sleep(2)  # the clocks are compared
    return made


async def test_a_request_follows_a_transcript_at_another_gateway_whatever_their_clocks_say(fleet):
    fleet.hear("a", "ear")
    await trio.sleep(0.01)
    end(fleet.ask("b", "chat"))
    await trio.sleep(2 * HOLD_S)
    complete = fleet.commit("b", "chat")
    assert (complete.session_id, complete.turn_id, [part.request_id for part in complete.heard]) == ("ear", "chat", ["ear"])
    assert fleet.joined == []


async def test_a_record_waits_for_nothing_and_its_turn_is_written_later(fleet):
    fleet.hear("a", "ear")
    await trio.sleep(0.01)
    end(fleet.ask("b", "chat"))
    assert fleet.commit("b", "chat").turn_id is None
    await trio.sleep(2 * HOLD_S)
    assert [(one.id, one.turn_id, one.session_id) for one in fleet.joined] == [("chat", "chat", "ear")]


async def test_the_record_of_an_earlier_request_gets_its_turn_where_it_was_made(fleet):
    end(fleet.ask("a", "chat"))
    answer = fleet.gateways["a"].chat(asking := own("second"), lambda: LastUser("And what does it cost?", 1), fleet.clocks["a"].now())
    answer.pieces.append("It costs twelve euros for adults.")
    await trio.sleep(0.05)
    end(asking)
    await trio.sleep(2 * HOLD_S)
    assert fleet.commit("a", "second").turn_id is None
    voice = own("voice")
    fleet.gateways["b"].speech(voice, "It costs twelve euros for adults.", fleet.clocks["b"].now())
    await trio.sleep(2 * HOLD_S)
    assert [(one.id, one.turn_id) for one in fleet.joined] == [("second", "second")]
    end(voice)
    await trio.sleep(2 * HOLD_S)
    assert (fleet.commit("b", "voice").turn_id, fleet.commit("b", "voice").turn_id) == ("second", None), "each is completed once"


async def test_both_gateways_find_the_same_although_one_reports_slowly(autojump_clock, nursery):
    fleet = Fleet(nursery, cycle([0.001, 0.04, 0.002]))
    await trio.sleep(2)
    fleet.hear("a", "ear")
    await trio.sleep(0.005)
    end(fleet.ask("b", "chat"))
    await trio.sleep(3)  # later, so that it asks nothing again
    end(fleet.ask("a", "again"))  # the words are used
    await trio.sleep(3 * HOLD_S)
    assert fleet.commit("b", "chat").turn_id == "chat"
    assert fleet.commit("a", "again").turn_id is None


async def test_nothing_is_sent_for_long_after_the_last_request(fleet):
    fleet.hear("a", "ear")
    await trio.sleep(2)
    sent = len(fleet.server.messages)
    assert sent > 1
    await trio.sleep(60)
    assert len(fleet.server.messages) == sent
    assert not any(b"museum" in message for message in fleet.server.messages), "words are encrypted"


async def test_requests_stay_alone_while_the_server_is_away_and_are_joined_once_it_is_back(fleet):
    fleet.server.is_away = True
    fleet.hear("a", "ear")
    end(fleet.ask("b", "chat"))
    await trio.sleep(1)
    assert fleet.commit("b", "chat").turn_id is None
    await trio.sleep(LATE_S + 1)
    fleet.server.is_away = False
    fleet.hear("a", "other")
    await trio.sleep(0.05)
    end(fleet.ask("b", "next"))
    await trio.sleep(1)
    assert fleet.joined == []
    assert fleet.commit("b", "next").session_id == "other"


async def test_reports_that_nobody_takes_are_bounded_and_the_others_learn_that_some_are_missing(fleet):
    facts = PlaceFacts("w", KEY, None, 0, "/v1/x")
    for number in range(MOST_UNSENT + 5):
        fleet.gateways["a"].take("w1", [TurnChat(fleet.clocks["a"].now(), facts, LastUser(str(number), 0))], fleet.clocks["a"].now())
    await trio.sleep(2)
    assert len(fleet.server.messages) <= MOST_UNSENT + 10
    assert fleet.gateways["b"]._ordered.gaps <= 1


async def test_records_of_workers_wait_until_the_events_of_all_are_applied(fleet):
    turns, clock = fleet.gateways["a"], fleet.clocks["a"]
    fleet.hear("b", "ear")
    await trio.sleep(0.03)
    now = clock.now()
    turns.take("w1", [TurnChat(now, PlaceFacts("chat", KEY, None, 0, "/v1/x"), LastUser("whereisthemuseum", 0))], now)
    turns.take("w1", [TurnRequestEnded(clock.now(), "chat", False, False)], clock.now())
    began = trio.current_time()
    await trio.sleep(0.05)  # the worker gathers its records
    arrived = trio.current_time()
    await turns.wait_applied(turns.until("w1"), arrived)
    assert trio.current_time() <= began + 0.05 + HOLD_S
    complete, line = turns.completed("w1", record("chat"), b"as it came")
    assert complete.turn_id == "chat"
    assert decode_record(line) == complete
    turns.forget("w1")
    untouched = record("other")
    assert turns.completed("w1", untouched, b"as it came") == (untouched, b"as it came")


async def test_a_gateway_that_has_missed_a_report_begins_with_an_empty_memory(fleet):
    fleet.hear("a", "ear")
    await trio.sleep(2 * HOLD_S)
    fleet.server.boards[1].arrived.send_nowait(b"not a message of a fleet")
    fleet.gateways["a"]._number += 1  # a message that was lost on its way
    fleet.hear("a", "other")
    await trio.sleep(2 * HOLD_S)
    assert [turns._ordered.gaps for turns in fleet.gateways.values()] == [1, 1]
    place = fleet.ask("b", "chat")
    await trio.sleep(2 * HOLD_S)
    end(place)
    await trio.sleep(2 * HOLD_S)
    assert fleet.commit("b", "chat").session_id == "other"
