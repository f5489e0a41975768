"""The bank of several processes, whose server is slow, or away, when a test says so."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from gw.errors import BankUnreachable
from gw.types.bank import Ask, Exchange
from gw.workers.keeper_bank import KeeperBank


class SlowBank(KeeperBank):
    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self._answers = trio.Event()
        self._answers.set()

    def hold(self) -> None:
        """Answer nothing until `answer` is called."""
        self._answers = trio.Event()

    def answer(self) -> None:
        self._answers.set()

    async def exchange(self, member: str, run: str, number: int, asks: Sequence[Ask]) -> Exchange:
        if self.away:
            raise BankUnreachable(address="bank", why="away")
        await self._answers.wait()
        return await super().exchange(member, run, number, asks)
