"""Connecting to upstreams: their addresses, name lookup, forbidden addresses, TCP, and TLS on top."""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs
import trio

from gw.net.tcp import TcpStream
from gw.net.tls import client_context, start_tls
from gw.net.transport import Transport
from gw.net.unreachable import CAUSES, EXHAUSTED, ConnectFailed, require_descriptor
from gw.types.address import is_never_called, is_public, is_refused, split_address

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@attrs.frozen(kw_only=True)
class Origin:
    """Scheme, host and port of an upstream, and the path prefix of its base_url (no trailing slash).

    Scheme `tcp` is a bare connection; `engine` an engine in a process of the gateway, with the entry's name as `host`.
    """

    scheme: str
    host: str
    port: int
    prefix: bytes = b""
    public_only: bool = False
    """Only addresses of the public internet may be connected to, whatever the name resolves to."""
    http2: bool = False
    """HTTP/2 is requested in the handshake of TLS."""

    @classmethod
    def parse(cls, base_url: str, *, public_only: bool = False) -> Origin:
        """Raises ValueError for anything but http(s)://host[:port][/path] or tcp://host:port, without userinfo, query, fragment."""
        parts = split_address(base_url, tcp=True)
        return cls(
            scheme=parts.scheme,
            host=(parts.hostname or "").lower(),
            port=parts.port or _DEFAULT_PORTS.get(parts.scheme, 0),
            prefix=parts.path.rstrip("/").encode("ascii"),
            public_only=public_only,
        )

    @property
    def authority(self) -> str:
        """Return the value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS.get(self.scheme) else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.prefix.decode('ascii')}"


Connect = Callable[[Origin], Awaitable[Transport]]
"""Opens a connection, TLS included where the origin says https. Raises one of `LOST`."""


async def connect_tcp(origin: Origin, ssl_context: ssl.SSLContext | None = None) -> Transport:
    """Connect to the first address of `origin` that answers, with TLS for https. Nagle's algorithm is off.

    Raises ConnectFailed (no such name, nobody listens, TLS, an address that is never allowed), OSError when this process can
    open no socket. No deadline of its own.
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
            if error.errno in EXHAUSTED:
                raise
            text = f"{error.strerror or 'cannot connect'} ({origin.host}:{origin.port})"
            failure = ConnectFailed(text, CAUSES.get(error.errno or 0, "lost"))
            continue
        if origin.scheme != "https":
            return transport
        return await start_tls(transport, origin.host, ssl_context or client_context(http2=origin.http2))
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
        resolved = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        require_descriptor()  # else the lookup fails as if the name did not exist
        raise ConnectFailed(f"cannot resolve {host}: {error.strerror or 'name lookup failed'}", "name") from error
    except UnicodeError:
        raise ConnectFailed(f"cannot resolve {host}: not a host name", "name") from None
    return [(family, address) for family, _, _, _, address in resolved]


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
