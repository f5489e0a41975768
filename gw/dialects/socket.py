"""What every WebSocket dialect does with one session: know the caller, refuse in the protocol's own shape, close.

What is wrong before the handshake is answered becomes an HTTP answer; afterwards the dialect's own error frame and a close
code. The handshake is answered before any upstream is dialled: clients wait for it a second or ten, and talk at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from gw.dialects import failure
from gw.dialects.asgi import Headers
from gw.dialects.caller import identify, request_id
from gw.errors import AllCandidatesFailed, GwError, Overloaded, RateLimitError, Stopping
from gw.gateway import Gateway
from gw.types.asgi import Receive, Scope, Send
from gw.types.caller import Caller

Frame = str | bytes

_NORMAL = (1000, 1001, 1005)
"""Codes of a client that has said goodbye."""


class SocketDialect(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is that of a provider's dialect, whose frames then pass through.

    `error_body` makes the body of a refused handshake, `error_frames` what is said before an accepted session is closed.
    """

    name: str
    error_body: Callable[[GwError, str], bytes] = failure.body_of
    error_frames: Callable[[GwError, str], Sequence[Frame]] = lambda error, request_id: ()
    close_code: Callable[[GwError], int] = lambda error: close_code_of(error)


def close_code_of(error: GwError) -> int:
    """1013 = try again later, 1012 = restarting, 1008 = this caller or request will not do, 1011 = we or the vendors failed."""
    if isinstance(error, Stopping):
        return 1012
    if isinstance(error, (RateLimitError, Overloaded)) or (
        isinstance(error, AllCandidatesFailed) and failure.status_of(error) == 429
    ):
        return 1013
    return 1008 if failure.status_of(error) < 500 else 1011


class Socket:
    """A client's side of the session. One task receives; any may send."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.offered: list[str] = list(scope.get("subprotocols", ()))
        """Subprotocols the client can speak."""
        self.accepted = False
        self.left = False
        """The client has closed; nothing can be sent any more."""
        self._receive = receive
        self._send = send

    async def accept(self, subprotocol: str | None = None, headers: Headers | None = None) -> None:
        await self._send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": headers or []})
        self.accepted = True

    async def receive(self) -> Frame | None:
        """The next message; None when the client has said goodbye. Raises ConnectionResetError when it vanished."""
        while True:
            message = await self._receive()
            kind = message["type"]
            if kind == "websocket.receive":
                data = message.get("bytes")
                return data if data is not None else message.get("text") or ""
            if kind == "websocket.disconnect":
                self.left = True
                if message.get("code") in _NORMAL:
                    return None
                raise ConnectionResetError("the client has gone without a goodbye")

    async def send(self, frame: Frame) -> None:
        """Raises OSError when the client takes no more; says nothing to one that has left."""
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


class Session(msgspec.Struct, eq=False):
    """One WebSocket of a known caller."""

    dialect: SocketDialect
    gateway: Gateway
    scope: Scope
    socket: Socket
    caller: Caller

    async def accept(self, subprotocol: str | None = None, headers: Headers | None = None) -> None:
        """Answer the handshake, with the request's id."""
        id_ = (b"x-request-id", self.caller.request_id.encode())
        await self.socket.accept(subprotocol, [id_, *(headers or ())])


SocketHandler = Callable[[Session], Awaitable[None]]


async def serve_socket(
    dialect: SocketDialect, handler: SocketHandler, gateway: Gateway, scope: Scope, receive: Receive, send: Send
) -> None:
    """Run one handler; what it raises is told as the dialect tells it."""
    socket = Socket(scope, receive, send)
    try:
        caller = identify(gateway, scope, dialect=dialect.name)
        await handler(Session(dialect, gateway, scope, socket, caller))
    except OSError:
        if not socket.left:
            raise  # the host knows more of a connection that broke
    except GwError as error:
        await _fail(dialect, socket, error, request_id(scope))


async def _fail(dialect: SocketDialect, socket: Socket, error: GwError, id_: str) -> None:
    if not socket.accepted:
        headers = [(b"x-request-id", id_.encode()), *failure.headers_of(error)]
        await socket.refuse(failure.status_of(error), dialect.error_body(error, id_), headers)
        return
    with suppress(OSError):  # the client may have gone meanwhile
        for frame in dialect.error_frames(error, id_):
            await socket.send(frame)
        await socket.close(dialect.close_code(error), error.message)
