"""One socket between the keeper and a worker: frames of MessagePack in both directions.

`send` never waits: what the kernel does not take at once is sent by `run`. The other end never lets much wait, so too much means that it
is stuck, and the channel is closed.

    frame: length of the message, 4 bytes, big-endian ─ message
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

import msgspec
import trio

MAX_UNSENT = 64 * 2**20
"""Bytes that wait for the other end: a stuck one is given up."""
_READ_BYTES = 256 * 1024
_PREFIX = 4

T = TypeVar("T")


class ChannelClosed(Exception):
    """The other end has closed the channel, or is stuck."""


class Channel(Generic[T]):
    """`T`: union of the messages that arrive."""

    def __init__(self, sock: socket.socket, arrives: Any) -> None:
        """`arrives`: T, as MessagePack is decoded to it."""
        sock.setblocking(False)
        self.closed = False
        self._sock = sock
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(arrives).decode
        self._unsent = bytearray()
        self._wake = trio.Event()

    def send(self, message: msgspec.Struct) -> None:
        """Send a message, or let `run` do it. Raises ChannelClosed."""
        if self.closed:
            raise ChannelClosed
        body = self._encode(message)
        frame = len(body).to_bytes(_PREFIX, "big") + body
        sent = 0
        if not self._unsent:
            try:
                sent = self._sock.send(frame)
            except BlockingIOError:
                pass
            except OSError:
                self.give_up()
                raise ChannelClosed from None
        if sent < len(frame):
            self._unsent += memoryview(frame)[sent:]
            self._wake.set()
            if len(self._unsent) > MAX_UNSENT:
                self.give_up()
                raise ChannelClosed

    async def run(self, take: Callable[[T], None]) -> None:
        """Call `take` with each message until the other end closes the channel. Then the channel is closed."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_rest)
                await self._receive(take)
                nursery.cancel_scope.cancel()
        finally:
            self.closed = True

    async def _receive(self, take: Callable[[T], None]) -> None:
        buffer = bytearray()
        while not self.closed:
            await trio.lowlevel.wait_readable(self._sock)
            try:
                data = self._sock.recv(_READ_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                return
            if not data:
                return
            buffer += data
            start = 0
            while len(buffer) - start >= _PREFIX:
                end = start + _PREFIX + int.from_bytes(buffer[start : start + _PREFIX], "big")
                if len(buffer) < end:
                    break
                take(self._decode(bytes(memoryview(buffer)[start + _PREFIX : end])))
                start = end
            del buffer[:start]

    async def _send_rest(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._unsent:
                await trio.lowlevel.wait_writable(self._sock)
                try:
                    sent = self._sock.send(self._unsent)
                except BlockingIOError:
                    continue
                except OSError:  # the reader notices it, too
                    return
                del self._unsent[:sent]

    def is_hung_up(self) -> bool:
        """Return whether the other end has closed the channel, also while messages of it are still to be read."""
        if self.closed:
            return True
        poll = select.poll()
        poll.register(self._sock, 0)  # a hang-up is always reported
        return bool(poll.poll(0))

    def give_up(self) -> None:
        self.closed = True
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket; the other end notices it. `run` must have ended."""
        self.closed = True
        self._sock.close()


def receive_blocking(sock: socket.socket, arrives: type[T]) -> T | None:
    """Wait for one message, before any task runs; None if the other end has closed the channel."""
    head = _read_exactly(sock, _PREFIX)
    body = _read_exactly(sock, int.from_bytes(head, "big")) if head else b""
    return msgspec.msgpack.decode(body, type=arrives) if body else None


def _read_exactly(sock: socket.socket, length: int) -> bytes:
    """Return this many bytes, or b"" at the end of the stream."""
    data = bytearray()
    while len(data) < length:
        try:
            piece = sock.recv(length - len(data))
        except OSError:
            return b""
        if not piece:
            return b""
        data += piece
    return bytes(data)
