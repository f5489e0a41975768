"""One small interface over what a connection runs on: a non-blocking socket, or any trio stream (TLS, memory streams).

The plain socket is called first and parked only when the kernel says so: a write that fits the send buffer costs one
system call and no pass through the scheduler. Reads always park first, which keeps a fast sender from starving others.
Both raise trio.BrokenResourceError and trio.ClosedResourceError like a trio stream.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Protocol

import trio

from gw.net import poller
from gw.types.pending import Pending

RECV_BYTES = 65_536
CLOSE_S = 1.0
"""What a TLS goodbye may take."""

Address = tuple[str, int]
_RESET = struct.pack("ii", 1, 0)


class ClientTransport(Protocol):
    tls: bool
    client: Address | None
    server: Address | None
    descriptor: int | None
    """Of the plain socket it is; None where bytes pass through something else."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """At least one byte, or b"" when the peer has finished sending."""
        ...

    async def receive_each(self, take: Callable[[bytes], Pending]) -> Pending:
        """Give `take` what arrives, until it leaves something to wait for, which is returned; None at the end.

        On a plain socket that is looked after by the poller: `take` must not wait, nor need a task of its own.
        """
        ...

    def send_now(self, data: bytes) -> int:
        """Hand over what can be taken without waiting; returns how many bytes that was."""
        ...

    async def send_all(self, data: bytes | memoryview) -> None: ...

    async def send_eof(self) -> None:
        """Finish sending, where the transport can do so alone; else nothing."""
        ...

    async def abort(self) -> None:
        """Close at once, so that the peer sees a broken connection and not an end."""
        ...

    async def aclose(self) -> None: ...


def addresses(sock: socket.socket) -> tuple[Address | None, Address | None]:
    """(client, server) as ASGI wants them; None for what is not an internet address or already gone."""
    try:
        return sock.getpeername()[:2], sock.getsockname()[:2]
    except (OSError, TypeError):
        return None, None


class SocketTransport:
    """Owns a connected, non-blocking TCP socket."""

    tls = False
    descriptor: int | None

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.descriptor = sock.fileno()
        self.client, self.server = addresses(sock)
        self._reading: poller.Reading | None = None

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        sock = self._sock
        descriptor = sock.fileno()
        if descriptor < 0:
            raise trio.ClosedResourceError("this connection is closed")
        while True:
            await trio.lowlevel.wait_readable(descriptor)
            try:
                return sock.recv(max_bytes or RECV_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                raise trio.BrokenResourceError("reading failed") from error

    async def receive_each(self, take: Callable[[bytes], Pending]) -> Pending:
        polled = poller.current()
        if polled is None:
            return await poller.each_by_task(self.receive_some, take)
        if self._reading is None:
            self._reading = poller.Reading(polled, self._sock)
        try:
            return await self._reading.each(take)
        except OSError as error:
            raise trio.BrokenResourceError("reading failed") from error

    def send_now(self, data: bytes | memoryview) -> int:
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            if self._sock.fileno() < 0:
                raise trio.ClosedResourceError("this connection is closed") from error
            raise trio.BrokenResourceError("writing failed") from error

    async def send_all(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            sent = self.send_now(view)
            view = view[sent:]
            if view:
                await trio.lowlevel.wait_writable(self._sock)

    async def send_eof(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise trio.BrokenResourceError("the connection is gone") from error

    async def abort(self) -> None:
        if self._sock.fileno() >= 0:
            with contextlib.suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        await self.aclose()

    async def aclose(self) -> None:
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            if self._reading is not None:
                self._reading.closing()
            self._sock.close()


class StreamTransport:
    """Owns any trio stream. Writes never succeed "now": every one is awaited."""

    descriptor: int | None = None

    def __init__(
        self,
        stream: trio.abc.Stream,
        *,
        tls: bool = False,
        client: Address | None = None,
        server: Address | None = None,
    ) -> None:
        self._stream = stream
        self.tls, self.client, self.server = tls, client, server

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return bytes(await self._stream.receive_some(max_bytes or RECV_BYTES))

    async def receive_each(self, take: Callable[[bytes], Pending]) -> Pending:
        return await poller.each_by_task(self.receive_some, take)

    def send_now(self, data: bytes) -> int:
        return 0

    async def send_all(self, data: bytes | memoryview) -> None:
        await self._stream.send_all(data)

    async def send_eof(self) -> None:
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            await self._stream.send_eof()

    async def abort(self) -> None:
        await trio.aclose_forcefully(self._stream)

    async def aclose(self) -> None:
        with trio.move_on_after(CLOSE_S, shield=True), contextlib.suppress(trio.BrokenResourceError):
            await self._stream.aclose()
