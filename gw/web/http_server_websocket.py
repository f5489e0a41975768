"""One WebSocket of a client as ASGI `receive` and `send`; frames and closing come from `gw.net.ws_core`.

The Connection feeds the session where it reads (within the poller's callback where there is one), so pings are answered and a close
is noticed while the app is busy elsewhere; reading pauses while UNREAD_BYTES of messages wait for the app.

How it ends: a drain without a turn → 1001, then as if the client had closed; the client's close frame → the app
receives `websocket.disconnect` and has LEAVE_S before it is cancelled; client gone without one → cancelled at once;
app returns → close 1000, raises → 1011; cancelled from outside → 1012.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol

from gw.net import ws_frames
from gw.net.transport import LOST
from gw.net.wakeup import Wakeup
from gw.net.ws_core import SERVER, WsSession
from gw.types.asgi import ASGIApp, Message, Scope
from gw.types.pending import Pending
from gw.web import http_errors
from gw.web.connection import UNREAD_BYTES, Connection
from gw.web.http_errors import Refused, closing_response
from gw.web.http_server_exchange import base_scope
from gw.web.http_server_head import Head
from gw.web.server_limits import PIECE_BYTES

DENIAL_BYTES = 65_536
LEAVE_S = 5.0  # for an app to finish after the client's close frame
CLOSE_S = 1.0  # for a client to answer our close frame
_REASON_BYTES = 123

_quiet = logging.getLogger(__name__)
_quiet.setLevel(logging.ERROR)  # the library's own debug lines quote frames


class ServerWebSocket(WsSession):
    """`handshake`, then `run`, then `finish`. The caller closes the transport."""

    __slots__ = (
        "_accepted", "_cancel_scope", "_changed", "_connected", "_connection", "_delivering", "_denial", "_denial_body",
        "_denied", "_disconnect", "_failure", "_head", "_on_end", "_response", "_room", "is_busy", "raw_path",
    )  # fmt: skip

    def __init__(self, head: Head, connection: Connection) -> None:
        super().__init__(SERVER, connection.transport)
        self.raw_path = head.raw_path
        self._head: Head | None = head  # until the handshake is answered
        self._response: Response | None = None  # to the handshake, until it is sent
        self._connection = connection
        self._cancel_scope = trio.CancelScope()
        self._changed = Wakeup()  # wakes the app: a message was queued, or the session ended
        self._room = Wakeup()
        self._connected = False  # `websocket.connect` was received
        self._disconnect: Message | None = None
        self._failure: Exception | None = None  # raised by what takes the messages
        self._on_end: Callable[[], None] | None = None  # called when all messages are delivered and no more will come
        self._accepted = False
        self._denial: Message | None = None
        self._denial_body = b""
        self._denied = False
        self.is_busy: Callable[[], bool] = lambda: False
        """Set by the app: returns whether somebody waits for an answer."""
        self._delivering = False  # the reader waits for what `take` has left to wait for

    def handshake(self) -> Refused | None:
        """Check the upgrade request; None when it is a good one."""
        head = self._head
        assert head is not None
        fields = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers])
        if head.method != b"GET" or not head.body.done:
            return Refused(400, "a WebSocket handshake is a GET without a body")
        self._response = ServerProtocol(logger=_quiet).accept(Request(head.target, fields))
        if self._response.status_code == 101:
            return None
        version = [(b"sec-websocket-version", b"13"), (b"upgrade", b"websocket")]
        return Refused(self._response.status_code, "the WebSocket handshake is malformed", headers=version)

    async def run(self, app: ASGIApp) -> None:
        """Run the app to its end; raises what it raises. Cancelled from outside, tells the client 1012 first."""
        connection, ended = self._connection, False
        connection.on_left = self._client_left
        try:
            with self._cancel_scope:
                await app(self._asgi_scope(), self.receive_event, self.send_event)
            ended = True
        except Exception:
            ended = True
            raise
        finally:
            connection.on_left = None
            if not ended:
                await connection.stop_reading()
                with trio.move_on_after(CLOSE_S, shield=True):
                    await self._close_for_restart()

    async def finish(self, *, crash_id: str) -> bool:
        """After `run`: answer or close what the app left open. False when the connection can only be cut.

        `crash_id`: the request id in the log line of an app that failed; "" for one that did not.
        """
        connection = self._connection
        self._drop_messages()
        self._room.wake()  # the reader goes on, so that it sees the client's close frame
        if self._denied:
            return True
        await self._turn.take()  # the reader may be writing a pong or the answer to a close
        self._turn.give_back()
        if connection.dead or (connection.left and self.is_open):
            return False
        try:
            if not self._accepted:
                await connection.send(http_errors.crashed(crash_id).response())
            else:
                await self.send_close(1011 if crash_id else 1000)
                with trio.move_on_after(CLOSE_S):
                    while self._protocol.close_rcvd is None and not self._protocol.eof_sent and not connection.left:
                        await connection.wait()
        except OSError:
            return False
        await connection.linger()
        return True

    def _asgi_scope(self) -> Scope:
        head = self._head
        assert head is not None
        scope = base_scope(head, self._connection, "websocket", "ws")
        offered = [value for name, value in head.headers if name == b"sec-websocket-protocol"]
        names = [name.strip() for value in offered for name in value.decode("latin-1").split(",")]
        scope["subprotocols"] = [name for name in names if name]
        scope["extensions"] = {**scope["extensions"], "websocket.http.response": {}, "gw.websocket": self}
        return scope

    # ------------------------------------------------------------------ from the client

    async def receive_event(self) -> Message:
        """Return connect, then each message (`bytes` or `text`), then disconnect, again and again."""
        if not self._connected:
            self._connected = True
            return {"type": "websocket.connect"}
        while not self._messages and self._disconnect is None:
            await self._changed.wait()
        if not self._messages:
            assert self._disconnect is not None
            return self._disconnect
        message = self._pop()
        if self._unread <= UNREAD_BYTES:
            self._room.wake()
        return {"type": "websocket.receive", "bytes" if isinstance(message, bytes) else "text": message}

    async def for_each_message(self, take: Callable[[str | bytes], Pending]) -> Message:
        """Call `take` with every message where it is read, until the client leaves; return the disconnect.

        Saves a pass through the scheduler per message. While what `take` returns is awaited nothing is read: no ping is
        answered and no close noticed. Raises what `take` raises.
        """
        try:
            if (pending := self.deliver(take, self._changed.wake)) is not None:
                await pending
            while not self._has_ended():
                await self._changed.wait()
            return self.ending()
        finally:
            self.stop_delivery()

    def deliver(self, take: Callable[[str | bytes], Pending], ended: Callable[[], None]) -> Pending:
        """Call `take` like `for_each_message`, without a task that waits: `ended` is called once, when `ending` has an answer.

        Return what must be awaited before messages are delivered: those received before may have to wait. Until then, and after
        `stop_delivery`, they are queued, so that no two are under way at once.
        """
        self._on_end = ended
        while self._messages:
            if (pending := take(self._pop())) is not None:
                return self._deliver_after(pending, take)
        self._begin_delivery(take)
        return None

    async def _deliver_after(self, pending: Awaitable[None], take: Callable[[str | bytes], Pending]) -> None:
        await pending
        while self._messages:
            if (more := take(self._pop())) is not None:
                await more
        self._begin_delivery(take)

    def _begin_delivery(self, take: Callable[[str | bytes], Pending]) -> None:
        if self._on_end is not None:  # else it was stopped meanwhile
            self._take = take
            self._room.wake()
            self._signal()

    def stop_delivery(self) -> None:
        self._take = self._on_end = None

    def ending(self) -> Message:
        """Return the disconnect. Raise what `take` has raised."""
        if self._failure is not None:
            raise self._failure
        assert self._disconnect is not None
        return self._disconnect

    def _has_ended(self) -> bool:
        return self._failure is not None or (self._disconnect is not None and not self._messages and not self._delivering)

    def _signal(self) -> None:
        """Note that a message was queued or delivered, or that the session has ended."""
        is_begun = self._take is not None or self._failure is not None
        if self._on_end is not None and is_begun and self._has_ended():
            on_end, self._on_end = self._on_end, None
            on_end()
        self._changed.wake()

    def _digest(self, frames: ws_frames.Frames) -> bool:
        if consulted := super()._digest(frames):
            self._note_close()
        return consulted

    def _queue(self, data: bytes, text: bool) -> None:
        super()._queue(data, text)
        self._signal()

    def _take_later(self, pending: Awaitable[None], data: bytes, at: int) -> Pending:
        self._delivering = True  # before a close among `data` is noted
        return super()._take_later(pending, data, at)

    def _after_take(self, pending: Awaitable[None]) -> Pending:
        self._delivering = True
        return self._read_on(pending)

    def _after_frames(self, consulted: bool) -> Pending:
        if consulted:
            return self._after_take(self._answer())
        pending = self._deliver()
        if pending is not None:
            return self._after_take(pending)
        return None if self._unread <= UNREAD_BYTES else self._read_on(None)

    async def _read_on(self, pending: Pending) -> None:
        """Hold the reader back until messages are delivered, or few enough are queued. Raises nothing."""
        try:
            while pending is not None:
                await pending
                pending = self._deliver()
        except Exception as error:
            self._take_failed(error)
        finally:
            self._delivering = False
            self._signal()
        while self._unread > UNREAD_BYTES:
            await self._room.wait()

    def _take_failed(self, error: Exception) -> Pending:
        self._take, self._failure = None, error
        self._signal()
        return None

    async def _answer(self) -> None:
        try:
            await super()._answer()
        except OSError:  # nobody else learns it while the app sends nothing
            self._connection.dead = True
            self._client_left()

    def _note_close(self) -> None:
        """Tell the app once that the session left OPEN, because of what the client sent or because we closed."""
        protocol = self._protocol
        close = protocol.close_rcvd or (protocol.close_sent if protocol.eof_sent else None)
        if close is not None and self._disconnect is None:
            self._end(int(close.code), close.reason)
            self._cancel_scope.deadline = min(self._cancel_scope.deadline, trio.current_time() + LEAVE_S)

    @property
    def has_turn(self) -> bool:
        return not self._accepted or self.is_busy()

    async def close_for_drain(self) -> None:
        """Close with 1001, and let the app end as if the client had left."""
        with trio.move_on_after(CLOSE_S), suppress(OSError):
            await self.send_close(1001, "the gateway is restarting")
        if self._disconnect is None:
            self._end(1001, "")
        self._cancel_scope.deadline = min(self._cancel_scope.deadline, trio.current_time() + LEAVE_S)

    def _client_left(self) -> None:
        if self.is_open:
            self._end(1006, "")
            self._cancel_scope.cancel()

    def _end(self, code: int, reason: str) -> None:
        self._disconnect = {"type": "websocket.disconnect", "code": code, "reason": reason}
        self._signal()

    # ------------------------------------------------------------------ to the client

    async def send_event(self, message: Message) -> None:
        """Raises OSError when the session is over or the client does not read in time."""
        kind = message["type"]
        if kind == "websocket.send":
            data = message.get("bytes")
            await self.send(data if data is not None else message.get("text") or "")
        elif kind == "websocket.accept" and not self._accepted:
            await self._accept(message)
        elif kind == "websocket.close":
            await self._close(message)
        elif kind in ("websocket.http.response.start", "websocket.http.response.body") and not self._accepted:
            await self._deny(message)
        else:
            raise RuntimeError(f"unexpected ASGI message {kind!r}")

    async def _accept(self, message: Message) -> None:
        assert self._response is not None
        headers, connection = self._response.headers, self._connection
        if message.get("subprotocol"):
            headers["Sec-WebSocket-Protocol"] = message["subprotocol"]
        for name, value in message.get("headers", ()):
            if b"\r" in name + value or b"\n" in name + value:
                raise ValueError("a response header holds a line break")
            headers[name.decode("latin-1")] = value.decode("latin-1")
        self._accepted, self._head = True, None
        response, self._response = self._response.serialize(), None
        await connection.send(response)
        connection.sink_by(self.feed)
        if connection.buffer:
            early = bytes(connection.buffer)
            connection.buffer.clear()
            connection.taken()
            if self._digest(self._splitter.feed(early)):
                await self._answer()

    async def _close(self, message: Message) -> None:
        if not self._accepted:
            await self._answer_http(Refused(403, "the WebSocket was refused").response())
        elif self.is_open:
            reason = (message.get("reason") or "").encode()[:_REASON_BYTES].decode(errors="ignore")
            await self.send_close(message.get("code") or 1000, reason)

    async def _deny(self, message: Message) -> None:
        if message["type"].endswith("start"):
            self._denial = message
            return
        if self._denial is None or self._denied:
            raise RuntimeError("a body message outside of a response")
        self._denial_body += message.get("body", b"")
        if len(self._denial_body) > DENIAL_BYTES:
            raise ValueError("the body of a denied handshake is too large")
        if not message.get("more_body", False):
            headers = self._denial.get("headers", ())
            await self._answer_http(closing_response(self._denial["status"], headers, self._denial_body))

    async def _answer_http(self, response: bytes) -> None:
        self._denied = True
        await self._connection.send(response)
        await self._connection.linger()

    def _closed_error(self) -> OSError:
        return OSError("the session is over")

    def _write_error(self, error: BaseException) -> OSError:
        self._connection.dead = True
        return OSError(f"the client is gone: {type(error).__name__}")

    async def _wait_written(self, pending: Awaitable[None], size: int) -> None:
        connection = self._connection
        within_s = connection.limits.write_s * (1 + size // PIECE_BYTES)
        try:
            with connection.drain.writing(within_s) as scope:
                await pending
            if scope.cancelled_caught:
                raise TimeoutError("the client stopped reading")
        except LOST as error:
            connection.dead = True
            self._transport.reset()
            if isinstance(error, OSError):
                raise
            raise self._write_error(error) from error

    async def _close_for_restart(self) -> None:
        await trio.lowlevel.checkpoint()  # a reader task is cancelled too; it lets go of the transport first
        connection = self._connection
        if connection.dead or connection.left:
            return
        try:
            if self._accepted and self.is_open:
                await self.send_close(1012, "the gateway is restarting")
            elif not self._accepted and not self._denied:
                await connection.send(http_errors.overloaded("the gateway is restarting").response())
            await self._transport.send_eof()
            while await self._transport.receive_some():
                pass  # a close with unread bytes would be a reset, and overtake the frame
        except (trio.BusyResourceError, *LOST):
            return
        finally:
            await self._transport.aclose()
