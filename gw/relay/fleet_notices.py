"""Passes what this gateway learns about vendors to the others of its fleet, and what they learn to this one's limits."""

from __future__ import annotations

from collections.abc import Callable

import structlog
import trio

from gw.errors import BankUnreachable
from gw.types.notices import GateNotice, NoticeBoard

_MOST_UNSENT = 100
"""Notices that wait to be sent. More of them at once are dropped: the others learn by failures of their own."""
_AGAIN_S = 0.5  # before listening again, where that failed

_log = structlog.get_logger("gw.relay")


class FleetNotices:
    def __init__(self, board: NoticeBoard, member: str) -> None:
        self._board = board
        self._member = member
        self._send, self._unsent = trio.open_memory_channel[GateNotice](_MOST_UNSENT)

    def announce(self, gate: str, model: str, retry_after_s: float = 0.0) -> None:
        """Tell the others, soon, that a breaker has opened, or how long a vendor wants to be left alone. Never blocks."""
        try:
            self._send.send_nowait(GateNotice(self._member, gate, model, retry_after_s))
        except trio.WouldBlock:
            _log.warning("fleet_notice_dropped", gate=gate, model=model)

    async def run(self, heed: Callable[[GateNotice, float], None]) -> None:
        """Send and receive until cancelled. `heed` gets the notices of others and the time in monotonic seconds."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._publish)
            while True:
                try:
                    notice = await self._board.receive()
                except BankUnreachable:
                    await trio.sleep(_AGAIN_S)
                else:
                    if notice.sender != self._member:
                        heed(notice, trio.current_time())

    async def _publish(self) -> None:
        async for notice in self._unsent:
            try:
                await self._board.publish(notice)
            except BankUnreachable as error:
                _log.info("fleet_notice_lost", gate=notice.gate, model=notice.model, why=error.message)
