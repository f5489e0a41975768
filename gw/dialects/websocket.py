"""Sessions over a client's WebSocket, in every dialect: identify the caller, run the dialect's handler, report errors, close.

==========  =========================================  ======================================================
State       Event                                      Becomes
==========  =========================================  ======================================================
connecting  the handler accepts the handshake          accepted
connecting  GwError                                    closed: an HTTP response in the dialect's error shape
accepted    the client closes                          left: what is sent to it is dropped
accepted    the connection breaks                      closed: `receive` raises ConnectionResetError
accepted    GwError                                    closed: the dialect's error frames, then its close code
accepted    the handler closes or returns              closed
==========  =========================================  ======================================================

The handshake is answered before any upstream is dialled: clients wait for it between one and ten seconds, and send at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec
import trio

from gw.dialects import error_bodies
from gw.dialects.auth import credential, identify, request_id
from gw.dialects.client_socket import Socket
from gw.dialects.place import wait_for_place
from gw.dialects.request_io import Headers
from gw.errors import AuthError, GwError, OutOfDescriptors, Overloaded, RateLimitError, Stopping
from gw.gateway import Gateway
from gw.types.asgi import LET_GO, Receive, Scope, Send
from gw.types.ids import Caller
from gw.wire.json_frames import Frame

KEY_WITHIN_S = 5.0  # time for the first frame of a client that sends its key in it


def close_code_of(error: GwError) -> int:
    """Return 1013 for "try again later", 1012 while restarting, 1008 for a caller or request at fault, 1011 for a failure here."""
    if isinstance(error, Stopping):
        return 1012
    if isinstance(error, (RateLimitError, Overloaded, OutOfDescriptors)) or error_bodies.status_of(error) == 429:
        return 1013
    return 1008 if error_bodies.status_of(error) < 500 else 1011


class SocketDialect(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between dialects."""

    name: str
    """Name of the dialect; frames of a provider of the same dialect are passed on unchanged."""
    error_body: Callable[[GwError, str], bytes] = error_bodies.vendor_body_of
    """Body of a refused handshake."""
    error_frames: Callable[[GwError, str], Sequence[Frame]] = lambda error, request_id: ()
    """Frames sent before an accepted session is closed."""
    close_code: Callable[[GwError], int] = close_code_of
    key_in: Callable[[Frame], bytes | None] | None = None
    """Find the credential in the first frame of a client whose handshake had none, as that of some browsers."""


class WebSocketSession(msgspec.Struct, eq=False):
    """One WebSocket of an identified caller."""

    dialect: SocketDialect
    gateway: Gateway
    scope: Scope
    socket: Socket
    caller: Caller

    async def accept(self, subprotocol: str | None = None, headers: Headers | None = None) -> None:
        """Answer the handshake, with the request's id, unless that was done to receive the key."""
        if self.socket.accepted:
            return
        id_ = (b"x-request-id", self.caller.request_id.encode())
        await self.socket.accept(subprotocol, [id_, *(headers or ())])

    def let_scope_go(self) -> None:
        """Keep the handshake's fields no longer: a session may be open for hours, and they are kilobytes."""
        self.scope = LET_GO


SocketHandler = Callable[[WebSocketSession], Awaitable[None]]


async def serve_socket(
    dialect: SocketDialect, handler: SocketHandler, gateway: Gateway, scope: Scope, receive: Receive, send: Send
) -> None:
    """Run a handler; report what it raises as the dialect does."""
    socket = Socket(scope, receive, send)
    caller: Caller | None = None
    try:
        caller = await _identify(dialect, gateway, scope, socket)
        if caller is None:
            return
        if "gw.places" in scope:
            await wait_for_place(gateway, scope, caller)
        session = WebSocketSession(dialect, gateway, scope, socket, caller)
        scope = LET_GO  # by this frame: the session has it, for as long as it needs it
        await handler(session)
    except GwError as error:  # first: a vendor that is not reached is an OSError, too
        await _report(dialect, socket, error, caller.request_id if caller is not None else request_id(gateway, scope))
    except OSError:
        if not socket.left:
            raise  # the host knows more about a connection that broke


async def _identify(dialect: SocketDialect, gateway: Gateway, scope: Scope, socket: Socket) -> Caller | None:
    """Return the caller; None if the client left before it sent its key. Raises what `identify` raises."""
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


async def _report(dialect: SocketDialect, socket: Socket, error: GwError, id_: str) -> None:
    if not socket.accepted:
        headers = [(b"x-request-id", id_.encode()), *error_bodies.headers_of(error)]
        await socket.refuse(error_bodies.status_of(error), dialect.error_body(error, id_), headers)
        return
    with suppress(OSError):  # the client may have left meanwhile
        for frame in dialect.error_frames(error, id_):
            await socket.send(frame)
        await socket.close(dialect.close_code(error), error.message)
