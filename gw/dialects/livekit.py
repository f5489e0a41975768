"""LiveKit's inference protocol below `/livekit/v1`: a LiveKit agent reaches the gateway by `LIVEKIT_INFERENCE_URL` alone.

`stt` and `tts` are sockets; language models are called in OpenAI's protocol at `chat/completions`. The client's own fallback
list replaces the configured chain. Its API key is a key of this gateway; the secret with which it signs its tokens may be any.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from gw.dialects import error_bodies, live_transcription
from gw.dialects.auth import query_fields
from gw.dialects.speech_contexts import Context, Contexts, open_contexts
from gw.dialects.websocket import SocketDialect, SocketHandler, WebSocketSession
from gw.errors import ClientProtocolError, GwError
from gw.types.tts import SpeakLiveRequest
from gw.wire import livekit_inference as wire
from gw.wire.json_frames import Frame
from gw.wire.live_messages import ContextText, DirectReply, OpenSession, SpeakMessage, Text, TtsCommand


def _error_frames(error: GwError, request_id: str) -> Sequence[Frame]:
    return [wire.error_frame(error_bodies.code_of(error), error.message)]


DIALECT = SocketDialect(name="livekit", error_frames=_error_frames)


def _model(session: WebSocketSession) -> str:
    query: bytes = session.scope.get("query_string", b"")
    return query_fields(query, (b"model",)).get(b"model", b"").decode("utf-8", "replace")


async def listen(session: WebSocketSession) -> None:
    await session.accept()
    frame = await session.socket.receive()
    if frame is None:
        return
    request, fallback = wire.parse_create(frame, _model(session))
    session.caller = msgspec.structs.replace(session.caller, candidates=fallback)
    id_ = session.caller.request_id
    await session.socket.send(wire.created_frame(id_))
    await live_transcription.listen(session, request, wire.LiveKitListenServer(id_))


async def speak(session: WebSocketSession) -> None:
    await session.accept()
    async with open_contexts(session) as contexts:
        await _Speech(session, contexts).run()


class _Speech:
    """One socket. Utterances follow each other; each is a context."""

    def __init__(self, session: WebSocketSession, contexts: Contexts) -> None:
        self._session = session
        self._contexts = contexts
        self._server = wire.LiveKitSpeakServer(session.caller.request_id, _model(session))
        self._request: SpeakLiveRequest | None = None
        self._utterance = 0

    async def run(self) -> None:
        """Serve until the client closes or leaves."""
        while (frame := await self._session.socket.receive()) is not None:
            for message in self._server.receive(frame):
                if message is TtsCommand.CLOSE:
                    return
                await self._handle(message)

    async def _handle(self, message: SpeakMessage) -> None:
        session, name = self._session, f"{self._session.caller.request_id}_{self._utterance}"
        match message:
            case OpenSession(request=request, fallback=fallback, fallback_voices=voices):
                self._request = request
                session.caller = msgspec.structs.replace(session.caller, candidates=fallback, candidate_voices=voices)
            case DirectReply(frame=frame):
                await session.socket.send(frame)
            case Text(text=text):
                await self._contexts.deliver(ContextText(context=name, text=text), self._open)
            case TtsCommand.FINISH:
                await self._contexts.deliver(ContextText(context=name, finish=True), self._open)
                self._utterance += 1

    def _open(self, message: ContextText) -> Context:
        if self._request is None:
            raise ClientProtocolError(what="a session begins with session.create")
        name = message.context
        encode, error_frames = partial(wire.encode_speech, session_id=name), partial(_error_frames, request_id=name)
        return self._contexts.open(name, self._request, encode, error_frames)


SOCKETS: dict[str, SocketHandler] = {"/v1/stt": listen, "/v1/tts": speak}
