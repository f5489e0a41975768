"""What stands between Hypercorn and the control plane's app: the checks and bounds that Hypercorn does not have.

- the `send` of a final body is shielded: Quart-Trio cancels its request's nursery while Hypercorn re-arms the
  keep-alive timer inside that `send`, and the connection would otherwise never be closed for idleness;
- a body the app left unread is dropped meanwhile, since Hypercorn's queue of ten messages would block for ever;
- framing that invites smuggling, HTTP/2 on a plain port, oversized heads and bodies, and slow bodies are refused;
- data-plane paths go to the data plane's own app, for connections that began with a control-plane request;
- a crash is logged without the exception's text and answered with 500, or the response is cut.
"""

from __future__ import annotations

import uuid

import attrs
import trio

from gw.errors import one_error
from gw.types.asgi import ASGIApp, Message, Receive, Scope, Send
from gw.web import http_errors
from gw.web.connection import ServerLimits
from gw.web.drain import Drain
from gw.web.http_errors import Refused
from gw.web.http_server import IsHot, log_crash, shed
from gw.web.http_server_head import HEADER_FIELDS, TARGET_BYTES

DROP_S = 1.0
"""How long a refused client may go on sending before the connection is closed under it."""


@attrs.frozen(kw_only=True)
class Cold:
    """The ASGI app that Hypercorn runs."""

    app: ASGIApp
    hot: ASGIApp
    is_hot: IsHot
    drain: Drain
    limits: ServerLimits = attrs.field(factory=ServerLimits)
    max_in_flight: int = 2_000
    max_body_bytes: int = 10_000_000
    """For the control plane; the data plane's app bounds its own."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        method = scope.get("method", "GET").encode()
        if not self.is_hot(method, scope["raw_path"]):
            await self._run(self.app, scope, receive, send, self.max_body_bytes)
        elif self.drain.in_flight >= self.max_in_flight:
            await self._run(shed, scope, receive, send, None)
        else:
            self.drain.enter()
            try:
                await self._run(self.hot, scope, receive, send, None)
            finally:
                self.drain.leave()

    async def _run(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, max_body: int | None) -> None:
        call = _Call(scope, receive, send, self.limits, max_body)
        try:
            if scope["type"] == "websocket":
                await app(scope, receive, call.send)
                return
            check_head(scope, max_body)
            with call.cancel:
                await app(scope, call.receive, call.send)
        except Refused as refused:
            call.refused = refused
        except Exception as error:
            if call.gone:
                return
            request_id = uuid.uuid4().hex
            log_crash("request_crashed", error, path=scope["path"], request_id=request_id)
            call.refused = http_errors.crashed(request_id)
        if call.refused is not None and not call.started and scope["type"] == "http":
            await call.refuse(call.refused)


def check_head(scope: Scope, max_body: int | None) -> None:
    """Raises Refused for a request that Hypercorn would answer and should not."""
    names = [name for name, _ in scope["headers"]]
    fields = dict(scope["headers"])
    if scope["http_version"] not in ("1.0", "1.1") or b"h2c" in fields.get(b"upgrade", b"").lower():
        raise Refused(400, "HTTP/2 is not spoken here")
    if b"transfer-encoding" in names and b"content-length" in names:
        raise Refused(400, "a request has a content-length or chunks, not both")
    if len(names) > HEADER_FIELDS:
        raise Refused(431, "the request has too many header fields")
    if len(scope["raw_path"]) + len(scope["query_string"]) > TARGET_BYTES:
        raise Refused(414, "the request target is too long")
    if max_body is not None and int(fields.get(b"content-length", b"0")) > max_body:
        raise Refused(413, f"the request body is larger than {max_body} bytes")


class _Call:
    """One HTTP request's `receive` and `send`, bounded."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: ServerLimits, max_body: int | None) -> None:
        self.cancel = trio.CancelScope()
        self.refused: Refused | None = None
        self.started = False
        self.gone = False
        """A write failed; what the app raises because of it is no fault of the app."""
        self._scope = scope
        self._receive = receive
        self._send = send
        self._limits = limits
        self._max_body = max_body
        self._body_done = False
        self._taken = 0
        self._waited_s = 0.0

    async def receive(self) -> Message:
        if self._body_done:
            return await self._receive()
        limits, began = self._limits, trio.current_time()
        slack_s = limits.body_idle_s + self._taken / limits.body_rate - self._waited_s
        with trio.move_on_after(max(0.0, min(limits.body_idle_s, slack_s))) as scope:
            message = await self._receive()
        if scope.cancelled_caught:
            return await self._give_up(Refused(408, "the request body came too slowly"))
        self._waited_s += trio.current_time() - began
        self._taken += len(message.get("body", b""))
        self._body_done = not message.get("more_body", False)
        if self._max_body is not None and self._taken > self._max_body:
            return await self._give_up(Refused(413, f"the request body is larger than {self._max_body} bytes"))
        return message

    async def _give_up(self, refused: Refused) -> Message:
        self.refused = refused
        self.cancel.cancel()
        await trio.sleep_forever()
        raise AssertionError("not reached")

    async def send(self, message: Message) -> None:
        """Raises OSError when the client is gone or does not read in time."""
        self.started = True
        try:
            if message["type"] != "http.response.body" or message.get("more_body", False):
                await self._send(message)
                return
            with trio.CancelScope(shield=True):  # bounded: every write below has its own deadline
                await self._finish(message)
        except OSError:
            self.gone = True
            raise

    async def _finish(self, message: Message) -> None:
        if self._body_done:
            await self._send(message)
            return
        with one_error():
            await self._finish_with_rest(message)

    async def _finish_with_rest(self, message: Message) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._drop_body)
            await self._send(message)
            nursery.cancel_scope.cancel()

    async def _drop_body(self) -> None:
        while not self._body_done:
            message = await self._receive()
            self._body_done = not message.get("more_body", False)

    async def refuse(self, refused: Refused) -> None:
        """Answer, then let the client send a little longer, or the reset of a close would overtake the answer."""
        body = refused.body
        headers = [*refused.headers, (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
        await self._send({"type": "http.response.start", "status": refused.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        with trio.move_on_after(DROP_S):
            await self._drop_body()
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})
