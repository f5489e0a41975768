"""Let the heads of requests go whose answers take long.

A client sends the same head again and again, so a connection keeps the last one. While an answer streams for minutes, the fields, the
bytes they came in and the ASGI scope are several kilobytes of no use.
"""

from __future__ import annotations

from typing import Final

import trio

from gw.net.wakeup import Wakeup
from gw.web.http_server_head import Head

LONG_S: Final = 0.1


class LongAnswers:
    """Watches the answers of one server that stream."""

    def __init__(self) -> None:
        self._began: dict[Head, float] = {}  # in the order in which they began
        self._first = Wakeup()

    def begin(self, head: Head) -> None:
        """Note that the answer to `head` has begun, and goes on."""
        self._first.wake()
        self._began[head] = trio.current_time()

    def end(self, head: Head) -> None:
        """Note that the answer is complete: the next request may have the same head."""
        self._began.pop(head, None)

    async def run(self) -> None:
        """Let heads go, LONG_S to twice that after their answers began; runs until cancelled."""
        while True:
            if not self._began:
                await self._first.wait()
            await trio.sleep(LONG_S)
            self._let_go(trio.current_time() - LONG_S)

    def _let_go(self, until: float) -> None:
        for head in [head for head, began in self._began.items() if began <= until]:
            del self._began[head]
            head.let_go()
