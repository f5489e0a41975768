"""ElevenLabs' WebSockets: speech with one context or many, and realtime transcription."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import attrs

from gw.dialects import error_bodies, live_transcription
from gw.dialects.elevenlabs import error_body
from gw.dialects.speech_contexts import Context, Contexts, open_contexts
from gw.dialects.websocket import SocketDialect, SocketHandler, WebSocketSession, close_code_of
from gw.errors import GwError
from gw.types.tts import SpeakLiveRequest
from gw.wire import elevenlabs_listen, elevenlabs_speak_live
from gw.wire.json_frames import Frame
from gw.wire.live_messages import ContextText, TtsCommand


def _speech_error(error: GwError, request_id: str, context: str | None = None) -> Sequence[Frame]:
    return [elevenlabs_speak_live.error_frame(error_bodies.code_of(error), error.message, close_code_of(error), context)]


SPEECH = SocketDialect(
    name="elevenlabs", error_body=error_body, error_frames=_speech_error, key_in=elevenlabs_speak_live.key_in
)


async def speak(session: WebSocketSession, *, many: bool) -> None:
    """Serve `multi-stream-input` (`many`) or `stream-input`."""
    voice, query = session.scope["path_params"]["voice"], session.scope.get("query_string", b"")
    request = elevenlabs_speak_live.parse_query(voice, query)
    session.gateway.relay.resolve(request.model, "tts", session.caller)
    await session.accept()
    async with open_contexts(session, prewarm=many) as contexts:
        await _Speech(session, request, contexts, many=many).run()
    await session.socket.close()


class _Speech:
    """One socket."""

    def __init__(self, session: WebSocketSession, request: SpeakLiveRequest, contexts: Contexts, *, many: bool) -> None:
        self._session = session
        self._request = request
        self._contexts = contexts
        self._many = many
        self._settings: dict[str, dict[str, str]] = {}  # settings of contexts without text so far
        self._failure: GwError | None = None

    async def run(self) -> None:
        """Serve until the client closes or leaves. Raises GwError if the only context of the socket failed."""
        while (frame := await self._session.socket.receive()) is not None:
            message = elevenlabs_speak_live.parse_frame(frame, many=self._many)
            if isinstance(message, TtsCommand):
                await self._contexts.finish_all()
                break
            await self._handle(message)
            if message.finish and not self._many:
                break
        else:
            return
        await self._contexts.wait_ended()
        if self._failure is not None and not self._many:
            raise self._failure

    async def _handle(self, message: ContextText) -> None:
        name = message.context
        if self._contexts.find(name) is None:
            if message.settings:
                self._settings.setdefault(name, {}).update(message.settings)
            if not self._contexts.knows(name) and not message.text.strip():  # an opening or a keep-alive
                if message.finish:
                    self._settings.pop(name, None)
                return
        await self._contexts.deliver(message, self._open)

    def _open(self, message: ContextText) -> Context:
        name, request = message.context, self._request
        if settings := self._settings.pop(name, None):
            request = attrs.evolve(request, options=(*request.options, *settings.items()))

        def error_frames(error: GwError) -> Sequence[Frame]:
            self._failure = error
            return _speech_error(error, "", name) if self._many else []  # else sent when the socket is closed

        server = elevenlabs_speak_live.ElevenSpeakServer(name if self._many else None, request.format)
        return self._contexts.open(name, request, server.encode, error_frames)


_ERROR_KINDS = {401: "auth_error", 402: "quota_exceeded", 429: "rate_limited"}


def _transcription_error(error: GwError, request_id: str) -> Sequence[Frame]:
    status = error_bodies.status_of(error)
    kind = _ERROR_KINDS.get(status, "invalid_request" if status < 500 else "transcriber_error")
    return [elevenlabs_listen.error_frame(kind, error.message)]


TRANSCRIPTION = SocketDialect(name="elevenlabs", error_body=error_body, error_frames=_transcription_error)


async def listen(session: WebSocketSession) -> None:
    options = elevenlabs_listen.parse_query(session.scope.get("query_string", b""))
    server = elevenlabs_listen.ElevenListenServer(options, session_id=session.caller.request_id)
    await live_transcription.listen(session, options.request, server)


SPEECH_SOCKETS: dict[str, SocketHandler] = {
    "/v1/text-to-speech/{voice}/multi-stream-input": partial(speak, many=True),
    "/v1/text-to-speech/{voice}/stream-input": partial(speak, many=False),
}
TRANSCRIPTION_SOCKETS: dict[str, SocketHandler] = {"/v1/speech-to-text/realtime": listen}
