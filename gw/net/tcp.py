"""TCP on non-blocking sockets, for clients of the gateway and for upstreams.

A write is tried first and parks only when the kernel says so, which saves a pass through the scheduler. A read parks
first, because the last one emptied the socket, unless it filled its buffer: then more is waiting and is taken at once,
with a yield to other tasks now and then, so that a fast sender starves nobody.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

import trio

from gw.net import poller
from gw.net.transport import READ_BYTES, Address, Transport
from gw.types.compiled import mypyc_attr
from gw.types.pending import Pending

BYTES_BEFORE_YIELD = 32 * READ_BYTES
"""Reads in a row that found data waiting before other tasks get their turn: at most 2 MiB of work."""

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


@mypyc_attr(allow_interpreted_subclasses=True)
class TcpStream(Transport):
    """A connected, non-blocking stdlib socket."""

    __slots__ = ("_busy_bytes", "_more", "_poll", "_reading", "_sock")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._reading: poller.Reading | None = None
        self._poll: select.poll | None = None  # for `has_arrived`: kept, since making one costs as much as using it
        self._busy_bytes = 0
        self._more = False  # the last read filled its buffer

    @property
    def descriptor(self) -> int:
        return self._sock.fileno()

    def addresses(self) -> tuple[Address | None, Address | None]:
        try:
            return self._sock.getpeername()[:2], self._sock.getsockname()[:2]
        except (OSError, TypeError):
            return None, None

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of `data`. A send cancelled half-way resets the connection, since nobody could tell where it stopped."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if (pending := self.send_or_pending(data)) is not None:
            await pending

    def send_now(self, data: bytes | bytearray | memoryview) -> int:
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0

    def send_or_pending(self, data: bytes | bytearray | memoryview) -> Pending:
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        return None if sent == len(data) else self._send_remainder(memoryview(data)[sent:])

    async def _send_remainder(self, remainder: memoryview) -> None:
        try:
            while remainder:
                await trio.lowlevel.wait_writable(self._sock)
                sent = self.send_now(remainder)
                remainder = remainder[sent:]
        except BaseException:
            self.reset()
            raise

    async def send_eof(self) -> None:
        self._sock.shutdown(socket.SHUT_WR)

    def for_each_piece(self, take: Callable[[bytes], Pending]) -> Coroutine[Any, Any, Pending]:
        polled = poller.current()
        return super().for_each_piece(take) if polled is None else self.reading_by(polled).each(take)

    def reading_by(self, polled: poller.Poller) -> poller.Reading:
        if self._reading is None:
            self._reading = poller.Reading(polled, self._sock)
        return self._reading

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        sock, limit, ready = self._sock, READ_BYTES if max_bytes is None else max_bytes, self._more
        if ready:
            await self._take_turns(limit)
        descriptor = sock.fileno()
        if descriptor < 0:
            raise trio.ClosedResourceError("this connection is closed")
        while True:
            if not ready:
                self._busy_bytes = 0
                await trio.lowlevel.wait_readable(descriptor)
            try:
                data = sock.recv(limit)
            except BlockingIOError:
                ready = False
                continue
            self._more = len(data) == limit
            return data

    def receive_now(self, max_bytes: int = READ_BYTES) -> bytes | None:
        try:
            return self._sock.recv(max_bytes)
        except BlockingIOError:
            return None

    async def receive_arrived(self, max_bytes: int) -> bytes | None:
        await trio.lowlevel.checkpoint()
        self._more = False
        try:
            return self._sock.recv(max_bytes)
        except BlockingIOError:
            return None

    async def _take_turns(self, limit: int) -> None:
        self._busy_bytes += limit
        if self._busy_bytes < BYTES_BEFORE_YIELD:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            self._busy_bytes = 0
            await trio.lowlevel.checkpoint()

    def is_stale(self) -> bool:
        return self._sock.fileno() < 0 or self.has_arrived()

    def has_arrived(self) -> bool:
        if self._sock.fileno() < 0:
            return False
        if self._poll is None:
            self._poll = select.poll()  # half the price of a peek, whose usual answer is an exception
            self._poll.register(self._sock, select.POLLIN)
        return bool(self._poll.poll(0))

    def reset(self) -> None:
        if self._sock.fileno() >= 0:
            with suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.abort()

    def abort(self) -> None:
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            if self._reading is not None:
                self._reading.closing()
            self._sock.close()

    async def aclose(self) -> None:
        self.abort()
        await trio.lowlevel.checkpoint()
