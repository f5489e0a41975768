"""AssemblyAI's live transcription, `WS /v3/ws`, answered by any provider.

The vendor's own client gives a handshake one second, so it is answered before anybody is dialled.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from gw.dialects import error_bodies
from gw.dialects.assemblyai import error_body
from gw.dialects.live_transcription import ClientMessage, Control, Forward, HeardAudio
from gw.dialects.live_transcription import listen as serve_listening
from gw.dialects.websocket import Frame, SocketDialect, SocketHandler, WebSocketSession
from gw.errors import GwError
from gw.types.stt import ListenEvent
from gw.wire import assemblyai_stream
from gw.wire.assemblyai_stream import AssemblyServer, Audio

_LONGEST_S = 3 * 3_600
"""What the vendor allows a session."""
_CODES = {401: 1008, 402: 4002, 429: 3009}


def _close_code(error: GwError) -> int:
    """The vendor's own: 3005 for a failure of the server, 3006 for a frame that is none."""
    status = error_bodies.status_of(error)
    return _CODES.get(status, 3005 if status >= 500 else 3006)


def _error_frames(error: GwError, request_id: str) -> Sequence[Frame]:
    return [assemblyai_stream.error_frame(_close_code(error), error.message)]


DIALECT = SocketDialect(
    name="assemblyai", error_body=error_body, error_frames=_error_frames, close_code=_close_code
)


class _Ears:
    def __init__(self, server: AssemblyServer, expires_at: int) -> None:
        self._server = server
        self._expires_at = expires_at
        self._began = trio.current_time()

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        told = self._server.receive(frame)
        if isinstance(told, Audio):
            return [HeardAudio(told.data)] if told.data else []
        match told.type:
            case "Terminate":
                return [Control.FINISH]
            case "ForceEndpoint":
                return [Control.FLUSH]
        return [Forward(told.raw)]

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        return self._server.encode(events, trio.current_time() - self._began)

    def opening(self) -> Sequence[Frame]:
        return [self._server.begin(self._expires_at)]

    def closing(self) -> Sequence[Frame]:
        return []


async def listen(session: WebSocketSession) -> None:
    asked = assemblyai_stream.parse_query(session.scope.get("query_string", b""))
    server = AssemblyServer(asked, session_id=session.caller.request_id)
    expires_at = int(session.gateway.clock.now()) + _LONGEST_S
    await serve_listening(session, asked.request, _Ears(server, expires_at))


SOCKETS: dict[str, SocketHandler] = {"/v3/ws": listen}
"""Path → handler."""
