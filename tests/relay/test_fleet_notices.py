"""Notices between gateways, over a board on a virtual clock that loses what it is handed while it is away."""

from __future__ import annotations

import pytest
import trio

from gw.errors import BankUnreachable
from gw.relay.fleet_notices import FleetNotices


class Board:
    """Passes to every member what any of them publishes, as a channel of Valkey does."""

    def __init__(self):
        self.listeners = []
        self.away = False

    def member(self):
        return BoardMember(self)


class BoardMember:
    def __init__(self, board):
        self._board = board
        self._send, self._received = trio.open_memory_channel(100)
        board.listeners.append(self._send)

    async def publish(self, notice):
        await trio.lowlevel.checkpoint()
        if self._board.away:
            raise BankUnreachable(address="board", why="away")
        for listener in self._board.listeners:
            listener.send_nowait(notice)

    async def receive(self):
        if self._board.away:
            raise BankUnreachable(address="board", why="away")
        return await self._received.receive()


@pytest.fixture
def board(autojump_clock):
    return Board()


async def test_others_receive_what_a_gateway_announces_and_it_does_not_heed_itself(board, nursery):
    heeded = {"a": [], "b": []}
    members = {name: FleetNotices(board.member(), name) for name in heeded}
    for name, notices in members.items():
        nursery.start_soon(notices.run, lambda notice, now, of=heeded[name]: of.append((notice.gate, notice.model, notice.retry_after_s)))
    members["a"].announce("openai", "llm:openai/gpt")
    members["a"].announce("openai", "", 2.5)
    await trio.sleep(1)
    assert heeded == {"a": [], "b": [("openai", "llm:openai/gpt", 0.0), ("openai", "", 2.5)]}
    nursery.cancel_scope.cancel()


async def test_a_notice_is_lost_while_nobody_can_be_reached_and_later_ones_arrive(board, nursery):
    heeded = []
    first, second = FleetNotices(board.member(), "a"), FleetNotices(board.member(), "b")
    board.away = True
    nursery.start_soon(first.run, lambda notice, now: None)
    nursery.start_soon(second.run, lambda notice, now: heeded.append(notice.gate))
    first.announce("lost", "")
    await trio.sleep(1)
    board.away = False
    first.announce("arrives", "")
    await trio.sleep(1)
    assert heeded == ["arrives"]
    nursery.cancel_scope.cancel()


async def test_announcing_never_blocks(board):
    notices = FleetNotices(board.member(), "a")
    for n in range(1_000):
        notices.announce("openai", str(n))  # nobody sends them
