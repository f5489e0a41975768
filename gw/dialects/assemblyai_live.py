"""AssemblyAI's live transcription, `WS /v3/ws`, served by any provider.

The vendor's own client waits one second for the handshake, so it is answered before a provider is dialled.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from gw.dialects import error_bodies, live_transcription
from gw.dialects.assemblyai import error_body
from gw.dialects.websocket import SocketDialect, SocketHandler, WebSocketSession
from gw.errors import GwError
from gw.wire import assemblyai_stream
from gw.wire.json_frames import Frame

_MAX_SESSION_S = 3 * 3_600  # the vendor's limit
_CLOSE_CODES = {401: 1008, 402: 4002, 429: 3009}


def _close_code(error: GwError) -> int:
    """Return the vendor's close code: 3005 for a failure of the server, 3006 for a malformed frame."""
    status = error_bodies.status_of(error)
    return _CLOSE_CODES.get(status, 3005 if status >= 500 else 3006)


def _error_frames(error: GwError, request_id: str) -> Sequence[Frame]:
    return [assemblyai_stream.error_frame(_close_code(error), error.message)]


DIALECT = SocketDialect(name="assemblyai", error_body=error_body, error_frames=_error_frames, close_code=_close_code)


async def listen(session: WebSocketSession) -> None:
    options = assemblyai_stream.parse_query(session.scope.get("query_string", b""))
    started = trio.current_time()
    server = assemblyai_stream.AssemblyListenServer(
        options, session_id=session.caller.request_id, expires_at=int(session.gateway.clock.now()) + _MAX_SESSION_S,
        elapsed_s=lambda: trio.current_time() - started
    )  # fmt: skip
    await live_transcription.listen(session, options.request, server)


SOCKETS: dict[str, SocketHandler] = {"/v3/ws": listen}
