"""One client connection: its bytes, read in one of two ways, and writes with a deadline.

Without a reader task (HTTP on a plain socket) `wait` reads, in the connection's own task, and the poller calls `ready`
when the client leaves while the app runs. With one (WebSockets, TLS) the reader appends what arrives to `buffer`, or passes
it to `sink`, and pauses while more than UNREAD_BYTES wait. Either way a client that leaves is noticed at once: `on_left` is
called, which cancels the app. (A paused reader notices it at the next write.)
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable

import trio

from gw.net.poller import Poller, SocketWatcher
from gw.net.transport import LOST, Transport
from gw.net.wakeup import Wakeup
from gw.types.ids import Link
from gw.types.pending import READY, Pending
from gw.web.drain import Drain
from gw.web.server_limits import PIECE_BYTES, ServerLimits

UNREAD_BYTES = 262_144
"""Received and not yet taken by the app; beyond it the reader pauses and the client's TCP window closes."""
LINGER_BYTES = 1_048_576
LINGER_S = 1.0
"""After a refusal what the client still sends is dropped, else the kernel's reset would overtake our answer."""


class Connection(SocketWatcher):
    __slots__ = (
        "_changed", "_descriptor", "_paused", "_room", "_watching", "buffer", "client", "dead", "discarding", "drain",
        "dropped", "left", "limits", "link", "on_left", "reading", "server", "sink", "transport",
    )  # fmt: skip

    def __init__(self, transport: Transport, limits: ServerLimits, drain: Drain) -> None:
        self.transport = transport
        self.client, self.server = transport.addresses()
        self.limits = limits
        self.link = Link()
        self.drain = drain
        self.buffer = bytearray()
        self.left = False  # the client has finished sending, or the connection broke; a half-close counts as leaving
        self.dead = False  # a write failed; what the app raises because of it is not a crash
        self.on_left: Callable[[], object] | None = None
        self.sink: Callable[[bytes], Pending] | None = None
        """Takes what arrives in place of `buffer`; the reader waits for what it returns."""
        self.discarding = False
        self.dropped = 0
        self.reading = False  # a reader task runs
        self._watching: Poller | None = None
        self._paused = False
        self._changed = Wakeup()
        self._room = Wakeup()

    def start_reading(self, nursery: trio.Nursery) -> None:
        """Start the reader task; once it is cancelled, all that was received is in `buffer`."""
        self.reading = True
        nursery.start_soon(self.read)

    def watch(self, poller: Poller) -> bool:
        """Have `poller` report when the client leaves; False where only a reader can notice."""
        descriptor = self.transport.descriptor
        if descriptor is None:
            return False
        self._watching, self._descriptor = poller, descriptor
        poller.watch(descriptor, self)
        return True

    def unwatch(self) -> None:
        if self._watching is not None:
            self._watching.forget(self._descriptor, self)
            self._watching = None

    def release(self) -> None:
        """Stop watching and refer to no one: what the connection had must be free without a collection of cycles."""
        self.unwatch()
        self.sink = self.on_left = None

    async def read(self) -> None:
        """Read until the client leaves. Its owner may cancel it, which loses nothing that was received."""
        while not self.left:
            while len(self.buffer) > UNREAD_BYTES:
                self._paused = True
                await self._room.wait()
            await self._read_once()

    async def _read_once(self) -> None:
        try:
            if self.sink is not None:
                # Live audio goes to the sink directly. A session that is over has its sink wait, after which this chooses anew.
                pending = await self.transport.for_each_piece(self._arrived if self.discarding else self.sink)
                ended = pending is None
            else:
                data = await self.transport.receive_some()
                ended, pending = not data, self._arrived(data) if data else None
        except LOST:
            ended, pending = True, None
        if ended:
            self.hung_up()
        elif pending is not None:
            await pending
            self.wake()

    def _arrived(self, data: bytes) -> Pending:
        if self.sink is not None and not self.discarding:
            if (pending := self.sink(data)) is not None:
                return pending
        elif self.discarding:
            self.dropped += len(data)
        else:
            self.buffer += data
        self._changed.wake()
        return None

    def ready(self) -> None:
        """Note that the client has finished sending: the poller watches for nothing else."""
        self.hung_up()

    def hung_up(self) -> None:
        """Record that the client has finished sending, or that the connection broke."""
        if self.left:
            return
        self.left = True
        if self.on_left is not None and not self.dead:  # else the app learns it from its `send`
            self.on_left()
        self.wake()

    async def receive(self, most_bytes: int) -> bytes:
        """Wait for bytes and return them, past `buffer`, which is empty; b"" when the client has left. Not beside a reader task."""
        try:
            data = await self.transport.receive_some(most_bytes)
        except LOST:
            data = b""
        if not data:
            self.hung_up()
        return data

    def receive_now(self, most_bytes: int) -> bytes:
        """Return bytes that have arrived, past `buffer`, which is empty, without a turn for other tasks; b"" when there are none.

        Not beside a reader task. A client that has left is noticed by whoever waits next.
        """
        try:
            return self.transport.receive_now(most_bytes) or b""
        except LOST:
            return b""

    async def receive_arrived(self, most_bytes: int) -> bytes:
        """Return bytes that have arrived already, past `buffer`, which is empty; b"" when there are none. Not beside a reader task."""
        try:
            data = await self.transport.receive_arrived(most_bytes)
        except LOST:
            data = b""
        if data == b"":
            self.hung_up()
        return data or b""

    def wait(self) -> Awaitable[None]:
        """Wait until bytes arrive or the client leaves; return at once when it has left. For one task at a time."""
        if self.left:
            return READY
        return self.wait_changed() if self.reading else self._read_once()

    def wait_changed(self) -> Awaitable[None]:
        """Wait until `wake`: bytes from a reader task, a client that left, the end of an answer. Reads nothing itself."""
        return self._changed.wait()

    def wake(self) -> None:
        """Let `wait` return, because something its caller checks has changed."""
        self._changed.wake()

    def taken(self) -> None:
        """Let a paused reader go on; call this after removing bytes from `buffer`."""
        if self._paused and len(self.buffer) <= UNREAD_BYTES:
            self._paused = False
            self._room.wake()

    def send_now(self, data: bytes) -> bytes:
        """Send what needs no waiting and return the remainder. Only `send` reports a broken connection."""
        try:
            sent = self.transport.send_now(data)
        except LOST:
            return data
        return data[sent:]

    async def send(self, data: bytes) -> None:
        """Send all of `data`. Raises OSError when the client is gone or does not read in time; the connection is then dead."""
        transport = self.transport
        try:
            sent = transport.send_now(data)
            unsent = memoryview(data)[sent:]
            while unsent:
                with self.drain.writing(self.limits.write_s) as scope:
                    await transport.send_all(unsent[:PIECE_BYTES])
                if scope.cancelled_caught:
                    raise TimeoutError(errno.ETIMEDOUT, "the client stopped reading")
                unsent = unsent[PIECE_BYTES:]
        except LOST as error:
            self.dead = True
            transport.reset()
            if isinstance(error, OSError):
                raise
            raise OSError(errno.EPIPE, "the client is gone") from error

    async def linger(self) -> None:
        """After the last answer to a client that may still be sending: finish our side, drop what still arrives."""
        self.discarding = True
        self.buffer.clear()
        self.taken()
        try:
            await self.transport.send_eof()
        except LOST:
            return
        with trio.move_on_after(LINGER_S):
            while not self.left and self.dropped < LINGER_BYTES:
                await self.wait()
