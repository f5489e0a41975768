"""ASGI host of the data plane: HTTP/1.1 by httptools, WebSocket by the Sans-I/O core of `websockets`, on trio.

A connection is one task, which reads its requests and runs them one after another; beside it, where the kernel cannot
tell that a client has left (TLS), and for WebSockets, the reader task of its Link. No task or channel is made per
request and no timer is set: one task closes the idle connections of all. When the client leaves, the app is cancelled
at once (scope extension "gw.cancels").

    no bytes ──first byte──▶ head ──blank line──▶ hot? ──no──▶ the bytes go back to the front door
       ▲                      │                    │yes
       │keep-alive            │ too slow, malformed ▼
       └───── complete ◀──── app ──▶ refused (4xx, close) or cut (connection reset)
"""

from __future__ import annotations

import traceback
import uuid
from collections.abc import Callable

import attrs
import structlog
import trio

from gw.errors import Overloaded
from gw.net.poller import Poller
from gw.telemetry.clock import Clock, SystemClock
from gw.types.asgi import ASGIApp, Receive, Scope, Send
from gw.web import http_errors
from gw.web.connection import Connection, ServerLimits
from gw.web.drain import Drain
from gw.web.http_errors import Refused
from gw.web.http_server_exchange import DateField, ServerExchange
from gw.web.http_server_head import Head, Repeated, head_end, parse_head, route_of
from gw.web.http_server_websocket import ServerWebSocket
from gw.web.transport import ClientTransport

IsHot = Callable[[bytes, bytes], bool]
"""(method, path without query) → whether the data plane answers it."""


@attrs.frozen
class SecondaryApp:
    """An app beside the data plane's, whose requests are not counted as in flight and never shed. HTTP only."""

    app: ASGIApp
    takes: IsHot


log = structlog.get_logger("gw.web")


def log_crash(event: str, error: BaseException, **facts: object) -> None:
    """Log where it failed, without the exception's text: that may quote a request."""
    log.error(event, exc_type=_type_names(error), traceback="".join(_frames(error)), **facts)


def _type_names(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return ", ".join(_type_names(inner) for inner in error.exceptions)
    return type(error).__name__


def _frames(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [line for inner in error.exceptions for line in _frames(inner)]
    return traceback.format_tb(error.__traceback__)[-20:]


class HttpServer:
    """Serves connections with `app`. One instance for all connections of a server."""

    def __init__(
        self,
        app: ASGIApp,
        is_hot: IsHot,
        drain: Drain,
        *,
        limits: ServerLimits | None = None,
        max_in_flight: int = 2_000,
        clock: Clock | None = None,
        poller: Poller | None = None,
        aside: SecondaryApp | None = None,
    ) -> None:
        """`poller` must be running, or be None."""
        self.aside = aside
        self.poller = poller
        self.app = app
        self.is_hot = is_hot
        self.drain = drain
        self.limits = limits or ServerLimits()
        self.max_in_flight = max_in_flight
        self.date = DateField(clock or SystemClock())

    async def run_connection(self, transport: ClientTransport, first_bytes: bytes = b"") -> bytes | None:
        """Serve requests until the connection ends (None) or a request is not hot (its bytes, all of them).

        The caller closes the transport. It has been aborted already when a response was cut. Blocks; never raises for
        what a client or an app does.
        """
        link = Connection(transport, self.limits, self.drain)
        link.buffer += first_bytes
        connection = _Connection(self, link)
        try:
            if self.poller is not None and link.watch(self.poller):
                with connection.life:
                    await connection.serve()
            else:
                await connection.serve_beside_reader()
        finally:
            link.unwatch()
            if not connection.clean:
                await transport.abort()
        return bytes(link.buffer) if connection.moves and not link.left else None

    async def close_idle(self) -> None:
        """End the connections that have waited too long for their next request; runs beside them until cancelled.

        All may wait equally long, so the first to begin is the first to end, and sleeping until then is exact.
        """
        idle = self.drain.idle
        while True:
            now = trio.current_time()
            wake = now + self.limits.idle_s
            while idle:
                life, over = next(iter(idle.items()))
                if over > now:
                    wake = over
                    break
                del idle[life]
                life.cancel()
            await trio.sleep_until(wake)

    def admitted(self) -> ASGIApp:
        """The app, or in its place a refusal while too much is in flight."""
        return self.app if self.drain.in_flight < self.max_in_flight else shed


async def shed(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers 503 with Retry-After, over HTTP and as a denied WebSocket handshake."""
    refused = http_errors.overloaded(Overloaded().message)
    body = refused.body
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    headers = [*refused.headers, (b"content-length", b"%d" % len(body))]
    await send({"type": f"{kind}.start", "status": refused.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})


class _Connection:
    """`life` is the one cancel scope of the connection: idleness, a drain and a client that leaves cancel it."""

    __slots__ = ("_aside", "_first", "_host", "_link", "_repeated", "clean", "life", "moves")

    def __init__(self, host: HttpServer, link: Connection) -> None:
        self._host = host
        self._link = link
        self._first = True
        self._repeated: Repeated | None = None
        self._aside: ASGIApp | None = None
        """Who answers the head read last, where it is not the data plane."""
        self.life = trio.CancelScope()
        self.clean = True
        """The connection may end with a plain close; otherwise the client must see that something was cut."""
        self.moves = False
        """The rest of the buffer belongs to another host."""

    async def serve_beside_reader(self) -> None:
        async with self._link.reader():
            with self.life:
                await self.serve()

    async def serve(self) -> None:
        link = self._link
        keep = True
        while keep and not link.left:
            try:
                end = await self._next_head()
                if not end:
                    return
                head = self._read_head(bytes(link.buffer[:end]))
                if head is None:
                    self.moves = True
                    return
            except Refused as refused:
                await self._refuse(refused)
                return
            del link.buffer[:end]
            link.taken()
            self.clean = False  # until the answer is complete
            if head.upgrade == b"websocket":
                link.unwatch()  # what the client sent before it left is still to be read
                self.clean = await self._websocket(head)
                return
            keep = await self._http(head)

    def _read_head(self, data: bytes) -> Head | None:
        """None when it is not answered here. Raises Refused."""
        if self._repeated is not None and (head := self._repeated.again(data)) is not None:
            return head
        route, host, aside = route_of(data), self._host, None
        if route is not None and not host.is_hot(*route):
            aside = host.aside
            if aside is None or not aside.takes(*route):
                return None
        head = parse_head(data)
        if aside is not None and head.upgrade:
            return None
        self._aside = aside.app if aside is not None else None
        self._repeated = None if head.upgrade or head.body.chunked else Repeated(data, head)
        return head

    async def _next_head(self) -> int:
        """Where the next request's head ends; 0 when there will be none. Raises Refused."""
        link = self._link
        if link.buffer:
            await trio.lowlevel.checkpoint()  # pipelined requests are fair to other connections
        else:
            await self._idle()
            if not link.buffer:
                return 0
        self._first = False
        end, searched = self._search(0)
        if end < 0:
            with trio.move_on_after(self._host.limits.head_s):
                while end < 0 and not link.left:
                    await link.wait()
                    end, searched = self._search(searched)
        if link.left:
            return 0
        if end < 0:
            raise Refused(408, "the request head came too slowly")
        return end

    async def _idle(self) -> None:
        """Until a byte arrives, the client leaves, the time is over or the drain begins."""
        link, drain, life = self._link, self._host.drain, self.life
        if drain.draining or link.left:
            return
        drain.idle[life] = trio.current_time() + self._host.limits.idle_s
        try:
            if self._first:  # an own timer: once per connection, and shorter
                with trio.move_on_after(self._host.limits.head_s):
                    await link.wait()
            else:
                while not link.buffer and not link.left:
                    await link.wait()
        finally:
            cancelled = drain.idle.pop(life, None) is None
        if cancelled:  # just as the byte arrived; no request begins under a cancelled scope
            await trio.lowlevel.checkpoint()

    def _search(self, searched: int) -> tuple[int, int]:
        buffer = self._link.buffer
        while buffer.startswith(b"\r\n"):  # RFC 9112 2.2: blank lines before a request are skipped
            del buffer[:2]
            searched = 0
        end = head_end(buffer, searched) if buffer else -1
        return end, len(buffer)

    async def _refuse(self, refused: Refused, *, with_body: bool = True) -> None:
        self.clean = False
        try:
            await self._link.send(refused.response(with_body=with_body))
        except OSError:
            return
        await self._link.linger()
        self.clean = True

    async def _http(self, head: Head) -> bool:
        """Run the app once. Returns whether the connection may carry another request."""
        host, link = self._host, self._link
        app, counted = self._aside or host.admitted(), self._aside is None
        exchange = ServerExchange(head, link, host.date)
        crash: Exception | None = None
        if counted:
            host.drain.enter()
        link.on_left = self.life.cancel
        try:
            await app(exchange.scope(), exchange.receive, exchange.send)
        except Exception as error:
            crash = error
        finally:
            link.on_left = None
            if counted:
                host.drain.leave()
        if crash is None and exchange.complete and exchange.keep and exchange.body.done:
            self.clean = True
            return True
        return await self._settle(exchange, crash)

    async def _settle(self, exchange: ServerExchange, crash: Exception | None) -> bool:
        link = self._link
        request_id = uuid.uuid4().hex if crash else ""
        cut_short = isinstance(crash, OSError)  # how an app says that its answer cannot be completed
        if crash and not (cut_short or link.left or link.dead or exchange.refused):
            log_crash("request_crashed", crash, path=exchange.head.path, request_id=request_id)
        if exchange.complete:
            self.clean = True
            if exchange.keep and (exchange.body.done or await exchange.drop_rest()):
                return True
            if not exchange.body.done:
                await link.linger()
        elif not exchange.started and not link.left:
            refused = exchange.refused or http_errors.crashed(request_id)
            await self._refuse(refused, with_body=exchange.head.method != b"HEAD")
        return False

    async def _websocket(self, head: Head) -> bool:
        if self._link.reading:
            return await self._session(head)
        async with self._link.reader():
            return await self._session(head)

    async def _session(self, head: Head) -> bool:
        host, link = self._host, self._link
        session = ServerWebSocket(head, link)
        refused = session.handshake()
        if refused is not None:
            await self._refuse(refused)
            return self.clean
        crash: Exception | None = None
        host.drain.enter()
        try:
            await session.run(host.admitted())
        except Exception as error:
            crash = error
        finally:
            host.drain.leave()
        if crash and not (link.left or link.dead):
            log_crash("request_crashed", crash, path=head.path, request_id=session.request_id)
        return await session.finish(failed=crash is not None)
