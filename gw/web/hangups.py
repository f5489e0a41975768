"""Which clients have hung up, told by the kernel without reading from them.

A connection on a plain socket has one task, and while it runs a request nobody reads: a reader beside it would cost two
passes through the scheduler per request. The kernel reports the end of a connection to an edge-triggered epoll of ours
instead, which costs one registration per connection and nothing per request.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Callable
from contextlib import suppress

import trio

OFFERED = sys.platform == "linux"
"""Elsewhere every connection has a reader task."""
_EVENTS_PER_PASS = 256


class Hangups:
    """Belongs to the server of the connections; `run` is its only task."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._told: dict[int, Callable[[], None]] = {}

    def watch(self, descriptor: int, tell: Callable[[], None]) -> None:
        """Call `tell` once when the client finishes sending or the connection breaks. It may be called at any time later."""
        self._told[descriptor] = tell
        self._epoll.register(descriptor, select.EPOLLRDHUP | select.EPOLLET)

    def forget(self, descriptor: int, tell: Callable[[], None]) -> None:
        """To be called for every `watch`. The socket may be closed, and its number in use by another connection."""
        if self._told.get(descriptor) is tell:
            del self._told[descriptor]
            with suppress(OSError):
                self._epoll.unregister(descriptor)

    async def run(self) -> None:
        """Tell hang-ups until cancelled. Its failure would leave requests running for clients who have gone: ends the server."""
        try:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                for descriptor, _ in self._epoll.poll(0, _EVENTS_PER_PASS):
                    tell = self._told.get(descriptor)
                    if tell is not None:
                        tell()
        finally:
            self._epoll.close()
