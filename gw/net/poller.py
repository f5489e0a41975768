"""Sockets that one task of ours looks after by callbacks, beside trio's own waiting for each.

- Which clients have hung up, without reading from them: while a connection's one task runs a request, nobody reads, and a
  reader beside it would cost two passes through the scheduler per request. One registration per connection does instead.
- Live audio: a frame that can be passed on without waiting is read, and written to the other side, within the callback. A pass
  through the scheduler for each of twenty thousand frames a second would take longer than all else about them.

A callback runs in the poller's task, so it waits for nothing and raises nothing.
"""

from __future__ import annotations

import select
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from gw.types.pending import Pending

OFFERED: Final = sys.platform == "linux"
"""Elsewhere every connection has a task that waits for it."""
READ_BYTES: Final = 65_536
_EVENTS_PER_PASS: Final = 64
"""Callbacks before other tasks get their turn: 2 to 3 ms of live audio."""
_HANGUP: Final = 0x2000 | 0x80000000  # EPOLLRDHUP, edge-triggered
_READABLE: Final = 0x1  # EPOLLIN

_current: trio.lowlevel.RunVar[Poller | None] = trio.lowlevel.RunVar("gw.net.poller", None)


def current() -> Poller | None:
    """The poller that runs now, for who wants its sockets looked after; None where there is none."""
    return _current.get()


async def each_by_task(receive: Callable[[], Awaitable[bytes | bytearray]], take: Callable[[bytes], Pending]) -> Pending:
    """As `Reading.each` where there is no poller, or no plain socket: this task waits for every piece."""
    while data := await receive():
        rest = take(bytes(data))
        if rest is not None:
            return rest
    return None


class Poller:
    """Belongs to the server of the connections; `run` is its only task."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._told: dict[int, Callable[[], None]] = {}

    def watch(self, descriptor: int, tell: Callable[[], None]) -> None:
        """Call `tell` once when the client finishes sending or the connection breaks. It may be called at any time later."""
        self._register(descriptor, tell, _HANGUP)

    def read(self, descriptor: int, tell: Callable[[], None]) -> None:
        """Call `tell` whenever there is something to read, until it is forgotten."""
        self._register(descriptor, tell, _READABLE)

    def forget(self, descriptor: int, tell: Callable[[], None]) -> None:
        """To be called for every `watch` and `read`. The socket may be closed, and its number in use by another connection."""
        if self._told.get(descriptor) is tell:
            del self._told[descriptor]
            with suppress(OSError, ValueError):
                self._epoll.unregister(descriptor)

    def _register(self, descriptor: int, tell: Callable[[], None], events: int) -> None:
        self._told[descriptor] = tell
        self._epoll.register(descriptor, events)

    async def run(self) -> None:
        """Call back until cancelled. Its failure would leave requests running for clients who have gone: ends the server."""
        outer = _current.get()
        _current.set(self)
        try:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                self._call_back()
        finally:
            _current.set(outer)
            self._epoll.close()

    def _call_back(self) -> None:
        """Also for what arrives meanwhile (a vendor's answer to the frame just sent), up to a bound."""
        left = _EVENTS_PER_PASS
        while left > 0 and (found := self._epoll.poll(0, left)):
            left -= len(found)
            for descriptor, _ in found:
                tell = self._told.get(descriptor)
                if tell is not None:
                    tell()


class Reading:
    """One socket's bytes, given to a function as they come. Its owner calls `closing` before it closes the socket."""

    __slots__ = ("_called", "_descriptor", "_error", "_poller", "_rest", "_sock", "_take", "_task", "_tell")

    def __init__(self, poller: Poller, sock: socket.socket) -> None:
        self._poller = poller
        self._sock = sock
        self._descriptor = sock.fileno()
        self._take: Callable[[bytes], Pending] | None = None
        self._task: trio.lowlevel.Task | None = None
        self._tell = self._readable  # one object, so that the poller knows it again
        self._called = False
        """`take` is at work."""
        self._rest: Pending = None
        self._error: Exception | None = None

    async def each(self, take: Callable[[bytes], Pending]) -> Pending:
        """Until `take` leaves something to wait for, which is returned; None at the end of the stream.

        Raises OSError, trio.ClosedResourceError, and what `take` raises. A cancelled call loses nothing.
        """
        if self._sock.fileno() < 0:
            raise trio.ClosedResourceError("this connection is closed")
        self._take, self._task = take, trio.lowlevel.current_task()
        self._poller.read(self._descriptor, self._tell)
        await trio.lowlevel.wait_task_rescheduled(self._abort)
        rest, self._rest = self._rest, None
        error, self._error = self._error, None
        if error is not None:
            raise error
        return rest

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._poller.forget(self._descriptor, self._tell)
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def closing(self) -> None:
        if not self._called:
            self._wake(None, trio.ClosedResourceError("this connection is closed"))

    def _readable(self) -> None:
        if self._task is None or self._take is None:
            return  # forgotten earlier in this pass
        self._called = True
        try:
            data = self._sock.recv(READ_BYTES)
            rest = self._take(data) if data else None
        except BlockingIOError:
            return
        except Exception as error:  # it is the session's, not the poller's
            self._wake(None, error)
            return
        finally:
            self._called = False
        if rest is not None or not data:
            self._wake(rest, None)
        elif self._sock.fileno() < 0:
            self.closing()

    def _wake(self, rest: Pending, error: Exception | None) -> None:
        task, self._task = self._task, None
        self._poller.forget(self._descriptor, self._tell)
        if task is not None:
            self._rest, self._error = rest, error
            trio.lowlevel.reschedule(task)
