"""What every WebSocket dialect does with one session: know the caller, refuse in the protocol's own shape, close.

What is wrong before the handshake is answered becomes an HTTP answer; afterwards the dialect's own error frame and a close
code. The handshake is answered before any upstream is dialled: clients wait for it a second or ten, and talk at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec
import trio

from gw.dialects import error_bodies
from gw.dialects.auth import credential, identify, request_id
from gw.dialects.request_io import Headers
from gw.errors import AllCandidatesFailed, AuthError, GwError, Overloaded, RateLimitError, Stopping
from gw.gateway import Gateway
from gw.types.asgi import Message, Receive, Scope, Send
from gw.types.caller import Caller
from gw.types.pending import Pending

Frame = str | bytes

KEY_WITHIN_S = 5.0
"""For the first frame of a client whose key stands in it."""
_NORMAL = (1000, 1001, 1005)
"""Codes of a client that has said goodbye."""


class SocketDialect(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is that of a provider's dialect, whose frames then pass through.

    `error_body` makes the body of a refused handshake, `error_frames` what is said before an accepted session is closed.
    `key_in` finds the credential in the first frame of a client whose handshake brought none, as some browsers' do.
    """

    name: str
    error_body: Callable[[GwError, str], bytes] = error_bodies.body_of
    error_frames: Callable[[GwError, str], Sequence[Frame]] = lambda error, request_id: ()
    close_code: Callable[[GwError], int] = lambda error: close_code_of(error)
    key_in: Callable[[Frame], bytes | None] | None = None


def close_code_of(error: GwError) -> int:
    """1013 = try again later, 1012 = restarting, 1008 = this caller or request will not do, 1011 = we or the vendors failed."""
    if isinstance(error, Stopping):
        return 1012
    if isinstance(error, (RateLimitError, Overloaded)) or (
        isinstance(error, AllCandidatesFailed) and error_bodies.status_of(error) == 429
    ):
        return 1013
    return 1008 if error_bodies.status_of(error) < 500 else 1011


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
        self._first: Frame | None = None
        self._hosted = scope.get("extensions", {}).get("gw.messages")

    def put_back(self, frame: Frame) -> None:
        """Let `frame` be the next that is received."""
        self._first = frame

    async def accept(self, subprotocol: str | None = None, headers: Headers | None = None) -> None:
        await self._send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": headers or []})
        self.accepted = True

    async def receive(self) -> Frame | None:
        """The next message; None when the client has said goodbye. Raises ConnectionResetError when it vanished."""
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
        raise ConnectionResetError("the client has gone without a goodbye")

    async def each(self, take: Callable[[Frame], Pending]) -> None:
        """Give every message to `take` until the client says goodbye; raises what `receive` and `take` raise.

        Under our own host `take` is called where the connection is read, which saves a hop per message; what it leaves to wait
        for must not take long, because pings stay unanswered and a close unseen meanwhile.
        """
        if self._hosted is None:
            while (frame := await self.receive()) is not None:
                if (rest := take(frame)) is not None:
                    await rest
            return
        first = await self.receive() if self._first is not None else None
        if first is not None and (rest := take(first)) is not None:
            await rest
        taker = _Taker(take, self._frame)
        try:
            await self._hosted["hand_to"](taker)
            await taker.over.wait()
        finally:
            self._hosted["let_go"]()
        if taker.fault is not None:
            raise taker.fault

    def put(self, frame: Frame) -> Pending:
        """As `send`; what of it is left to wait for."""
        if self.left:
            return None
        if self._hosted is None:
            return self.send(frame)
        rest: Pending = self._hosted["put"](frame)
        return rest

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


class _Taker:
    """Called with every message, as our own host reads it; raises nothing, since a fault is the session's and not the reader's."""

    def __init__(self, take: Callable[[Frame], Pending], frame_of: Callable[[Message], Frame | None]) -> None:
        self.over = trio.Event()
        self.fault: Exception | None = None
        self._ended = False
        self._take = take
        self._frame_of = frame_of

    def __call__(self, message: Frame | Message) -> Pending:
        """Of an ASGI message, or of its payload alone."""
        if self._ended:
            return None
        try:
            if not isinstance(message, (str, bytes)):
                if message["type"] == "websocket.connect":
                    return None
                frame = self._frame_of(message)
                if frame is None:
                    self._end(None)
                    return None
                message = frame
            rest = self._take(message)
        except Exception as error:
            self._end(error)
            return None
        return None if rest is None else self._wait(rest)

    async def _wait(self, rest: Awaitable[None]) -> None:
        try:
            await rest
        except Exception as error:
            self._end(error)

    def _end(self, fault: Exception | None) -> None:
        if not self._ended:
            self._ended, self.fault = True, fault
            self.over.set()


class WebSocketSession(msgspec.Struct, eq=False):
    """One WebSocket of a known caller."""

    dialect: SocketDialect
    gateway: Gateway
    scope: Scope
    socket: Socket
    caller: Caller

    async def accept(self, subprotocol: str | None = None, headers: Headers | None = None) -> None:
        """Answer the handshake, with the request's id, unless the key's frame was waited for and that has been done."""
        if self.socket.accepted:
            return
        id_ = (b"x-request-id", self.caller.request_id.encode())
        await self.socket.accept(subprotocol, [id_, *(headers or ())])


SocketHandler = Callable[[WebSocketSession], Awaitable[None]]


async def serve_socket(
    dialect: SocketDialect, handler: SocketHandler, gateway: Gateway, scope: Scope, receive: Receive, send: Send
) -> None:
    """Run one handler; what it raises is told as the dialect tells it."""
    socket = Socket(scope, receive, send)
    try:
        caller = await _identify(dialect, gateway, scope, socket)
        if caller is None:
            return
        await handler(WebSocketSession(dialect, gateway, scope, socket, caller))
    except OSError:
        if not socket.left:
            raise  # the host knows more of a connection that broke
    except GwError as error:
        await _fail(dialect, socket, error, request_id(gateway, scope))


async def _identify(dialect: SocketDialect, gateway: Gateway, scope: Scope, socket: Socket) -> Caller | None:
    """None when the client left before it said its key. Raises what `identify` raises."""
    try:
        return identify(gateway, scope, dialect=dialect.name)
    except AuthError:
        if dialect.key_in is None or credential(scope["headers"], scope.get("query_string", b"")) is not None:
            raise
    await socket.accept(headers=[(b"x-request-id", request_id(gateway, scope).encode())])
    frame: Frame | None = ""
    with trio.move_on_after(KEY_WITHIN_S):
        frame = await socket.receive()
    if frame is None:
        return None
    key = dialect.key_in(frame) if frame else None
    if key is None:
        raise AuthError(what="no key came with the handshake or in the first frame")
    socket.put_back(frame)
    return identify(gateway, {**scope, "headers": [*scope["headers"], (b"x-api-key", key)]}, dialect=dialect.name)


async def _fail(dialect: SocketDialect, socket: Socket, error: GwError, id_: str) -> None:
    if not socket.accepted:
        headers = [(b"x-request-id", id_.encode()), *error_bodies.headers_of(error)]
        await socket.refuse(error_bodies.status_of(error), dialect.error_body(error, id_), headers)
        return
    with suppress(OSError):  # the client may have gone meanwhile
        for frame in dialect.error_frames(error, id_):
            await socket.send(frame)
        await socket.close(dialect.close_code(error), error.message)
