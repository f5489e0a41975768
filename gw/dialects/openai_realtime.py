"""OpenAI's realtime API, `WS /v1/realtime`: conversations and, with `intent=transcription`, transcription.

A conversation is held by three models (`openai_conversation`) or by one that hears and speaks itself, in this
protocol (`openai_speech_to_speech`) or in Google's (`openai_gemini_live`).

A transcription's client may name its model in the query or in its first `session.update`, so the handshake is answered first
and the upstream dialled with the first audio. A client secret (`openai_client_secrets`) brings settings that the session begins
with. The protocol has no last frame: a session ends by closing the socket.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gw.dialects import error_bodies, live_transcription
from gw.dialects.auth import granted_session, query_fields
from gw.dialects.openai_conversation import converse
from gw.dialects.openai_gemini_live import hold
from gw.dialects.openai_speech_to_speech import other_model, pass_through, protocol_of_vendor
from gw.dialects.websocket import SocketDialect, SocketHandler, WebSocketSession
from gw.errors import ClientProtocolError, GwError
from gw.wire.json_frames import Frame
from gw.wire.live_messages import Audio, ClientMessage, DirectReply
from gw.wire.openai_realtime_server import RealtimeListenServer

_SUBPROTOCOL = "realtime"
_EARLY_BYTES = 480_000  # audio kept before the client has named its model: ten seconds at 24 kHz
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def _error_frames(error: GwError, request_id: str) -> Sequence[Frame]:
    status = error_bodies.status_of(error)
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    server = RealtimeListenServer(session_id=request_id)
    return [server.error(type=kind, code=error_bodies.spoken_code(error, error_bodies.OPENAI_CODES), message=error.message)]


DIALECT = SocketDialect(name="openai", error_frames=_error_frames)


async def realtime(session: WebSocketSession) -> None:
    fields = query_fields(session.scope.get("query_string", b""), (b"model", b"intent", b"deployment"))
    granted = granted_session(session.gateway, session.scope)
    settings: dict[str, Any] = msgspec.json.decode(granted) if granted else {}
    named = fields.get(b"model") or fields.get(b"deployment", b"")  # `deployment`: Azure's word
    model = named.decode("utf-8", "replace") or settings.pop("model", "")
    settings.pop("model", None)  # the one in the query is the later choice
    await session.accept(_SUBPROTOCOL if _SUBPROTOCOL in session.socket.offered else None)
    transcribes = settings.get("type") == "transcription" if settings else fields.get(b"intent") == b"transcription"
    if not transcribes:
        protocol = protocol_of_vendor(session, model)
        if protocol == "gemini":
            await hold(session, model, settings)
            return
        if protocol == "openai":
            if await pass_through(session, model, settings):
                return
            model = other_model(session, model) or model
        await converse(session, model, settings)
        return
    server = RealtimeListenServer(session_id=session.caller.request_id, model=model)
    if settings:
        server.update(msgspec.json.encode(settings))
    for frame in server.opening():
        await session.socket.send(frame)
    early = await _receive_until_audio(session, server)
    if early:
        assert server.request is not None
        await live_transcription.listen(session, server.request, server, early=early)


async def _receive_until_audio(session: WebSocketSession, server: RealtimeListenServer) -> Sequence[ClientMessage]:
    """Return the client's messages from the first audio on, once it has named its model; () if it leaves before.

    Some clients send audio while their `session.update` is still on its way: it is kept.
    """
    early: list[ClientMessage] = []
    early_bytes = 0
    while (frame := await session.socket.receive()) is not None:
        for message in server.receive(frame):
            if isinstance(message, DirectReply):
                await session.socket.send(message.frame)
            elif early or isinstance(message, Audio):
                early.append(message)
                early_bytes += len(message.data) if isinstance(message, Audio) else 0
        if early and server.request is not None:
            return early
        if early_bytes > _EARLY_BYTES:
            what = "send session.update with the model: ten seconds of audio came before it"
            raise ClientProtocolError(what=what, param="session")
    return ()


SOCKETS: dict[str, SocketHandler] = {"/v1/realtime": realtime}
