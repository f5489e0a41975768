"""The bank in the keeper's process: `gw.policy.lease_account`, or in a fleet of gateways a front of the fleet's server.

Notices about vendors go to the keeper's own limits and to all workers, whoever has sent them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog
import trio

from gw.gateway import SharedBank
from gw.policy.lease_account import LeaseAccounts
from gw.types.bank import Ask, Exchange
from gw.types.notices import GateNotice

_MOST_NOTICES = 1_000
"""Notices that the keeper has not read; more of them at once are dropped: the processes learn by failures of their own."""

_log = structlog.get_logger("gw.workers")


class KeeperBank:
    """Implements `Bank` and `NoticeBoard`. Without a fleet it is always reachable, and forgets all when the process ends."""

    def __init__(self) -> None:
        self.follow: Callable[[GateNotice], None] | None = None
        """Gets each notice, for the workers."""
        self._fleet: SharedBank | None = None
        self._accounts = LeaseAccounts(trio.current_time())
        self._send, self._receive = trio.open_memory_channel[GateNotice](_MOST_NOTICES)

    def use(self, fleet: SharedBank) -> None:
        """Ask the server of a fleet from now on."""
        self._fleet = fleet

    async def join(self, member: str) -> str:
        if self._fleet is not None:
            return await self._fleet.join(member)
        await trio.lowlevel.checkpoint()
        return self._accounts.join(member)

    async def exchange(self, member: str, run: str, number: int, asks: Sequence[Ask]) -> Exchange:
        if self._fleet is not None:
            return await self._fleet.exchange(member, run, number, asks)
        await trio.lowlevel.checkpoint()
        return self._accounts.exchange(member, run, number, list(asks), trio.current_time())

    async def leave(self, member: str, run: str) -> None:
        if self._fleet is not None:
            await self._fleet.leave(member, run)
            return
        await trio.lowlevel.checkpoint()
        self._accounts.leave(member, run)

    async def publish(self, notice: GateNotice) -> None:
        if self._fleet is not None:
            await self._fleet.publish(notice)
            return
        await trio.lowlevel.checkpoint()
        try:
            self._send.send_nowait(notice)
        except trio.WouldBlock:
            _log.warning("fleet_notice_dropped", gate=notice.gate, model=notice.model)

    async def receive(self) -> GateNotice:
        notice = await (self._receive.receive() if self._fleet is None else self._fleet.receive())
        if self.follow is not None:
            self.follow(notice)
        return notice
