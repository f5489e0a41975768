"""The channel for turns of a fleet, in memory: every gateway gets all messages in one order, some time after they were sent."""

from __future__ import annotations

import math
from collections.abc import Iterator

import trio

from gw.errors import BankUnreachable


class BoardServer:
    """Passes messages as Valkey does: to who is connected then, without keeping any."""

    def __init__(self, delays_s: Iterator[float], clock) -> None:
        """`delays_s`: time that each message takes to the server, which passes it on at once."""
        self.boards: list[Board] = []
        self.messages: list[bytes] = []
        self.is_away = False
        self._delays, self._clock = delays_s, clock

    def board(self, ahead_s: float = 0.0) -> Board:
        """Return a gateway's connection. `ahead_s`: what its clock is ahead of the server's."""
        board = Board(self, self._clock, ahead_s)
        self.boards.append(board)
        return board

    async def pass_on(self, message: bytes) -> None:
        await trio.sleep(next(self._delays))
        if self.is_away:
            raise BankUnreachable(address="memory", why="it is away")
        self.messages.append(message)
        for board in self.boards:
            board.arrived.send_nowait(message)


class Board:
    """Implements `TurnBoard`."""

    def __init__(self, server: BoardServer, clock, ahead_s: float) -> None:
        self._server, self._clock, self._ahead_s = server, clock, ahead_s
        self.arrived, self._messages = trio.open_memory_channel[bytes](math.inf)

    async def publish(self, message: bytes) -> None:
        await self._server.pass_on(message)

    async def receive(self) -> bytes:
        return await self._messages.receive()

    async def time(self) -> float:
        if self._server.is_away:
            raise BankUnreachable(address="memory", why="it is away")
        return self._clock.now()
