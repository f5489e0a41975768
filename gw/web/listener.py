"""The listening sockets: accept, TLS, and one HttpServer for every connection.

    accept ─▶ (TLS) ─▶ HttpServer.run_connection ─▶ close

An exception of one connection ends that connection only.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import structlog
import trio

from gw.config.settings import Serve
from gw.errors import one_error
from gw.net import poller
from gw.net.tcp import TcpStream
from gw.net.tls import TlsStream
from gw.net.transport import LOST
from gw.net.unreachable import EXHAUSTED
from gw.telemetry.clock import Clock
from gw.web import http_errors
from gw.web.crash_log import log_crash
from gw.web.drain import Drain
from gw.web.hand_over import OtherProcess
from gw.web.http_server import Dispatch, HttpServer
from gw.web.server_limits import ServerLimits

BACKLOG = 4_096
ACCEPTS_PER_PASS = 64  # connections accepted before other tasks get a turn
PAUSE_S = 0.1  # between attempts while the process is out of file descriptors or memory for sockets
KEEPALIVE_S = 60  # TCP probes begin after this silence, so that a vanished peer does not hold a session for ever
CLOSE_S = 1.0  # for a TLS goodbye

_UNAVAILABLE = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)

log = structlog.get_logger("gw.web")


async def serve(
    *, dispatch: Dispatch, config: Serve, drain: Drain, limits: ServerLimits | None = None, clock: Clock | None = None,
    max_body_bytes: Callable[[], int] | None = None, task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:  # fmt: skip
    """Listen and serve until `drain` has begun and every connection has ended; the caller bounds that and cancels.

    `max_body_bytes` returns a limit that may change meanwhile; None = that of `config`.

    Started with the bound addresses as "http://host:port". Raises OSError when an address cannot be bound, ssl.SSLError
    or OSError for an unusable certificate.
    """
    context = tls_context(config)
    async with open_server(
        dispatch=dispatch, config=config, drain=drain, limits=limits, clock=clock, max_body_bytes=max_body_bytes
    ) as server:
        listeners = await bind(config.host, config.port)
        try:
            task_status.started([url_of(listener, tls=context is not None) for listener in listeners])
            await Listener(server, context).run(listeners)
        finally:
            for listener in listeners:
                listener.close()


@asynccontextmanager
async def open_server(
    *, dispatch: Dispatch, config: Serve, drain: Drain, limits: ServerLimits | None = None, clock: Clock | None = None,
    max_body_bytes: Callable[[], int] | None = None, other: OtherProcess | None = None,
) -> AsyncIterator[HttpServer]:  # fmt: skip
    """Yield a server for connections, and the tasks that it needs."""
    polled = poller.Poller() if poller.OFFERED else None
    server = HttpServer(
        dispatch, drain, limits=limits, max_in_flight=config.max_in_flight,
        max_body_bytes=max_body_bytes or config.max_body_bytes, clock=clock, poller=polled, other=other,
    )  # fmt: skip
    with one_error():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.close_idle)
            nursery.start_soon(server.close_sockets)
            nursery.start_soon(server.long_answers.run)
            if polled is not None:
                nursery.start_soon(polled.run)
            yield server
            nursery.cancel_scope.cancel()


class Listener:
    """Accepts connections and runs each in a task, until the server's drain begins."""

    def __init__(self, server: HttpServer, context: ssl.SSLContext | None) -> None:
        self._server = server
        self._context = context
        self._open = 0
        self.accepted = 0
        """Connections since the start."""

    @property
    def open(self) -> int:
        """Return the number of open connections."""
        return self._open

    async def run(self, listeners: list[socket.socket]) -> None:
        """Accept until the drain begins; return when the last connection has ended."""
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                for listener in listeners:
                    accepting.start_soon(self._accept, listener, connections)
                await self._server.drain.wait_begun()
                accepting.cancel_scope.cancel()
            for listener in listeners:
                self._accept_waiting(listener, connections)  # the kernel has answered them: closing would reset them
                listener.close()

    def _accept_waiting(self, listener: socket.socket, connections: trio.Nursery) -> None:
        with suppress(OSError):
            while True:
                connections.start_soon(self._connection, listener.accept()[0])

    async def _accept(self, listener: socket.socket, connections: trio.Nursery) -> None:
        """Accept until cancelled: any error of `accept` concerns one connection or passes."""
        exhausted = False
        while True:
            await trio.lowlevel.wait_readable(listener)
            for _ in range(ACCEPTS_PER_PASS):
                try:
                    sock, _address = listener.accept()
                except BlockingIOError:
                    break
                except OSError as error:
                    if error.errno not in EXHAUSTED:
                        continue  # that client has already left
                    if not exhausted:
                        log.error("accept_paused", errno=errno.errorcode[error.errno])
                    exhausted = True
                    await trio.sleep(PAUSE_S)
                    break
                exhausted = False
                connections.start_soon(self._connection, sock)

    async def _connection(self, sock: socket.socket) -> None:
        """Run one connection, as its outermost function: nothing leaves it but cancellation."""
        self._open += 1
        self.accepted += 1
        try:
            _configure(sock)
            tcp = TcpStream(sock)
            transport = tcp if self._context is None else TlsStream(tcp, self._context, None)
            try:
                if isinstance(transport, TlsStream):
                    with trio.fail_after(self._server.limits.head_s):
                        await transport.shake_hands()
                if self._open > self._server.limits.max_connections:
                    transport.send_now(http_errors.overloaded("the gateway has reached its limit of connections").response())
                else:
                    await self._server.run_connection(transport)
            finally:
                with trio.move_on_after(CLOSE_S, shield=True):
                    await transport.aclose()
        except* (*LOST, trio.TooSlowError):
            pass  # the client's side broke
        except* Exception as error:
            log_crash("connection_crashed", error)
        finally:
            self._open -= 1
            sock.close()


async def bind(host: str, port: int, *, shared: bool = False, listens: bool = True) -> list[socket.socket]:
    """Return listening, non-blocking sockets on every address of `host` ("" = all); one port for all of them.

    `shared`: other processes of this user may bind the same addresses, and the kernel gives each new connection to one of those that
    listen. Without `listens` the addresses are only reserved: who connects is refused.

    An address family that this machine lacks is left out when another works. Raises OSError.
    """
    resolved = await trio.socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in resolved):
            if port == 0 and listeners:
                address = (address[0], listeners[0].getsockname()[1], *address[2:])
            try:
                listeners.append(_listen(family, address, shared=shared, listens=listens))
            except OSError as error:
                if error.errno not in _UNAVAILABLE:
                    raise
                missing = error
        if not listeners and missing is not None:
            raise missing
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def _listen(family: int, address: tuple[object, ...], *, shared: bool, listens: bool) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
        if listens:
            listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _configure(sock: socket.socket) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)


def tls_context(config: Serve) -> ssl.SSLContext | None:
    """Return what encrypts connections; None without a certificate. Raises ssl.SSLError, OSError."""
    if config.tls_cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(config.tls_cert, config.tls_key)
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


def url_of(listener: socket.socket, *, tls: bool) -> str:
    """Return the address of a bound socket."""
    host, port = listener.getsockname()[:2]
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
