"""OpenAI's realtime API: `WS /v1/realtime`, conversations (`openai_conversation`) and, with `intent=transcription`, transcription.

The client may name its model in the query or in its first `session.update`, so the handshake is answered first and the
upstream dialled with the first audio. There is no last frame in this protocol: closing is how a session ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from gw.dialects import error_bodies
from gw.dialects.auth import query_fields
from gw.dialects.live_transcription import ClientMessage, Control, Forward, HeardAudio, ListenReply, listen
from gw.dialects.openai_conversation import converse
from gw.dialects.websocket import Frame, SocketDialect, SocketHandler, WebSocketSession
from gw.errors import ClientProtocolError, GwError
from gw.types.stt import ListenEvent, ListenRequest
from gw.wire.openai_realtime_conversation import RealtimeSession
from gw.wire.openai_realtime_server import (
    AudioAppended,
    Cleared,
    Committed,
    OtherFrame,
    RealtimeServer,
    SessionUpdated,
)

_SUBPROTOCOL = "realtime"
_EARLY_BYTES = 480_000
"""Ten seconds at 24 kHz, before the client has said which model shall hear it."""
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def _error_frames(error: GwError, request_id: str) -> Sequence[Frame]:
    status = error_bodies.status_of(error)
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return [RealtimeServer(session_id=request_id).error(type=kind, code=error_bodies.code_of(error), message=error.message)]


DIALECT = SocketDialect(name="openai", error_frames=_error_frames)


class RealtimeEars:
    """One session. `request` is None until the client has said what it wants heard."""

    def __init__(self, server: RealtimeServer) -> None:
        self.request: ListenRequest | None = None
        self._server = server

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        """A frame that cannot be understood is answered with an error; the session goes on."""
        try:
            told = self._server.receive(frame)
        except ClientProtocolError as error:
            id_ = self._server.event_id_of(frame)
            said = self._server.error(
                type="invalid_request_error", code=error.param or error.code, message=error.message, event_id=id_
            )
            return [ListenReply(said)]
        match told:
            case SessionUpdated(request=request):
                self.request = request
                return [ListenReply(self._server.updated())]
            case AudioAppended(data=data):
                return [HeardAudio(data)]
            case Committed():
                return [*map(ListenReply, self._server.committed()), Control.FLUSH]
            case Cleared():
                return [ListenReply(self._server.cleared())]
            case OtherFrame(raw=raw):
                return [Forward(raw)]

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        return self._server.encode(events)

    def opening(self) -> Sequence[Frame]:
        return [self._server.created()]

    def closing(self) -> Sequence[Frame]:
        return []


async def realtime(session: WebSocketSession) -> None:
    fields = query_fields(session.scope.get("query_string", b""), (b"model", b"intent"))
    model = fields.get(b"model", b"").decode("utf-8", "replace")
    if fields.get(b"intent") != b"transcription":
        await _conversation(session, model)
        return
    ears = RealtimeEars(RealtimeServer(session_id=session.caller.request_id, model=model))
    await session.accept(_SUBPROTOCOL if _SUBPROTOCOL in session.socket.offered else None)
    for frame in ears.opening():
        await session.socket.send(frame)
    early = await _until_audio(session, ears)
    if early:
        assert ears.request is not None
        await listen(session, ears.request, ears, early=early)


async def _conversation(session: WebSocketSession, model: str) -> None:
    made = RealtimeSession(session.caller.request_id, model)
    await session.accept(_SUBPROTOCOL if _SUBPROTOCOL in session.socket.offered else None)
    await session.socket.send(made.about("session.created"))
    await converse(session, made, model, await session.socket.receive())


async def _until_audio(session: WebSocketSession, ears: RealtimeEars) -> Sequence[ClientMessage]:
    """What the client said first of what it wants transcribed; () when it leaves before.

    Some clients send audio while their `session.update` is still on its way: it is held.
    """
    early: list[ClientMessage] = []
    held_bytes = 0
    while (frame := await session.socket.receive()) is not None:
        for one in ears.receive(frame):
            if isinstance(one, ListenReply):
                await session.socket.send(one.frame)
            elif early or isinstance(one, HeardAudio):
                early.append(one)
                held_bytes += len(one.data) if isinstance(one, HeardAudio) else 0
        if early and ears.request is not None:
            return early
        if held_bytes > _EARLY_BYTES:
            what = "send session.update with the model: ten seconds of audio came before it"
            raise ClientProtocolError(what=what, param="session")
    return ()


SOCKETS: dict[str, SocketHandler] = {"/v1/realtime": realtime}
"""Path → handler."""
