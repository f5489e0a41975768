"""Gives connections of callers to the keeper, from a worker: requests of the control plane, and those that need what one process keeps.

    plain socket   its descriptor goes to the keeper (SCM_RIGHTS), with what was read from it
    TLS            a pair of sockets stands in for it: the keeper gets one end, and the worker copies bytes between the other and the
                   caller, since a TLS session cannot change its process
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable

import msgspec
import trio

from gw.net.tcp import TcpStream
from gw.net.transport import LOST
from gw.web import http_errors
from gw.web.connection import Connection
from gw.web.http_server_head import Head

KEPT_HEAD = re.compile(rb"(gwt|ek)_[A-Za-z0-9_-]{60}|[?&]callback(_\w+)?=|^x-gw-dashboard:", re.IGNORECASE | re.MULTILINE)
"""Heads of requests that need the keeper wherever they go: a short-lived token, which it has issued and counts the uses of; a result
that is called back, which it stores; the dashboard's cookie, whose logout it knows."""
_COPY_BYTES = 65_536


class GivenConnection(msgspec.Struct, frozen=True, array_like=True):
    """Facts that the keeper gets beside the descriptor of a connection."""

    client: tuple[str, int] | None
    server: tuple[str, int] | None
    is_tls: bool
    received: bytes


def framed(given: GivenConnection) -> bytes:
    """Return the bytes to send along with the descriptor: a length of 4 bytes and the message."""
    body = msgspec.msgpack.encode(given)
    return len(body).to_bytes(4, "big") + body


class ConnectionSender:
    """Implements `gw.web.hand_over.OtherProcess`."""

    def __init__(self, sock: socket.socket, serves: Callable[[Head], bool]) -> None:
        """`serves` says whether this worker answers a request by itself."""
        sock.setblocking(False)
        self._sock = sock
        self._serves = serves
        self._sending = trio.Lock()
        self.changes = 0
        self.given = 0
        """Connections since the start."""

    def answers(self, head: Head, data: bytes) -> bool:
        return not self._serves(head) or KEPT_HEAD.search(data) is not None

    async def take_over(self, connection: Connection) -> bool:
        descriptor = connection.transport.descriptor
        try:
            if descriptor is not None:
                connection.unwatch()
                await self._give(descriptor, connection)
            else:
                return await self._copy(connection)
        except OSError:
            return await _refuse(connection)
        return True

    async def _give(self, descriptor: int, connection: Connection) -> None:
        """Send a descriptor, which stays open here. Raises OSError when the keeper is gone."""
        given = GivenConnection(connection.client, connection.server, connection.transport.tls, bytes(connection.buffer))
        data = memoryview(framed(given))
        async with self._sending:
            sent = 0
            while sent < len(data):
                try:
                    if sent:
                        sent += self._sock.send(data[sent:])
                    else:
                        sent = socket.send_fds(self._sock, [data], [descriptor])
                except BlockingIOError:
                    with trio.CancelScope(shield=bool(sent)):  # half a message would spoil all that follow
                        await trio.lowlevel.wait_writable(self._sock)
        self.given += 1
        del connection.buffer[: len(given.received)]  # a reader may have appended to it meanwhile

    async def _copy(self, connection: Connection) -> bool:
        """Copy bytes between the caller and the keeper until either has finished; return False if the keeper has cut an answer.

        Raises OSError when the keeper is gone.
        """
        mine, keepers = socket.socketpair()
        with keepers:
            mine.setblocking(False)
            near = TcpStream(mine)
            try:
                await self._give(keepers.fileno(), connection)
            except BaseException:
                near.abort()
                raise
        connection.taken()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_copy_up, connection, near)
                clean = await _copy_down(near, connection)
                nursery.cancel_scope.cancel()
        finally:
            near.abort()
        return clean


async def _copy_up(connection: Connection, near: TcpStream) -> None:
    """Pass on what the caller sends, and its end."""
    try:
        while True:
            data = bytes(connection.buffer)
            connection.buffer.clear()
            connection.taken()
            if data:
                await near.send_all(data)
            elif connection.left:
                await near.send_eof()
                return
            else:
                await connection.wait()
    except LOST:
        return  # the keeper has closed its end, which the other direction sees


async def _copy_down(near: TcpStream, connection: Connection) -> bool:
    """Pass on what the keeper sends until it has finished; return whether it has."""
    try:
        while data := await near.receive_some(_COPY_BYTES):
            await connection.send(data)
    except LOST:
        return False
    return True


async def _refuse(connection: Connection) -> bool:
    """Say that the part of the gateway that would answer is gone."""
    refused = http_errors.overloaded("the keeper process of this gateway is gone; it must be restarted")
    try:
        await connection.send(refused.response())
    except OSError:
        return False
    await connection.linger()
    return True
