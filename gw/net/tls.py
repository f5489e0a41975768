"""Connections to upstreams: the transport interface, TCP on non-blocking sockets, TLS on top, forbidden addresses.

A write is tried first and parks only when the kernel says so, which saves a pass through the scheduler. A read parks
first, because the last one emptied the socket, unless it filled its buffer: then more is waiting and is taken at once,
with a yield to other tasks now and then, so that a fast upstream starves nobody.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import ssl
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, Final

import trio

from gw.errors import ProviderUnreachable, Unreached
from gw.net.origin import Origin
from gw.types.address import is_never_called, is_public, is_refused

_CAUSES: Final[Mapping[int, Unreached]] = {
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


class Transport(trio.abc.Stream):
    """A byte stream that can also be judged and dropped without waiting. Lost connections raise one of `LOST`."""

    @abstractmethod
    def is_stale(self) -> bool:
        """Whether an idle connection has been closed, or has bytes nobody asked for. Never blocks."""

    @abstractmethod
    def abort(self) -> None:
        """Close at once, without any goodbye. Idempotent."""


Connect = Callable[[Origin], Awaitable[Transport]]
"""Opens a connection, TLS included where the origin says https. Raises one of `LOST`."""


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
    cause = error.cause if isinstance(error, ConnectFailed) else _CAUSES.get(getattr(error, "errno", None) or 0, "lost")
    return ProviderUnreachable(provider=provider, detail=describe(error), cause=cause)


class TcpStream(Transport):
    """A connected, non-blocking stdlib socket."""

    __slots__ = ("_busy_reads", "_more", "_sock")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._busy_reads = 0
        self._more = False
        """The last read filled its buffer."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """A send cancelled half-way closes the connection, since nobody could tell where it stopped."""
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        if sent == len(data):
            return
        rest = memoryview(data)[sent:]
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
            self._sock.close()

    async def aclose(self) -> None:
        self.abort()
        await trio.lowlevel.checkpoint()


class TlsStream(Transport):
    """TLS over a transport, after its handshake."""

    __slots__ = ("_ssl", "_tcp")

    def __init__(self, stream: trio.SSLStream[Transport]) -> None:
        self._ssl = stream
        self._tcp = stream.transport_stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._ssl.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._ssl.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._ssl.receive_some(max_bytes)

    def is_stale(self) -> bool:
        # A session ticket that comes late looks like data too; it costs a new connection, never a wrong answer.
        return bool(self._ssl.pending()) or self._tcp.is_stale()

    def abort(self) -> None:
        self._tcp.abort()

    async def aclose(self) -> None:
        await self._ssl.aclose()


@cache
def client_context() -> ssl.SSLContext:
    """The system's trust store; TLS 1.2 and up; HTTP/1.1 only. Read once: it takes some milliseconds."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


async def connect_tcp(origin: Origin, ssl_context: ssl.SSLContext | None = None) -> Transport:
    """Connect to the first address of `origin` that answers, with TLS for https. Nagle's algorithm is off.

    Raises ConnectFailed (no such name, nobody listens, TLS, an address that is never allowed). No deadline of its own.
    """
    addresses = await _resolve(origin.host, origin.port)
    failure = ConnectFailed(f"cannot resolve {origin.host}: no address", "name")
    for family, address in addresses:
        if is_refused(address[0]):
            failure = ConnectFailed(f"{origin.host} is a link-local or metadata address, which is never called", "address")
            continue
        if origin.public_only and not is_public(address[0]):
            what = f"{origin.host} is a private address; list it in serve.provider_base_url_hosts to allow it"
            failure = ConnectFailed(what, "address")
            continue
        try:
            transport = await _connect(family, address)
        except OSError as error:
            text = f"{error.strerror or 'cannot connect'} ({origin.host}:{origin.port})"
            failure = ConnectFailed(text, _CAUSES.get(error.errno or 0, "lost"))
            continue
        if origin.scheme != "https":
            return transport
        return await _start_tls(transport, origin.host, ssl_context or client_context())
    raise failure


async def _resolve(host: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
    if is_never_called(host):
        raise ConnectFailed(f"{host} is a link-local or metadata address, which is never called", "address")
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        pass
    else:
        return [(socket.AF_INET if version == 4 else socket.AF_INET6, (host, port))]
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConnectFailed(f"cannot resolve {host}: {error.strerror or 'name lookup failed'}", "name") from error
    except UnicodeError:
        raise ConnectFailed(f"cannot resolve {host}: not a host name", "name") from None
    return [(family, address) for family, _, _, _, address in found]


async def _connect(family: int, address: tuple[Any, ...]) -> TcpStream:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            sock.connect(address)
        except BlockingIOError:
            await trio.lowlevel.wait_writable(sock)
            if code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(code, os.strerror(code)) from None
    except BaseException:
        sock.close()
        raise
    return TcpStream(sock)


async def _start_tls(transport: Transport, host: str, context: ssl.SSLContext) -> TlsStream:
    # https_compatible: a close without goodbye counts as an end, as web servers do it; framing shows a cut answer.
    stream = trio.SSLStream(transport, context, server_hostname=host, https_compatible=True)
    try:
        await stream.do_handshake()
    except LOST as error:
        transport.abort()
        raise ConnectFailed(f"TLS: {_tls_reason(error)}", "tls") from error
    except BaseException:
        transport.abort()
        raise
    return TlsStream(stream)


def _tls_reason(error: BaseException) -> str:
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"certificate not accepted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLEOFError):
        return "closed the connection during the handshake"
    if isinstance(cause, ssl.SSLError) and cause.reason:
        return cause.reason.replace("_", " ").lower()
    return describe(cause)
