"""Sockets that one task watches by callbacks, beside trio's own waiting for each.

- Clients that hang up, without reading from them: while a connection's one task runs a request, nobody reads, and a reader
  beside it would cost two passes through the scheduler per request. One registration per connection does instead.
- Live audio: a frame that can be passed on without waiting is read, and written to the other side, within the callback. A pass
  through the scheduler for each of twenty thousand frames a second would take longer than all else about them.
- Streamed answers of language models, whose tokens are passed on in the same way.

A callback runs in the poller's task, so it must neither wait nor raise.
"""

from __future__ import annotations

import select
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from gw.types.compiled import mypyc_attr

if TYPE_CHECKING:
    from gw.types.pending import Pending

OFFERED: Final = sys.platform == "linux"  # elsewhere a task waits for every connection
READ_BYTES: Final = 65_536
_EVENTS_PER_PASS: Final = 64  # callbacks before other tasks get their turn: 2 to 3 ms of live audio
_HANGUP: Final = 0x2000 | 0x80000000  # EPOLLRDHUP, edge-triggered
_READABLE: Final = 0x1  # EPOLLIN

Stopped = Callable[["Pending", Exception | None], None]
"""Is called when no more pieces are passed on, with what must be awaited first or with the error; with neither at the stream's end."""

_current: trio.lowlevel.RunVar[Poller | None] = trio.lowlevel.RunVar("gw.net.poller", None)


def current() -> Poller | None:
    """Return the poller that runs now, if one does."""
    return _current.get()


async def each_by_task(receive: Callable[[], Awaitable[bytes | bytearray]], take: Callable[[bytes], Pending]) -> Pending:
    """Do what `Reading.each` does without a poller or a plain socket: this task waits for every piece."""
    while data := await receive():
        pending = take(bytes(data))
        if pending is not None:
            return pending
    return None


@mypyc_attr(allow_interpreted_subclasses=True)
class SocketWatcher(ABC):
    """Is called for a socket. An object, since a bound method for each connection would take 64 bytes."""

    __slots__ = ()

    @abstractmethod
    def ready(self) -> None:
        """Handle what happened to the socket. Neither waits nor raises."""


class Poller:
    """Belongs to the server of the connections. `run` is its only task, beside those that its callbacks need for what must be awaited."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watchers: dict[int, SocketWatcher] = {}
        self._nursery: trio.Nursery

    def watch(self, descriptor: int, watcher: SocketWatcher) -> None:
        """Call `watcher` once when the client finishes sending or the connection breaks; possibly at any time later."""
        self._register(descriptor, watcher, _HANGUP)

    def read(self, descriptor: int, watcher: SocketWatcher) -> None:
        """Call `watcher` whenever there is something to read, until it is forgotten."""
        self._register(descriptor, watcher, _READABLE)

    def forget(self, descriptor: int, watcher: SocketWatcher) -> None:
        """Undo a `watch` or `read`. The socket may be closed, and its number in use by another connection."""
        if self._watchers.get(descriptor) is watcher:
            del self._watchers[descriptor]
            with suppress(OSError, ValueError):
                self._epoll.unregister(descriptor)

    def _register(self, descriptor: int, watcher: SocketWatcher, events: int) -> None:
        self._watchers[descriptor] = watcher
        self._epoll.register(descriptor, events)

    async def run(self) -> None:
        """Call back until cancelled. A failure would leave requests running for clients that left: it ends the server."""
        outer = _current.get()
        _current.set(self)
        try:
            async with trio.open_nursery() as self._nursery:
                while True:
                    await trio.lowlevel.wait_readable(self._epoll.fileno())
                    self._call_back()
        finally:
            _current.set(outer)
            self._epoll.close()

    def start_soon(self, function: Callable[..., Awaitable[None]], *args: object) -> None:
        """Run a task for a callback. It must raise nothing, and end when its owner, which outlives it, cancels it."""
        self._nursery.start_soon(function, *args)

    def _call_back(self) -> None:
        """Run the callbacks of what has happened and of what happens meanwhile (a vendor's answer), up to a bound."""
        budget, watcher_of = _EVENTS_PER_PASS, self._watchers.get
        while budget > 0 and (events := self._epoll.poll(0, budget)):
            budget -= len(events)
            for descriptor, _ in events:
                watcher = watcher_of(descriptor)
                if watcher is not None:
                    watcher.ready()


class Reading(SocketWatcher):
    """One socket's bytes, passed to a function as they arrive. The owner calls `closing` before it closes the socket.

    `each` is for a task that waits meanwhile, `begin` for an owner without one.
    """

    __slots__ = ("_called", "_closed", "_descriptor", "_error", "_pending", "_poller", "_sock", "_stopped", "_take", "_task")

    def __init__(self, poller: Poller, sock: socket.socket) -> None:
        self._poller = poller
        self._sock = sock
        self._descriptor = sock.fileno()
        self._take: Callable[[bytes], Pending] | None = None
        self._task: trio.lowlevel.Task | None = None
        self._stopped: Stopped | None = None
        self._called = False  # `take` is running
        self._closed = False  # meanwhile the socket was closed
        self._pending: Pending = None
        self._error: Exception | None = None

    async def each(self, take: Callable[[bytes], Pending]) -> Pending:
        """Call `take` until it returns something to wait for, and return that; None at the end of the stream.

        Raises OSError, trio.ClosedResourceError, and what `take` raises. A cancelled call loses nothing.
        """
        if self._sock.fileno() < 0:
            raise _closed()
        self._take, self._task = take, trio.lowlevel.current_task()
        self._poller.read(self._descriptor, self)
        await trio.lowlevel.wait_task_rescheduled(self._abort)
        pending, self._pending = self._pending, None
        error, self._error = self._error, None
        if error is not None:
            raise error
        return pending

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self.stop()
        return trio.lowlevel.Abort.SUCCEEDED

    def begin(self, take: Callable[[bytes], Pending], stopped: Stopped) -> None:
        """Call `take` like `each`, but return at once, and call `stopped` with what `each` would return or raise."""
        if self._sock.fileno() < 0:
            stopped(None, _closed())
            return
        self._take, self._stopped = take, stopped
        self._poller.read(self._descriptor, self)

    def take_by(self, take: Callable[[bytes], Pending]) -> None:
        """Call `take` from now on in place of the function of `begin`, unless that has stopped."""
        if self._take is not None:
            self._take = take

    def stop(self) -> None:
        """Call nothing any more; what has not been read yet stays where it is."""
        self._poller.forget(self._descriptor, self)
        self._task = self._take = self._stopped = None

    def closing(self) -> None:
        if self._called:
            self._closed = True
        else:
            self._end(None, _closed())

    def ready(self) -> None:
        take = self._take
        if take is None:
            return  # forgotten earlier in this pass
        self._called = True
        try:
            pending = take(data) if (data := self._sock.recv(READ_BYTES)) else None
        except BlockingIOError:
            return
        except Exception as error:  # it is the session's, not the poller's
            self._end(None, error)
            return
        finally:
            self._called = False
        if pending is not None or not data:
            self._end(pending, None)
        elif self._closed:
            self.closing()

    def _end(self, pending: Pending, error: Exception | None) -> None:
        task, stopped = self._task, self._stopped
        self.stop()
        if task is not None:
            self._pending, self._error = pending, error
            trio.lowlevel.reschedule(task)
        elif stopped is not None:
            stopped(pending, error)


def _closed() -> trio.ClosedResourceError:
    return trio.ClosedResourceError("this connection is closed")
