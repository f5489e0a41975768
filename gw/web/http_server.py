"""ASGI host of the gateway: HTTP/1.1 by httptools, WebSocket by the Sans-I/O core of `websockets`, on trio.

A connection is one task, which reads its requests and runs them one after another, whichever app each belongs to. Beside
it, where the kernel cannot report that a client has left (TLS), runs the reader task of its Connection. The poller reads WebSockets.
No task or channel is made per request and no timer is set: one task closes all idle connections. When the client leaves,
the app is cancelled at once (scope extension "gw.cancels").

    idle ──first byte──▶ head ──blank line──▶ dispatch ──▶ app ──▶ complete ──keep-alive──▶ idle
     │ too long           │ too slow, malformed  │ body too large   │ crashed or incomplete
     ▼                    ▼                      ▼                  ▼
    closed             refused (4xx, close)   refused (413)      refused (500) or cut (connection reset)
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable, Callable
from functools import partial

import attrs
import trio

from gw.config.settings import Serve
from gw.errors import Overloaded
from gw.net.poller import Poller
from gw.net.transport import Address, Transport
from gw.relay.places import Places
from gw.telemetry.clock import Clock, SystemClock
from gw.types.asgi import ASGIApp, Receive, Scope, Send
from gw.web import http_errors
from gw.web.connection import Connection
from gw.web.crash_log import log_crash
from gw.web.drain import LAST_REQUEST_S, Drain
from gw.web.hand_over import OtherProcess
from gw.web.http_errors import Refused
from gw.web.http_server_exchange import DateField, ServerExchange
from gw.web.http_server_head import Head, head_end
from gw.web.http_server_websocket import ServerWebSocket
from gw.web.known_heads import KnownHeads
from gw.web.long_answers import LongAnswers
from gw.web.server_limits import ServerLimits


@attrs.frozen(kw_only=True)
class HostedApp:
    """An ASGI app and how the host treats its requests."""

    app: ASGIApp
    counted: bool = False
    """Requests count as in flight: they are shed at the limit, and a drain waits for them."""
    waits: bool = False
    """At the limit they are given `scope["gw.places"]`, where they must wait for a place, and are shed where as many wait."""
    websockets: bool = False
    """Without them an upgrade is answered with 404."""


Dispatch = Callable[[bytes, bytes], HostedApp]
"""(method, raw path without query) → the app that answers."""


_WITHOUT_BODY = (b"GET", b"HEAD")
"""A body of theirs has no meaning (RFC 9110 9.3.1), but its framing is checked as every other's."""

_FIRST_HEAD_LEAST = 0.8
"""Share of `head_s` after which the first unused connections are closed: thousands that were opened in one moment, and all close in
one, keep everybody else waiting for half a second."""
_WAIT_AT_LEAST = 64  # requests that may wait for a place where the limit is small
_LOOK_S = 0.05  # between two looks at the turns of WebSockets, while the gateway drains


class HttpServer:
    """Serves connections. One instance for all connections of a server."""

    def __init__(
        self, dispatch: Dispatch, drain: Drain, *, limits: ServerLimits | None = None, max_in_flight: int = 2_000,
        max_body_bytes: Callable[[], int] | None = None, clock: Clock | None = None, poller: Poller | None = None,
        other: OtherProcess | None = None,
    ) -> None:  # fmt: skip
        """`poller` must be running, or be None. `other`: a process that answers some of the requests.

        `max_body_bytes` returns the limit in force. An app's `receive` raises TooLarge for a larger request body, before its
        first byte if its length is announced; the host answers 413 for an app that does not.
        """
        self.dispatch = dispatch
        self.drain = drain
        self.limits = limits or ServerLimits()
        self.max_in_flight = max_in_flight
        self.max_body_bytes = max_body_bytes or Serve().max_body_bytes
        self.date = DateField(clock or SystemClock())
        self.heads = KnownHeads()
        self.long_answers = LongAnswers()
        self._addresses: dict[Address | None, Address | None] = {}
        """Our own addresses, each once for all connections to it."""
        self.poller = poller
        self.other = other

    def run_connection(self, transport: Transport, received: bytes = b"") -> Awaitable[None]:
        """Serve requests until the connection ends. `received`: what was read from it already.

        The caller closes the transport; it has been reset already when a response was cut. Blocks; never raises for what
        a client or an app does.
        """
        connection = Connection(transport, self.limits, self.drain)
        connection.server = self._addresses.setdefault(connection.server, connection.server)
        connection.buffer += received
        requests = _RequestLoop(self, connection)
        is_watched = self.poller is not None and connection.watch(self.poller)
        return requests.run() if is_watched else requests.run_beside_reader()

    async def close_idle(self) -> None:
        """End the connections that have waited too long for their next request; runs beside them until cancelled.

        All may wait equally long, so the first to begin is the first to end, and sleeping until then is exact.
        """
        idle = self.drain.idle
        while True:
            now = trio.current_time()
            wake = now + self.limits.idle_s
            while idle:
                cancel_scope, deadline = next(iter(idle.items()))
                if deadline > now:
                    wake = deadline
                    break
                del idle[cancel_scope]
                cancel_scope.cancel()
            await trio.sleep_until(wake)

    async def close_sockets(self) -> None:
        """Once the drain has begun, close each WebSocket as soon as no turn runs on it; runs until cancelled."""
        sockets = self.drain.sockets
        await self.drain.wait_begun()
        async with trio.open_nursery() as nursery:
            while True:
                for socket in [socket for socket in sockets if not socket.has_turn]:
                    sockets.discard(socket)
                    nursery.start_soon(socket.close_for_drain)
                await trio.sleep(_LOOK_S)

    def admit(self, hosted: HostedApp) -> ASGIApp:
        """Return the app; while too much is in flight, the app that first waits for a place, or a refusal."""
        if not hosted.counted or self.drain.in_flight < self.max_in_flight:
            return hosted.app
        if not hosted.waits or self.drain.in_flight >= 2 * self.max_in_flight + _WAIT_AT_LEAST:
            return shed
        return partial(_in_turn, hosted.app, self.drain.places_of(self.max_in_flight))


def _in_turn(app: ASGIApp, places: Places, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
    scope["gw.places"] = places
    return app(scope, receive, send)


async def shed(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 503 with Retry-After, over HTTP and as a denied WebSocket handshake."""
    refused = http_errors.overloaded(Overloaded().message)
    body = refused.body
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    headers = [*refused.headers, (b"content-length", b"%d" % len(body))]
    await send({"type": f"{kind}.start", "status": refused.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})


def _idle() -> bool:
    return False


class _RequestLoop:
    """The requests of one connection. `cancel_scope` is its only one: idleness, a drain and a client that leaves cancel it."""

    __slots__ = (
        "_app", "_changes", "_connection", "_first", "_hosted", "_is_others", "_last", "_now", "_server", "cancel_scope", "clean",
    )  # fmt: skip

    def __init__(self, server: HttpServer, connection: Connection) -> None:
        self._server = server
        self._connection = connection
        self._now = trio.lowlevel.current_clock().current_time  # as trio.current_time, which looks the clock up each time
        self._first = True
        self._last: Head | None = None
        """The head of the request before."""
        self._hosted: HostedApp
        """For the head read last."""
        self._is_others = False
        """Whether another process answers the head read last, and all that follow."""
        self._changes = 0
        self.cancel_scope = trio.CancelScope()
        self.clean = True
        """The connection may end with a plain close; otherwise the client must see that something was cut."""

    async def run_beside_reader(self) -> None:
        async with trio.open_nursery() as nursery:
            self._connection.start_reading(nursery)
            await self.run()
            nursery.cancel_scope.cancel()

    async def run(self) -> None:
        """Serve one request after the other. Their apps are awaited here: each coroutine in between costs at every wake-up."""
        socket: ServerWebSocket | None = None
        try:
            with self.cancel_scope:
                while (head := await self._next_head()) is not None:
                    if head.upgrade == b"websocket":
                        socket = ServerWebSocket(head, self._connection)
                        break
                    crash: Exception | None = None
                    exchange = self._begin(head)
                    try:
                        if not exchange.body.done and head.method in _WITHOUT_BODY:
                            await exchange.drop_body()
                        await self._app(exchange.scope(), exchange.receive, exchange.send)
                    except Exception as error:
                        crash = error
                    finally:
                        self._ended()
                    if (crash is not None or not exchange.is_over) and not await self._settle(exchange, crash):
                        return
                    self.clean = True
                    del exchange, crash, head  # not kept until the next request comes
            if socket is not None:  # beyond the scope, which would be 650 bytes for hours
                self._last = head = None
                self.clean = await self._websocket(socket)
        finally:
            self._connection.release()
            self._connection.link.close()
            if not self.clean:
                self._connection.transport.reset()

    async def _next_head(self) -> Head | None:
        """Return the head of the next request to run here; None when there will be none."""
        connection = self._connection
        if connection.left:
            return None
        try:
            if not (end := await self._head_end()):
                return None
            head = self._read_head(bytes(connection.buffer[:end]))
        except Refused as refused:
            await self._refuse(refused)
            return None
        if self._is_others and self._server.other is not None:
            self.clean = False
            self.clean = await self._server.other.take_over(connection)
            return None
        del connection.buffer[:end]
        connection.taken()
        self.clean = False  # until the answer is complete
        if head.upgrade == b"websocket":
            connection.unwatch()  # what the client sent before it left must still be read
        return head

    def _read_head(self, data: bytes) -> Head:
        """Parse the head and choose its app. Raises Refused."""
        other = self._server.other
        last = self._last
        if last is not None and (other is None or other.changes == self._changes) and last.again(data):
            return last
        head = self._server.heads.parse(data)
        if other is not None:
            self._changes = other.changes
            if other.answers(head, data):
                self._is_others = True
                return head
        self._hosted = self._server.dispatch(head.method, head.raw_path)
        self._last = head
        return head

    async def _head_end(self) -> int:
        """Return where the next request's head ends; 0 when there will be none. Raises Refused."""
        connection = self._connection
        if connection.buffer:
            await trio.lowlevel.checkpoint()  # pipelined requests are fair to other connections
        else:
            await self._idle()
            if not connection.buffer:
                return 0
        self._first = False
        end, searched = self._search(0)
        if end < 0:
            with trio.move_on_after(self._server.limits.head_s):
                while end < 0 and not connection.left:
                    await connection.wait()
                    end, searched = self._search(searched)
        if connection.left:
            return 0
        if end < 0:
            raise Refused(408, "the request head came too slowly")
        return end

    async def _idle(self) -> None:
        """Wait until a byte arrives, the client leaves, the time is over or the drain begins."""
        connection, drain, cancel_scope = self._connection, self._server.drain, self.cancel_scope
        if connection.left or (drain.draining and not self._first):
            return
        if self._first:
            await self._first_byte()
            return
        drain.idle[cancel_scope] = self._now() + self._server.limits.idle_s
        try:
            while not connection.buffer and not connection.left:
                await connection.wait()
        finally:
            cancelled = drain.idle.pop(cancel_scope, None) is None
        if cancelled:  # just as the byte arrived; no request begins under a cancelled scope
            await trio.lowlevel.checkpoint()

    async def _first_byte(self) -> None:
        """Wait for the first byte of a new connection. The scope ends that wait alone: a request that has arrived is answered."""
        drain, now = self._server.drain, trio.current_time()
        within_s = LAST_REQUEST_S if drain.draining else self._server.limits.head_s * random.uniform(_FIRST_HEAD_LEAST, 1)
        scope = trio.CancelScope(deadline=min(now + within_s, drain.deadline))
        drain.fresh[scope] = now
        try:
            with scope:
                await self._connection.wait()
        finally:
            del drain.fresh[scope]

    def _search(self, searched: int) -> tuple[int, int]:
        buffer = self._connection.buffer
        while buffer.startswith(b"\r\n"):  # RFC 9112 2.2: blank lines before a request are skipped
            del buffer[:2]
            searched = 0
        end = head_end(buffer, searched) if buffer else -1
        return end, len(buffer)

    async def _refuse(self, refused: Refused, *, with_body: bool = True) -> None:
        self.clean = False
        try:
            await self._connection.send(refused.response(with_body=with_body))
        except OSError:
            return
        await self._connection.linger()
        self.clean = True

    def _begin(self, head: Head) -> ServerExchange:
        """Count the request that runs now, and choose what answers it: its app or, beyond the limits, a refusal."""
        server, hosted = self._server, self._hosted
        exchange = ServerExchange(head, self._connection, server.date, server.max_body_bytes, server.long_answers)
        self._app = server.admit(hosted)
        if hosted.counted:
            server.drain.enter()
        self._connection.on_left = self.cancel_scope.cancel
        return exchange

    def _ended(self) -> None:
        self._connection.on_left = None
        if self._hosted.counted:
            self._server.drain.leave()

    async def _settle(self, exchange: ServerExchange, crash: Exception | None) -> bool:
        """Finish or answer what the app left open. Returns whether the connection may carry another request."""
        connection = self._connection
        request_id = uuid.uuid4().hex if crash else ""
        cut_short = isinstance(crash, OSError)  # how an app reports that its answer cannot be completed
        if crash and not (cut_short or connection.left or connection.dead or exchange.refused):
            log_crash("request_crashed", crash, path=exchange.head.path, request_id=request_id)
        if exchange.complete:
            self.clean = True
            if exchange.keep and (exchange.body.done or await exchange.drop_unread()):
                return True
            if not exchange.body.done:
                await connection.linger()
        elif not exchange.started and not connection.left:
            refused = exchange.refused or http_errors.crashed(request_id)
            await self._refuse(refused, with_body=exchange.head.method != b"HEAD")
        return False

    async def _websocket(self, session: ServerWebSocket) -> bool:
        """Run a WebSocket to its end. Returns whether the connection may end with a plain close."""
        server, connection, hosted = self._server, self._connection, self._hosted
        refused = session.handshake()
        if refused is None and not hosted.websockets:
            refused = Refused(404, "there is no WebSocket at this address")
        if refused is not None:
            await self._refuse(refused)
            return self.clean
        crash: Exception | None = None
        if not connection.reading:
            connection.read_by_callbacks()
        server.drain.enter()
        server.drain.sockets.add(session)
        try:
            await session.run(server.admit(hosted))
        except Exception as error:
            crash = error
        finally:
            server.drain.sockets.discard(session)
            server.drain.leave()
            session.is_busy = _idle  # the app's refers to the app's session
        closed = isinstance(crash, OSError) and not session.is_open  # the client sent something wrong while it was answered
        id_ = uuid.uuid4().hex if crash else ""
        if crash and not (closed or connection.left or connection.dead):
            log_crash("request_crashed", crash, path=session.raw_path.decode("latin-1"), request_id=id_)
        clean = await session.finish(crash_id=id_)
        await connection.stop_reading()
        return clean
