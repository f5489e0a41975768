"""One express connection's bytes, read in one of two ways, and writes with a deadline.

Without a reader task (HTTP on a plain socket) `wait` reads, in the connection's own task, and `hung_up` is called from
outside when the client leaves while the app runs. With one (WebSockets, TLS) the reader puts what arrives into `buffer`,
or has it given to `sink` as it arrives, and rests while more than UNREAD_BYTES wait there. Either way a client that
leaves is seen at once: `on_left` is called, which cancels the app. (A reader that rests sees it at the next write.)
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import attrs
import trio

from gw.net.poller import Poller
from gw.types.pending import Pending, done
from gw.web.drain import Drain
from gw.web.transport import ClientTransport

UNREAD_BYTES = 262_144
"""Received and not yet taken by the app; beyond it the reader pauses and the client's TCP window closes."""
PIECE_BYTES = 262_144
"""A blocked write gets its deadline anew after each such piece: a large body needs 9 kB/s, not one deadline in all."""
LINGER_BYTES = 1_048_576
LINGER_S = 1.0
"""After a refusal what the client still sends is dropped, else the kernel's reset would overtake our answer."""

GONE = (trio.BrokenResourceError, trio.ClosedResourceError)


@attrs.frozen(kw_only=True)
class ServerLimits:
    """Seconds on trio's clock, and counts."""

    head_s: float = 10.0
    """For a request head, from its first byte; on a new connection from the accept."""
    body_idle_s: float = 30.0
    """Without one byte of a request body the app waits for."""
    body_rate: float = 100.0
    """Bytes per second a body must keep up on top of `body_idle_s`, counted only while the app waits for it."""
    idle_s: float = 75.0
    """Between two requests."""
    write_s: float = 30.0
    """For a client to take PIECE_BYTES."""
    max_connections: int = 10_000


async def send_bounded(
    transport: ClientTransport, data: bytes, write_s: float, drain: Drain, *, shield: bool = False
) -> None:
    """Send all of `data`. Raises OSError when the client is gone or does not read in time; the caller aborts then."""
    try:
        sent = transport.send_now(data)
        if sent == len(data):
            return
        view = memoryview(data)[sent:]
        while view:
            with drain.writing(write_s, shield=shield) as scope:
                await transport.send_all(view[:PIECE_BYTES])
            if scope.cancelled_caught:
                raise OSError(errno.ETIMEDOUT, "the client stopped reading")
            view = view[PIECE_BYTES:]
    except GONE as error:
        raise OSError(errno.EPIPE, "the client is gone") from error


class Connection:
    __slots__ = (
        "_paused",
        "_room",
        "_tell",
        "_unwatch",
        "_waiter",
        "buffer",
        "dead",
        "discarding",
        "drain",
        "dropped",
        "left",
        "limits",
        "on_left",
        "reading",
        "sink",
        "transport",
    )

    def __init__(self, transport: ClientTransport, limits: ServerLimits, drain: Drain) -> None:
        self.transport = transport
        self.limits = limits
        self.drain = drain
        self._tell = self.hung_up  # one object, so that `poller` knows it again
        self.buffer = bytearray()
        self.left = False
        """The client has finished sending, or the connection broke; a half-close counts as leaving."""
        self.dead = False
        """A write failed; what the app raises because of it is no fault of the app."""
        self.on_left: Callable[[], object] | None = None
        self.sink: Callable[[bytes], Pending] | None = None
        """Takes what arrives in place of `buffer`; what it leaves to wait for holds the reader back."""
        self.discarding = False
        self.dropped = 0
        self.reading = False
        """A reader task runs."""
        self._unwatch: Callable[[], None] | None = None
        self._paused = False
        self._waiter: trio.lowlevel.Task | None = None
        self._room = trio.lowlevel.ParkingLot()

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[None]:
        """A reader task for as long as the block; whatever has been received then is in `buffer`."""
        self.reading = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.read)
            yield
            nursery.cancel_scope.cancel()

    def watch(self, poller: Poller) -> bool:
        """Be told of the client's leaving by `poller`; False where a reader must find out."""
        descriptor = self.transport.descriptor
        if descriptor is None:
            return False
        self._unwatch = partial(poller.forget, descriptor, self._tell)
        poller.watch(descriptor, self._tell)
        return True

    def unwatch(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    async def read(self) -> None:
        """The reader task; ends when the client leaves. Its owner cancels it, losing nothing that was received."""
        while not self.left:
            while len(self.buffer) > UNREAD_BYTES:
                self._paused = True
                await self._room.park()
            await self._read_once()

    async def _read_once(self) -> None:
        try:
            if self.sink is not None:
                rest = await self.transport.receive_each(self._arrived)
                over = rest is None
            else:
                data = await self.transport.receive_some()
                over, rest = not data, self._arrived(data) if data else None
        except GONE:
            over, rest = True, None
        if over:
            self.hung_up()
        elif rest is not None:
            await rest
            self.wake()

    def _arrived(self, data: bytes) -> Pending:
        if self.discarding:
            self.dropped += len(data)
        elif self.sink is None:
            self.buffer += data
        elif (rest := self.sink(data)) is not None:
            return rest
        self.wake()
        return None

    def hung_up(self) -> None:
        """The client has finished sending, or the connection broke."""
        if self.left:
            return
        self.left = True
        if self.on_left is not None and not self.dead:  # else the app hears it from its `send`
            self.on_left()
        self.wake()

    def wait(self) -> Awaitable[None]:
        """Until bytes arrive or the client leaves; returns at once when it has left. For one task at a time."""
        if self.left:
            return done()
        return self.wait_changed() if self.reading else self._read_once()

    async def wait_changed(self) -> None:
        """Until `wake`: bytes from a reader task, the client's leaving, the end of an answer. Reads nothing itself.

        A bare trap in place of a ParkingLot: with a reader this runs once per request.
        """
        if self._waiter is not None:
            raise trio.BusyResourceError("another task waits for this client already")
        self._waiter = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abort_wait)

    def _abort_wait(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._waiter = None
        return trio.lowlevel.Abort.SUCCEEDED

    def wake(self) -> None:
        """Let `wait` return, because something changed that its caller looks at."""
        if self._waiter is not None:
            task, self._waiter = self._waiter, None
            trio.lowlevel.reschedule(task)

    def taken(self) -> None:
        """To be called after removing bytes from `buffer`."""
        if self._paused and len(self.buffer) <= UNREAD_BYTES:
            self._paused = False
            self._room.unpark_all()

    def send_now(self, data: bytes) -> bytes:
        """Hand over what can be taken without waiting; returns the rest. Of a broken connection only `send` tells."""
        try:
            return data[self.transport.send_now(data) :]
        except GONE:
            return data

    async def send(self, data: bytes) -> None:
        """Raises OSError when the client is gone or does not take `data` in time; the connection is then dead."""
        try:
            await send_bounded(self.transport, data, self.limits.write_s, self.drain)
        except OSError:
            self.dead = True
            await self.transport.abort()
            raise

    async def linger(self) -> None:
        """After the last answer to a client that may still be sending: finish our side, drop what comes."""
        self.discarding = True
        self.buffer.clear()
        self.taken()
        try:
            await self.transport.send_eof()
        except GONE:
            return
        with trio.move_on_after(LINGER_S):
            while not self.left and self.dropped < LINGER_BYTES:
                await self.wait()
