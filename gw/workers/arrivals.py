"""Connections that workers give to the keeper, and their requests, of both planes. They stay here until they end."""

from __future__ import annotations

import os
import socket

import msgspec
import trio

from gw.net.tcp import TcpStream
from gw.net.transport import LOST, Address
from gw.web import http_errors
from gw.web.crash_log import log_crash
from gw.web.http_server import HttpServer
from gw.workers.connection_sender import GivenConnection

_READ_BYTES = 65_536
_MOST_DESCRIPTORS = 64  # in one read
_PREFIX = 4


class GivenStream(TcpStream):
    """A connection of a caller that another process has accepted, and decrypts where it is encrypted."""

    __slots__ = ("_addresses", "_is_tls")

    def __init__(self, sock: socket.socket, given: GivenConnection) -> None:
        super().__init__(sock)
        self._addresses = given.client, given.server
        self._is_tls = given.is_tls

    @property
    def tls(self) -> bool:
        return self._is_tls

    def addresses(self) -> tuple[Address | None, Address | None]:
        return self._addresses


class Arrivals:
    """Runs the connections that arrive on the sockets of all workers."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._open = 0

    async def run(self, sock: socket.socket, connections: trio.Nursery) -> None:
        """Take connections from one worker until it has closed its end."""
        sock.setblocking(False)
        buffer, descriptors = bytearray(), list[int]()
        try:
            while True:
                await trio.lowlevel.wait_readable(sock)
                try:
                    data, received, _flags, _address = socket.recv_fds(sock, _READ_BYTES, _MOST_DESCRIPTORS)
                except BlockingIOError:
                    continue
                except OSError:
                    return
                for descriptor in received:
                    os.set_inheritable(descriptor, False)
                descriptors += received
                if not data:
                    return
                buffer += data
                while (given := _next_given(buffer)) is not None:
                    connections.start_soon(self._connection, socket.socket(fileno=descriptors.pop(0)), given)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
            trio.lowlevel.notify_closing(sock)
            sock.close()

    async def _connection(self, sock: socket.socket, given: GivenConnection) -> None:
        """Run one connection, as its outermost function: nothing leaves it but cancellation."""
        self._open += 1
        try:
            sock.setblocking(False)
            transport = GivenStream(sock, given)
            try:
                if self._open > self._server.limits.max_connections:
                    transport.send_now(http_errors.overloaded("the gateway has reached its limit of connections").response())
                else:
                    await self._server.run_connection(transport, given.received)
            finally:
                transport.abort()
        except* LOST:
            pass  # the client's side broke
        except* Exception as error:
            log_crash("connection_crashed", error)
        finally:
            self._open -= 1
            sock.close()


def _next_given(buffer: bytearray) -> GivenConnection | None:
    """Take the next complete message out of `buffer`."""
    if len(buffer) < _PREFIX:
        return None
    end = _PREFIX + int.from_bytes(buffer[:_PREFIX], "big")
    if len(buffer) < end:
        return None
    given = msgspec.msgpack.decode(bytes(buffer[_PREFIX:end]), type=GivenConnection)
    del buffer[:end]
    return given
