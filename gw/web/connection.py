"""One client connection: its bytes, read in one of three ways, and writes with a deadline.

    in `wait`       HTTP on a plain socket: the connection's own task reads, and the poller calls `ready` when the client leaves
    by callbacks    WebSockets on a plain socket: the poller reads; a task runs only for what must be awaited before more is read
    by a reader     TLS, and where there is no poller: a task of its own

In the last two ways what arrives is appended to `buffer`, or passed to the sink, and reading pauses while more than UNREAD_BYTES wait.
In any way a client that leaves is noticed at once: `on_left` is called, which cancels the app. (While reading pauses, it is noticed at
the next write.)
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable

import trio

from gw.net.poller import Poller, Reading, SocketWatcher
from gw.net.transport import LOST, Transport
from gw.net.wakeup import Wakeup
from gw.types.ids import Link
from gw.types.pending import READY, Pending, pending_error
from gw.web.crash_log import log_crash
from gw.web.drain import Drain
from gw.web.server_limits import PIECE_BYTES, ServerLimits

UNREAD_BYTES = 262_144
"""Received and not yet taken by the app; beyond it the reader pauses and the client's TCP window closes."""
LINGER_BYTES = 1_048_576
LINGER_S = 1.0
"""After a refusal what the client still sends is dropped, else the kernel's reset would overtake our answer."""


class Connection(SocketWatcher):
    __slots__ = (
        "_awaiting", "_changed", "_descriptor", "_poller", "_reader", "_room", "_sink", "_watches", "buffer", "client", "dead",
        "discarding", "drain", "dropped", "left", "limits", "link", "on_left", "reading", "server", "transport",
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
        self._sink: Callable[[bytes], Pending] | None = None
        """Takes what arrives in place of `buffer`; what it returns is awaited before more is read."""
        self.discarding = False
        self.dropped = 0
        self.reading = False  # by a reader or by callbacks
        self._poller: Poller | None = None
        self._watches = False  # the poller reports when the client leaves
        self._reader: Reading | None = None  # by callbacks
        self._awaiting: trio.CancelScope | None = None  # of the task that reads on when something has been awaited
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
        self._poller, self._descriptor, self._watches = poller, descriptor, True
        poller.watch(descriptor, self)
        return True

    def unwatch(self) -> None:
        if self._watches and self._poller is not None:
            self._poller.forget(self._descriptor, self)
            self._watches = False

    def release(self) -> None:
        """Stop watching and refer to no one: what the connection had must be free without a collection of cycles."""
        self.unwatch()
        if self._reader is not None:  # its task was cancelled before `stop_reading`
            self._reader.stop()
            self._reader = None
            if self._awaiting is not None:
                self._awaiting.cancel()
        self._sink = self.on_left = None

    def sink_by(self, sink: Callable[[bytes], Pending]) -> None:
        """Have `sink` take what arrives from now on; what it returns is awaited before more is read."""
        self._sink = sink
        if self._reader is not None:
            self._reader.take_by(self._taker())

    def _taker(self) -> Callable[[bytes], Pending]:
        """Return what takes live audio directly, one call less for each frame."""
        return self._arrived if self._sink is None or self.discarding else self._sink

    # ------------------------------------------------------------------ by callbacks

    def read_by_callbacks(self) -> None:
        """Begin to read where `watch` returned True, until `stop_reading`."""
        assert self._poller is not None
        self.reading, self._reader = True, self.transport.reading_by(self._poller)
        self._read_on()

    async def stop_reading(self) -> None:
        """Stop what `read_by_callbacks` began; what was received is in `buffer` or was taken. Does not wait for anything long."""
        if (reader := self._reader) is None:
            return
        self.reading, self._reader = False, None
        reader.stop()
        if self._awaiting is not None:
            self._awaiting.cancel()
            with trio.CancelScope(shield=True):
                while self._awaiting is not None:
                    await self._changed.wait()

    def _read_on(self) -> None:
        if self._reader is not None and not self.left:
            self._reader.begin(self._taker(), self._stopped)

    def _stopped(self, pending: Pending, error: Exception | None) -> None:
        assert self._poller is not None
        if pending is not None:
            self._start_soon(pending)
        elif isinstance(error, trio.ClosedResourceError):  # by the task that writes, which first notes why
            self._start_soon(READY)
        elif error is None or isinstance(error, LOST):
            self.hung_up()
        else:
            self._start_soon(pending_error(error))

    def _start_soon(self, pending: Awaitable[None]) -> None:
        assert self._poller is not None
        self._awaiting = scope = trio.CancelScope()
        self._poller.start_soon(self._read_after, pending, scope)

    async def _read_after(self, pending: Awaitable[None], scope: trio.CancelScope) -> None:
        """Read on when `pending` has been awaited."""
        try:
            with scope:
                await pending
        except Exception as error:
            log_crash("connection_crashed", error)
            self.transport.reset()
        finally:
            self._awaiting = None
            self.wake()
        if self._reader is not None and self.transport.descriptor == -1:
            self.hung_up()
        else:
            self._read_on()

    # ------------------------------------------------------------------ by a reader, and in `wait`

    async def read(self) -> None:
        """Read until the client leaves. Its owner may cancel it, which loses nothing that was received."""
        while not self.left:
            await self._read_once()

    async def _read_once(self) -> None:
        try:
            if self._sink is not None:
                # A session that is over has its sink wait, after which this chooses anew.
                pending = await self.transport.for_each_piece(self._taker())
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
        if self._sink is not None and not self.discarding:
            if (pending := self._sink(data)) is not None:
                return pending
        elif self.discarding:
            self.dropped += len(data)
        else:
            self.buffer += data
        self._changed.wake()
        return self._wait_for_room() if self.reading and len(self.buffer) > UNREAD_BYTES else None

    async def _wait_for_room(self) -> None:
        while len(self.buffer) > UNREAD_BYTES:
            await self._room.wait()

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
        """Let reading go on where it pauses; call this after removing bytes from `buffer`."""
        if self.reading and len(self.buffer) <= UNREAD_BYTES:
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
        if self._reader is not None:
            self._reader.take_by(self._taker())
        self.buffer.clear()
        self.taken()
        try:
            await self.transport.send_eof()
        except LOST:
            return
        with trio.move_on_after(LINGER_S):
            while not self.left and self.dropped < LINGER_BYTES:
                await self.wait()
