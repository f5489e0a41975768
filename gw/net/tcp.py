"""Connections to upstreams: the interface of a transport, and TCP on non-blocking sockets.

A write is tried first and parks only when the kernel says so, which saves a pass through the scheduler. A read parks
first, because the last one emptied the socket, unless it filled its buffer: then more is waiting and is taken at once,
with a yield to other tasks now and then, so that a fast upstream starves nobody.
"""

from __future__ import annotations

import errno
import socket
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Final

import trio

from gw.errors import ProviderUnreachable, Unreached
from gw.net import poller
from gw.types.pending import Pending

CAUSES: Final[Mapping[int, Unreached]] = {
    errno.ECONNREFUSED: "refused",
    errno.EHOSTUNREACH: "no_route",
    errno.ENETUNREACH: "no_route",
    errno.EADDRNOTAVAIL: "no_route",
    errno.ETIMEDOUT: "timeout",
}
READ_BYTES: Final = 65_536
READS_BEFORE_YIELD: Final = 32
"""Reads in a row that found data waiting before other tasks get their turn: at most 2 MiB of work."""

LOST: Final = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)
"""What a transport raises when its connection is gone."""


class ConnectFailed(OSError):
    """No connection; the text is a plain explanation fit for an error's `detail`."""

    def __init__(self, text: str, cause: Unreached = "") -> None:
        super().__init__(text)
        self.cause: Unreached = cause


class UpstreamTransport(trio.abc.Stream):
    """A byte stream that can also be judged and dropped without waiting. Lost connections raise one of `LOST`."""

    @abstractmethod
    def is_stale(self) -> bool:
        """Whether an idle connection has been closed, or has bytes nobody asked for. Never blocks."""

    @abstractmethod
    def abort(self) -> None:
        """Close at once, without any goodbye. Idempotent."""

    def put(self, data: bytes) -> Pending:
        """As `send_all`; what of it is left to wait for. Raises one of `LOST`."""
        return self.send_all(data)

    def receive_now(self) -> bytes | None:
        """What has come already; None where there is nothing, b"" at the end of the stream. Raises one of `LOST`."""
        return None

    async def receive_each(self, take: Callable[[bytes], Pending]) -> Pending:
        """Give `take` what arrives, until it leaves something to wait for, which is returned; None at the end of the stream.

        On a plain socket that is looked after by the poller: `take` must not wait, nor need a task of its own.
        """
        return await poller.each_by_task(self.receive_some, take)


def describe(error: BaseException) -> str:
    """Why a connection failed, in words without addresses of code or vendor bytes."""
    if isinstance(error, ConnectFailed):
        return str(error)
    cause = error.__cause__
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if isinstance(cause, OSError) and cause is not error:
        return describe(cause)
    return "connection lost"


def unreachable(provider: str, error: BaseException) -> ProviderUnreachable:
    """What a failed connection stands for."""
    cause = error.cause if isinstance(error, ConnectFailed) else CAUSES.get(getattr(error, "errno", None) or 0, "lost")
    return ProviderUnreachable(provider=provider, detail=describe(error), cause=cause)


class TcpStream(UpstreamTransport):
    """A connected, non-blocking stdlib socket."""

    __slots__ = ("_busy_reads", "_more", "_reading", "_sock")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._reading: poller.Reading | None = None
        self._busy_reads = 0
        self._more = False
        """The last read filled its buffer."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """A send cancelled half-way closes the connection, since nobody could tell where it stopped."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if (rest := self.put(data)) is not None:
            await rest

    def put(self, data: bytes | bytearray | memoryview) -> Pending:
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        return None if sent == len(data) else self._send_rest(memoryview(data)[sent:])

    async def _send_rest(self, rest: memoryview) -> None:
        try:
            while rest:
                await trio.lowlevel.wait_writable(self._sock)
                try:
                    rest = rest[self._sock.send(rest) :]
                except BlockingIOError:
                    continue
        except BaseException:
            self.abort()
            raise

    async def receive_each(self, take: Callable[[bytes], Pending]) -> Pending:
        polled = poller.current()
        if polled is None:
            return await super().receive_each(take)
        if self._reading is None:
            self._reading = poller.Reading(polled, self._sock)
        return await self._reading.each(take)

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.wait_writable(self._sock)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        sock, limit, ready = self._sock, READ_BYTES if max_bytes is None else max_bytes, self._more
        if ready:
            await self._take_turns()
        descriptor = sock.fileno()
        if descriptor < 0:
            raise trio.ClosedResourceError("this connection is closed")
        while True:
            if not ready:
                self._busy_reads = 0
                await trio.lowlevel.wait_readable(descriptor)
            try:
                data = sock.recv(limit)
            except BlockingIOError:
                ready = False
                continue
            self._more = len(data) == limit
            return data

    def receive_now(self) -> bytes | None:
        try:
            return self._sock.recv(READ_BYTES)
        except BlockingIOError:
            return None

    async def _take_turns(self) -> None:
        self._busy_reads += 1
        if self._busy_reads < READS_BEFORE_YIELD:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            self._busy_reads = 0
            await trio.lowlevel.checkpoint()

    def is_stale(self) -> bool:
        try:
            self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def abort(self) -> None:
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            if self._reading is not None:
                self._reading.closing()
            self._sock.close()

    async def aclose(self) -> None:
        self.abort()
        await trio.lowlevel.checkpoint()
