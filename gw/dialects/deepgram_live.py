"""Deepgram's WebSockets: `WS /v1/listen`, `/v2/listen`, `/v1/speak` and `/v2/speak`, answered by any provider.

Transcription is one session per socket. Speech is a session per utterance (what is said between two `Flush`), each with a
record of its own; audio keeps the order of the utterances, since frames do not say to which they belong.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import attrs
import trio

from gw.dialects import error_bodies
from gw.dialects.deepgram import error_body
from gw.dialects.live_transcription import ClientMessage, Control, Forward, HeardAudio, ListenReply
from gw.dialects.live_transcription import listen as serve_listening
from gw.dialects.speech_contexts import Context, Contexts
from gw.dialects.speech_messages import Text, TtsCommand
from gw.dialects.websocket import Frame, SocketDialect, SocketHandler, WebSocketSession
from gw.errors import GwError, one_error
from gw.types.stt import ListenEvent
from gw.types.tts import Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest
from gw.wire import deepgram_flux_server, deepgram_flux_speak, deepgram_listen_server, deepgram_speak
from gw.wire.deepgram_flux_server import FluxServer
from gw.wire.deepgram_listen_server import Audio, CloseStream, DeepgramServer, Finalize, KeepAlive, OtherFrame

_SUBPROTOCOLS = ("token", "bearer")


def _error_frames(error: GwError, request_id: str) -> Sequence[Frame]:
    return [deepgram_listen_server.error_frame(error_bodies.code_of(error), error.message)]


DIALECT = SocketDialect(name="deepgram", error_body=error_body, error_frames=_error_frames)


def _accepted(session: WebSocketSession) -> tuple[str | None, list[tuple[bytes, bytes]]]:
    """The subprotocol to choose (a browser's first word, beside its key) and Deepgram's name for the request's id."""
    offered = session.socket.offered
    chosen = offered[0] if offered and offered[0].lower() in _SUBPROTOCOLS else None
    return chosen, [(b"dg-request-id", session.caller.request_id.encode())]


class _Ears:
    def __init__(self, server: DeepgramServer) -> None:
        self._server = server

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        match self._server.receive(frame):
            case Audio(data=data):
                return [HeardAudio(data)]
            case Finalize():
                return [Control.FLUSH]
            case CloseStream():
                return [Control.FINISH]
            case KeepAlive():
                return []
            case OtherFrame(raw=raw):
                return [Forward(raw)]

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        return self._server.encode(events)

    def opening(self) -> Sequence[Frame]:
        return []

    def closing(self) -> Sequence[Frame]:
        return []


async def listen(session: WebSocketSession) -> None:
    asked = deepgram_listen_server.parse_query(session.scope.get("query_string", b""))
    created = datetime.fromtimestamp(session.gateway.clock.now(), UTC).isoformat().replace("+00:00", "Z")
    server = DeepgramServer(asked, request_id=session.caller.request_id, created=created)
    subprotocol, headers = _accepted(session)
    await serve_listening(session, asked.request, _Ears(server), subprotocol=subprotocol, headers=headers)


class _TurnEars:
    """Flux."""

    def __init__(self, server: FluxServer) -> None:
        self._server = server

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        match self._server.receive(frame):
            case Audio(data=data):
                return [HeardAudio(data)] if data else []
            case Finalize():
                return [Control.FLUSH]
            case CloseStream():
                return [Control.FINISH]
            case OtherFrame(raw=raw):
                return [Forward(raw), ListenReply(self._server.configured(raw))] if '"Configure"' in raw else [Forward(raw)]
        return []

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        return self._server.encode(events)

    def opening(self) -> Sequence[Frame]:
        return [self._server.connected()]

    def closing(self) -> Sequence[Frame]:
        return []


async def turns(session: WebSocketSession) -> None:
    """`WS /v2/listen`: the transcript of a turn so far, every time, and where turns end."""
    request = deepgram_flux_server.parse_query(session.scope.get("query_string", b""))
    subprotocol, headers = _accepted(session)
    ears = _TurnEars(FluxServer(request_id=session.caller.request_id))
    await serve_listening(session, request, ears, subprotocol=subprotocol, headers=headers)


async def speak(session: WebSocketSession) -> None:
    request = deepgram_speak.parse_live_query(session.scope.get("query_string", b""))
    server = deepgram_speak.SpeakServer(request_id=session.caller.request_id, model=request.model)
    await _speak(session, request, server)


async def speak_in_turns(session: WebSocketSession) -> None:
    """`WS /v2/speak`, Flux TTS: as `/v1/speak`, in other words."""
    request = deepgram_speak.parse_live_query(session.scope.get("query_string", b""))
    id_ = session.caller.request_id
    server = deepgram_flux_speak.FluxSpeakServer(request_id=id_, model=request.model, fmt=request.format)
    await _speak(session, request, server)


async def _speak(session: WebSocketSession, request: SpeakLiveRequest, server: deepgram_speak.SpeakServer) -> None:
    session.gateway.relay.check(request.model, "tts", session.caller)
    subprotocol, headers = _accepted(session)
    await session.accept(subprotocol, headers)
    await session.socket.send(server.opening())
    with one_error():
        async with trio.open_nursery() as nursery:
            await _Speech(session, request, server, Contexts(session, nursery)).run()
            nursery.cancel_scope.cancel()
    await session.socket.close()


class _Speech:
    """One socket. `_current` is the utterance that is being said, `_said` how many there were."""

    def __init__(
        self,
        session: WebSocketSession,
        request: SpeakLiveRequest,
        server: deepgram_speak.SpeakServer,
        contexts: Contexts,
    ) -> None:
        self._session = session
        self._request = request
        self._server = server
        self._contexts = contexts
        self._said = 0
        self._failed = -1

    async def run(self) -> None:
        socket, server, contexts = self._session.socket, self._server, self._contexts
        while (frame := await socket.receive()) is not None:
            said = deepgram_speak.receive(frame)
            if (answer := server.hears(said)) is not None:
                await socket.send(answer)
            match said:
                case deepgram_speak.Speak(text=text) if text:
                    if self._said != self._failed:
                        await (contexts.find(str(self._said)) or self._begin()).give(Text(text))
                case deepgram_speak.SpeakCommand(type="Flush"):
                    await self._flush()
                case deepgram_speak.SpeakCommand(type="Clear" | "Interrupt"):
                    contexts.drop_all()
                    self._said += 1
                    await socket.send(server.cleared())
                case deepgram_speak.SpeakCommand(type="Close"):
                    await self._flush(asked=False)
                    await contexts.all_ended()
                    for told in server.closing():
                        await socket.send(told)
                    return

    async def _flush(self, *, asked: bool = True) -> None:
        context = self._contexts.find(str(self._said))
        if context is not None:
            await context.give(TtsCommand.FINISH)
            self._said += 1
        elif self._said == self._failed:
            self._said += 1
        elif asked:
            await self._session.socket.send(self._server.encode([Flushed()])[0])

    def _begin(self) -> Context:
        number = self._said

        def failed(error: GwError) -> Sequence[Frame]:
            self._failed = number
            return [deepgram_speak.error_frame(error_bodies.code_of(error), error.message)]

        request, server = self._request, self._server
        if isinstance(server, deepgram_flux_speak.FluxSpeakServer) and server.speed is not None:
            request = attrs.evolve(request, speed=server.speed)
        return self._contexts.open(str(number), request, self._encode, failed, after=self._contexts.last)

    def _encode(self, events: list[SpeakEvent]) -> Sequence[Frame]:
        """The end of an utterance is what answers its `Flush`."""
        told: list[SpeakEvent] = []
        for event in events:
            if isinstance(event, SpeakEnd):
                told.append(Flushed())
            elif not isinstance(event, Flushed):
                told.append(event)
        return self._server.encode(told)


SOCKETS: dict[str, SocketHandler] = {
    "/v1/listen": listen,
    "/v2/listen": turns,
    "/v1/speak": speak,
    "/v2/speak": speak_in_turns,
}
"""Path → handler."""
