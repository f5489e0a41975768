"""ElevenLabs' WebSockets: speech of one context or many, and realtime transcription."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio

from gw.dialects import error_bodies
from gw.dialects.elevenlabs import error_body
from gw.dialects.live_transcription import ClientMessage, Control, DelayedReply, Forward, HeardAudio
from gw.dialects.live_transcription import listen as serve_listening
from gw.dialects.speech_contexts import Context, Contexts
from gw.dialects.speech_messages import Text, TtsCommand
from gw.dialects.websocket import Frame, SocketDialect, SocketHandler, WebSocketSession, close_code_of
from gw.errors import GwError, one_error
from gw.types.stt import ListenEvent
from gw.types.tts import SpeakLiveRequest
from gw.wire import elevenlabs_listen, elevenlabs_tts_server
from gw.wire.elevenlabs_tts_server import CloseSocket, Say


def _speech_error(error: GwError, request_id: str) -> Sequence[Frame]:
    return [elevenlabs_tts_server.error_frame(error_bodies.code_of(error), error.message, close_code_of(error))]


SPEECH = SocketDialect(
    name="elevenlabs", error_body=error_body, error_frames=_speech_error, key_in=elevenlabs_tts_server.key_in
)


def _request(session: WebSocketSession) -> SpeakLiveRequest:
    voice = session.scope["path_params"]["voice"]
    request = elevenlabs_tts_server.parse_query(voice, session.scope.get("query_string", b""))
    session.gateway.relay.check(request.model, "tts", session.caller)
    return request


async def many(session: WebSocketSession) -> None:
    """`multi-stream-input`."""
    await _serve(session, many=True)


async def one(session: WebSocketSession) -> None:
    """`stream-input`."""
    await _serve(session, many=False)


async def _serve(session: WebSocketSession, *, many: bool) -> None:
    request = _request(session)
    await session.accept()
    with one_error():
        async with trio.open_nursery() as nursery:
            await _Speech(session, request, Contexts(session, nursery, warm=many), many=many).run()
            nursery.cancel_scope.cancel()
    await session.socket.close()


class _Speech:
    """One socket. `_failed` are contexts that failed: what the client still says of them is not spoken."""

    def __init__(self, session: WebSocketSession, request: SpeakLiveRequest, contexts: Contexts, *, many: bool) -> None:
        self._session = session
        self._request = request
        self._contexts = contexts
        self._many = many
        self._settings: dict[str, dict[str, str]] = {}
        """Of contexts that have not said anything yet."""
        self._failed: set[str] = set()
        self._failure: GwError | None = None

    async def run(self) -> None:
        """Raises GwError where the failure of its one context ends the socket."""
        while (frame := await self._session.socket.receive()) is not None:
            told = elevenlabs_tts_server.parse_frame(frame, many=self._many)
            if isinstance(told, CloseSocket):
                for name in self._contexts.names:
                    context = self._contexts.find(name)
                    if context is not None:
                        await context.give(TtsCommand.FINISH)
                break
            await self._say(told)
            if told.ends and not self._many:
                break
        else:
            return
        await self._contexts.all_ended()
        if self._failure is not None and not self._many:
            raise self._failure

    async def _say(self, told: Say) -> None:
        name = told.context
        context = self._contexts.find(name)
        if context is None and told.settings:
            self._settings.setdefault(name, {}).update(told.settings)
        if name in self._failed:
            if told.ends:
                self._failed.discard(name)
            return
        if context is None:
            if not told.text.strip():
                if told.ends:
                    self._settings.pop(name, None)
                return  # an opening, or a sign of life
            context = self._begin(name)
        if told.text:
            await context.give(Text(told.text))
        if told.ends:
            await context.give(TtsCommand.FINISH)
        elif told.flush:
            await context.give(TtsCommand.FLUSH)

    def _begin(self, name: str) -> Context:
        request, label = self._request, name if self._many else None
        if settings := self._settings.pop(name, None):
            request = attrs.evolve(request, options=(*request.options, *settings.items()))

        def failed(error: GwError) -> Sequence[Frame]:
            self._failed.add(name)
            self._failure = error
            if not self._many:
                return []  # told when the socket is closed
            return [elevenlabs_tts_server.error_frame(error_bodies.code_of(error), error.message, close_code_of(error), name)]

        server = elevenlabs_tts_server.SpeakServer(label, request.format)
        return self._contexts.open(name, request, server.encode, failed)


_KINDS = {401: "auth_error", 402: "quota_exceeded", 429: "rate_limited"}


def _listen_error(error: GwError, request_id: str) -> Sequence[Frame]:
    status = error_bodies.status_of(error)
    kind = _KINDS.get(status, "invalid_request" if status < 500 else "transcriber_error")
    return [elevenlabs_listen.error_frame(kind, error.message)]


TRANSCRIPTION = SocketDialect(name="elevenlabs", error_body=error_body, error_frames=_listen_error)


class _Ears:
    """`_owed`: a commit has not been answered yet."""

    def __init__(self, server: elevenlabs_listen.ElevenServer) -> None:
        self._server = server
        self._owed = False

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        told = elevenlabs_listen.parse_frame(frame)
        if isinstance(told, elevenlabs_listen.Chunk):
            heard: list[ClientMessage] = [HeardAudio(told.data)] if told.data else []
            if not told.commit:
                return heard
            asked, self._owed = self._owed, True
            return [*heard, Control.FLUSH] if asked else [*heard, Control.FLUSH, DelayedReply(self._nothing)]
        return [Forward(told.raw)]

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        frames = self._server.encode(events)
        self._owed = self._owed and not any(elevenlabs_listen.is_commit(frame) for frame in frames)
        return frames

    def _nothing(self) -> Sequence[Frame]:
        """What answers a commit of silence."""
        owed, self._owed = self._owed, False
        return self._server.nothing() if owed else []

    def opening(self) -> Sequence[Frame]:
        return [self._server.started()]

    def closing(self) -> Sequence[Frame]:
        return []


async def listen(session: WebSocketSession) -> None:
    asked = elevenlabs_listen.parse_query(session.scope.get("query_string", b""))
    server = elevenlabs_listen.ElevenServer(asked, session_id=session.caller.request_id)
    await serve_listening(session, asked.request, _Ears(server))


SPEECH_SOCKETS: dict[str, SocketHandler] = {
    "/v1/text-to-speech/{voice}/multi-stream-input": many,
    "/v1/text-to-speech/{voice}/stream-input": one,
}
TRANSCRIPTION_SOCKETS: dict[str, SocketHandler] = {"/v1/speech-to-text/realtime": listen}
"""Path → handler."""
