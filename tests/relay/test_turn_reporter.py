from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
import pytest
import trio

from gw.policy.turn_events import (
    TurnAnswerText,
    TurnChat,
    TurnEvent,
    TurnLinkClosed,
    TurnRequestEnded,
    TurnSpeech,
    TurnTranscript,
)
from gw.policy.turn_texts import MAX_TEXT, TurnPlace
from gw.relay.turn_reporter import FLUSH_S, MAX_OWNERS, MOST_EVENTS, SILENT_CHATS, SILENT_S, TurnReporter
from gw.types.ids import Link
from gw.types.llm import LastUser
from gw.workers.messages import FromWorker, TurnEvents
from tests.fakes.hosting import VirtualWallClock


class Keeper:
    def __init__(self) -> None:
        self.clock = VirtualWallClock()
        self.reports: list[TurnEvents] = []
        self.is_gone = False
        self.reporter = TurnReporter(self.take, self.clock)

    def take(self, events: Sequence[TurnEvent], until: float) -> bool:
        message = TurnEvents(events, until)
        if not self.is_gone:
            self.reports.append(msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=FromWorker))
        return not self.is_gone

    @property
    def events(self) -> list[object]:
        return [event for report in self.reports for event in report.events]

    def chat(self, place: TurnPlace, text: str = "Hello?"):
        return self.reporter.chat(place, lambda: LastUser(text, 7), self.clock.now())


@pytest.fixture
async def keeper(autojump_clock):
    return Keeper()


def place(id_: str = "r1", link: Link | None = None, *, key: str = "k", session: str | None = None, turn: str | None = None) -> TurnPlace:
    return TurnPlace(request_id=id_, key=("default", key, session), session_id=session, turn_id=turn, link=link, endpoint="/v1/x")


async def test_all_that_a_request_says_is_reported_in_order(keeper):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.reporter.run)
        link = Link()
        chat, voice = place("chat", link), place("voice")
        keeper.reporter.transcript(place("ear", link), "Hello, there!", keeper.clock.now())
        answer = keeper.chat(chat)
        await trio.sleep(2 * FLUSH_S)
        answer.pieces.append("It is ")
        answer.pieces.append("noon.")
        await trio.sleep(2 * FLUSH_S)
        assert keeper.reporter.speech(voice, "It is noon.", keeper.clock.now()) is False
        chat.end(failed=False, cancelled=True)
        link.close()
        await trio.sleep(2 * FLUSH_S)
        nursery.cancel_scope.cancel()
    heard, asked, written, spoken, ended, closed = keeper.events
    assert isinstance(heard, TurnTranscript)
    assert (heard.text, heard.place.link) == ("hellothere", 1)
    assert isinstance(asked, TurnChat)
    assert (asked.last, asked.place.link, asked.place.key) == (LastUser("hello", 7), 1, ("default", "k", None))
    assert written == TurnAnswerText(written.at, "chat", "It is noon.")
    assert isinstance(spoken, TurnSpeech)
    assert (spoken.text, spoken.place.link) == ("It is noon.", 0)
    assert ended == TurnRequestEnded(spoken.at, "chat", False, True)
    assert closed == TurnLinkClosed(spoken.at, 1)
    assert heard.at == asked.at <= keeper.reports[0].until <= written.at <= spoken.at
    assert len(keeper.reports) == 3


async def test_nothing_is_sent_while_nothing_happens_unless_a_report_is_wanted(keeper):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.reporter.run)
        await trio.sleep(60)
        keeper.reporter.flush()
        assert keeper.reports == []
        keeper.reporter.flush(also_empty=True)
        assert keeper.reports == [TurnEvents([], keeper.clock.now())]
        nursery.cancel_scope.cancel()


async def test_requests_with_a_turn_id_of_their_own_are_not_reported(keeper):
    walled = place(turn="sent")
    keeper.reporter.transcript(walled, "Hello", 0.0)
    assert keeper.chat(walled) is None
    assert keeper.reporter.speech(walled, "Hello", 0.0) is True
    keeper.reporter.transcript(place(), "...", 0.0)  # no words
    keeper.reporter.flush()
    assert keeper.events == []


async def test_long_texts_are_cut(keeper):
    keeper.reporter.transcript(place(), "x" * 2 * MAX_TEXT, 0.0)
    keeper.chat(place(), "x" * 2 * MAX_TEXT)
    keeper.reporter.speech(place(), "x" * 2 * MAX_TEXT, 0.0)
    keeper.reporter.flush()
    heard, asked, spoken = keeper.events
    assert [len(heard.text), len(asked.last.text), len(spoken.text)] == [MAX_TEXT] * 3


async def test_many_events_are_sent_without_waiting(keeper):
    for number in range(MOST_EVENTS):
        keeper.reporter.transcript(place(f"r{number}"), "Hello", 0.0)
    assert [len(report.events) for report in keeper.reports] == [MOST_EVENTS]


async def test_a_key_whose_requests_are_never_about_speech_is_not_reported(keeper):
    for _ in range(SILENT_CHATS):
        keeper.chat(place())
    assert keeper.chat(place()) is not None  # there were many, but not for long
    await trio.sleep(SILENT_S + 1)
    unread = []
    assert keeper.reporter.chat(place(), partial(unread.append, 1), 0.0 + keeper.clock.now()) is None
    assert unread == []
    assert keeper.chat(place(key="other")) is not None
    keeper.reporter.wake([("default", "k")])
    assert keeper.chat(place()) is not None


@pytest.mark.parametrize("voice", ["transcript", "speech"])
async def test_a_key_that_speaks_now_and_then_is_always_reported(keeper, voice):
    for _ in range(3 * SILENT_CHATS // 100):
        for _ in range(100):
            assert keeper.chat(place()) is not None
        await trio.sleep(2 * SILENT_S)
        getattr(keeper.reporter, voice)(place(), "Hello", keeper.clock.now())


async def test_silent_keys_are_remembered_within_bounds(keeper):
    for number in range(MAX_OWNERS + 1):
        for _ in range(SILENT_CHATS + 1 if number == 0 else 1):
            keeper.chat(place(key=f"k{number}"))
    await trio.sleep(SILENT_S + 1)
    assert keeper.chat(place(key="k0")) is not None  # it is forgotten, so it is reported again


async def test_a_worker_without_a_keeper_collects_nothing(keeper):
    link = Link()
    keeper.is_gone = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.reporter.run)
        answer = keeper.chat(place(link=link))
        await trio.sleep(1)
        assert answer is not None
        assert keeper.chat(place(link=link)) is None
        keeper.reporter.transcript(place(), "Hello", 0.0)
        keeper.reporter.speech(place(), "Hello", 0.0)
        link.close()  # `run` has returned: nothing cancels this nursery
    keeper.is_gone = False
    keeper.reporter.flush(also_empty=True)
    assert keeper.reports == []
