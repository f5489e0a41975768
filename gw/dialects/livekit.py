"""LiveKit's inference protocol below `/livekit/v1`: a LiveKit agent comes here by `LIVEKIT_INFERENCE_URL` alone.

`stt` and `tts` are sockets; language models are asked in OpenAI's protocol at `chat/completions`. The client's own fallback
list stands in for the configured chain. Its API key is a key of this gateway; what it signs its tokens with may be anything.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import trio

from gw.dialects import error_bodies
from gw.dialects.auth import query_fields
from gw.dialects.live_transcription import ClientMessage, Control, HeardAudio, ListenReply, listen
from gw.dialects.speech_contexts import Context, Contexts
from gw.dialects.speech_messages import Text, Told, TtsCommand
from gw.dialects.websocket import Frame, SocketDialect, SocketHandler, WebSocketSession
from gw.errors import ClientProtocolError, GwError, one_error
from gw.types.stt import ListenEvent
from gw.types.tts import SpeakLiveRequest
from gw.wire import livekit_inference as wire


def _error_frames(error: GwError, request_id: str) -> Sequence[Frame]:
    return [wire.error_frame(error_bodies.code_of(error), error.message)]


DIALECT = SocketDialect(name="livekit", error_frames=_error_frames)


class _Ears:
    def __init__(self, request_id: str) -> None:
        self._request_id = request_id

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        match wire.parse_listen(frame, ""):
            case wire.InputAudio(data=data):
                return [HeardAudio(data)]
            case wire.Finalize():
                return [Control.FLUSH, ListenReply(wire.frame("session.finalized"))]
            case wire.Close():
                return [Control.FINISH]
        return []

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        return wire.encode_listen(events, self._request_id)

    def opening(self) -> Sequence[Frame]:
        return []

    def closing(self) -> Sequence[Frame]:
        return []


async def stt(session: WebSocketSession) -> None:
    await session.accept()
    frame = await session.socket.receive()
    if frame is None:
        return
    created = wire.parse_listen(frame, _model(session))
    if not isinstance(created, wire.ListenCreated):
        raise ClientProtocolError(what="a session begins with session.create")
    session.caller = msgspec.structs.replace(session.caller, candidates=created.fallback)
    id_ = session.caller.request_id
    await session.socket.send(wire.frame("session.created", session_id=id_))
    await listen(session, created.request, _Ears(id_))


async def tts(session: WebSocketSession) -> None:
    await session.accept()
    with one_error():
        async with trio.open_nursery() as nursery:
            await _Speech(session, nursery).run()
            nursery.cancel_scope.cancel()


class _Speech:
    """One socket: utterance after utterance."""

    def __init__(self, session: WebSocketSession, nursery: trio.Nursery) -> None:
        self._session = session
        self._contexts = Contexts(session, nursery)
        self._request: SpeakLiveRequest | None = None
        self._spoken = 0
        self._failed = ""

    async def run(self) -> None:
        session = self._session
        while (frame := await session.socket.receive()) is not None:
            match wire.parse_speak(frame, _model(session)):
                case wire.SpeakCreated(request=request, fallback=fallback):
                    self._request = request
                    session.caller = msgspec.structs.replace(session.caller, candidates=fallback)
                    await session.socket.send(wire.frame("session.created", session_id=session.caller.request_id))
                case wire.Transcript(text=text):
                    await self._give(Text(text))
                case wire.Finalize():
                    await self._give(TtsCommand.FINISH)
                    self._spoken += 1
                case wire.Close():
                    return

    async def _give(self, told: Told) -> None:
        name = f"{self._session.caller.request_id}_{self._spoken}"
        if name != self._failed:  # what comes after a failure belongs to the utterance that failed
            await (self._contexts.find(name) or self._begin(name)).give(told)

    def _begin(self, name: str) -> Context:
        if self._request is None:
            raise ClientProtocolError(what="a session begins with session.create")

        def failed(error: GwError) -> Sequence[Frame]:
            self._failed = name
            return _error_frames(error, name)

        return self._contexts.open(name, self._request, lambda events: wire.encode_speak(events, name), failed)


def _model(session: WebSocketSession) -> str:
    query: bytes = session.scope.get("query_string", b"")
    return query_fields(query, (b"model",)).get(b"model", b"").decode("utf-8", "replace")


SOCKETS: dict[str, SocketHandler] = {"/v1/stt": stt, "/v1/tts": tts}
"""Path → handler."""
