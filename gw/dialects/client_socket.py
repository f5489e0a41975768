"""The WebSocket of a client, under the gateway's own host or another ASGI server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from gw.dialects.request_io import Headers
from gw.types.asgi import Message, Receive, Scope, Send
from gw.types.pending import Pending
from gw.wire.json_frames import Frame

_NORMAL: Final = (1000, 1001, 1005)  # close codes of a client that closed normally


class HostedWebSocket(Protocol):
    """The session as the gateway's own host has it, beside ASGI's `receive` and `send`."""

    is_busy: Callable[[], bool]

    async def for_each_message(self, take: Callable[[Frame], Pending]) -> Message:
        """Call `take` with every message; return the disconnect."""

    def deliver(self, take: Callable[[Frame], Pending], ended: Callable[[], None]) -> Pending:
        """Call `take` with every message, and `ended` once `ending` has an answer. Return what has to be awaited for that."""

    def ending(self) -> Message:
        """Return the disconnect, or raise what `take` raised."""

    def stop_delivery(self) -> None: ...

    def send_or_pending(self, message: Frame) -> Pending: ...


class Socket:
    """The client's side of a session. One task receives; any may send."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.offered: tuple[str, ...] = tuple(scope.get("subprotocols", ()))  # subprotocols that the client offers
        self.accepted = False
        self.left = False  # whether the client has closed; nothing can be sent any more
        self._receive = receive
        self._send = send
        self._first: Frame | None = None
        self._host: HostedWebSocket | None = scope.get("extensions", {}).get("gw.websocket")
        """The session in the gateway's own host; None under another ASGI server."""

    def busy_while(self, is_busy: Callable[[], bool]) -> None:
        """Have a stop of the gateway wait while `is_busy()`: somebody waits for an answer. Without it, no turn runs."""
        if self._host is not None:
            self._host.is_busy = is_busy

    def put_back(self, frame: Frame) -> None:
        """Let `frame` be the next that is received."""
        self._first = frame

    async def accept(self, subprotocol: str | None = None, headers: Headers | None = None) -> None:
        await self._send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": headers or []})
        self.accepted = True

    async def receive(self) -> Frame | None:
        """Return the next message; None when the client has closed. Raises ConnectionResetError if the connection broke."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        while True:
            message = await self._receive()
            if message["type"] != "websocket.connect":
                return self._frame(message)

    def _frame(self, message: Message) -> Frame | None:
        if message["type"] == "websocket.receive":
            data = message.get("bytes")
            return data if data is not None else message.get("text") or ""
        self.left = True
        if message.get("code") in _NORMAL:
            return None
        raise ConnectionResetError("the client's connection ended without a close frame")

    async def for_each_message(self, handle: Callable[[Frame], Pending]) -> None:
        """Call `handle` with every message until the client closes; raises what `receive` and `handle` raise.

        Under the gateway's own host `handle` is called where the connection is read, which saves a switch of tasks per message.
        What it returns must not take long: meanwhile pings are not answered and a close is not noticed.
        """
        while self._first is not None or self._host is None:
            if (frame := await self.receive()) is None:
                return
            if (pending := handle(frame)) is not None:
                await pending
        self._frame(await self._host.for_each_message(handle))

    @property
    def can_deliver(self) -> bool:
        """Return whether `deliver` can be called: under the gateway's own host."""
        return self._host is not None and self._first is None

    def deliver(self, handle: Callable[[Frame], Pending], left: Callable[[], None]) -> Pending:
        """Call `handle` like `for_each_message`, without a task that waits, until `stop_delivery`. Return what has to be awaited first.

        `left` is called once, when `for_each_message` would return or raise; `check_left` then does the same.
        """
        assert self._host is not None
        return self._host.deliver(handle, left)

    def check_left(self) -> None:
        """Return if the client closed normally; else raise what ended the delivery."""
        assert self._host is not None
        self._frame(self._host.ending())

    def stop_delivery(self) -> None:
        """Undo `deliver`: messages are kept for `receive`."""
        if self._host is not None:
            self._host.stop_delivery()

    def send_or_pending(self, frame: Frame) -> Pending:
        """Send like `send`, as far as that needs no waiting."""
        if self.left:
            return None
        if self._host is None:
            return self.send(frame)
        return self._host.send_or_pending(frame)

    async def send(self, frame: Frame) -> None:
        """Send a message; drop it if the client has left. Raises OSError when the connection is broken."""
        if not self.left:
            kind = "bytes" if isinstance(frame, bytes) else "text"
            await self._send({"type": "websocket.send", kind: frame})

    async def close(self, code: int = 1000, reason: str = "") -> None:
        if not self.left:
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def refuse(self, status: int, body: bytes, headers: Headers) -> None:
        """Answer the handshake with an HTTP response."""
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *headers]
        await self._send({"type": "websocket.http.response.start", "status": status, "headers": head})
        await self._send({"type": "websocket.http.response.body", "body": body})
