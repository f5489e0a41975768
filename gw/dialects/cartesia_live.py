"""Cartesia's WebSockets: `WS /tts/websocket`, many contexts over one socket, `WS /stt/websocket` and, by turns,
`WS /stt/turns/websocket`."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from gw.dialects import error_bodies
from gw.dialects.cartesia import error_body
from gw.dialects.live_transcription import ClientMessage, Control, DelayedReply, HeardAudio, listen
from gw.dialects.speech_contexts import Context, Contexts
from gw.dialects.speech_messages import Text, TtsCommand
from gw.dialects.websocket import Frame, SocketDialect, SocketHandler, WebSocketSession
from gw.errors import ClientProtocolError, GwError, one_error
from gw.types.stt import Final, ListenEnd, ListenEvent, UtteranceEnd
from gw.wire import cartesia_listen, cartesia_speak, cartesia_turns


def _error_frame(error: GwError, context: str | None, request_id: str) -> str:
    status, code = error_bodies.status_of(error), error_bodies.code_of(error)
    return cartesia_speak.error_frame(status, code, error.message, context, request_id)


def _error_frames(error: GwError, request_id: str) -> Sequence[Frame]:
    return [_error_frame(error, None, request_id)]


DIALECT = SocketDialect(name="cartesia", error_body=error_body, error_frames=_error_frames)


async def tts(session: WebSocketSession) -> None:
    await session.accept()
    with one_error():
        async with trio.open_nursery() as nursery:
            await _Speech(session, Contexts(session, nursery)).run()
            nursery.cancel_scope.cancel()


class _Speech:
    """One socket. `_failed` are contexts that failed: what the client still says of them is not spoken."""

    def __init__(self, session: WebSocketSession, contexts: Contexts) -> None:
        self._session = session
        self._contexts = contexts
        self._failed: set[str] = set()

    async def run(self) -> None:
        while (frame := await self._session.socket.receive()) is not None:
            try:
                await self._take(frame)
            except ClientProtocolError as error:  # of one frame; the socket stays open
                await self._session.socket.send(_error_frame(error, None, self._session.caller.request_id))

    async def _take(self, frame: Frame) -> None:
        told = cartesia_speak.parse_frame(frame)
        if isinstance(told, cartesia_speak.Cancel):
            self._contexts.drop(told.context)
            return
        if told.context in self._failed:
            if told.ends:
                self._failed.discard(told.context)
            return
        context = self._contexts.find(told.context) or self._begin(told)
        if told.text.strip() or (told.text and not told.ends):
            await context.give(Text(told.text))
        if told.ends:
            await context.give(TtsCommand.FINISH)
        elif told.flush:
            await context.give(TtsCommand.FLUSH)

    def _begin(self, told: cartesia_speak.Generate) -> Context:
        server = cartesia_speak.SpeakServer(told.context, timestamps=told.request.want_timings)

        def failed(error: GwError) -> Sequence[Frame]:
            if not told.ends:
                self._failed.add(told.context)
            return [_error_frame(error, told.context, self._session.caller.request_id)]

        return self._contexts.open(told.context, told.request, server.encode, failed)


class _Ears:
    """A flush is answered when what was heard before it has been told. `_owed`: flushes not answered yet."""

    def __init__(self, request_id: str) -> None:
        self._server = cartesia_listen.CartesiaServer(request_id)
        self._owed = 0

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        if isinstance(frame, bytes):
            return [HeardAudio(frame)] if frame else []
        match frame.strip():
            case "finalize":
                self._owed += 1
                return [Control.FLUSH, DelayedReply(self._settle)] if self._owed == 1 else [Control.FLUSH]
            case "close" | "done":
                return [Control.FINISH]
        raise ClientProtocolError(what="a text frame must be finalize or close")

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        if not self._owed:
            return self._server.encode(events)
        frames: list[Frame] = []
        for event in events:
            if isinstance(event, ListenEnd):
                frames += self._settle()
            told = self._server.encode([event])
            frames += told
            if event.raw is not None:  # an upstream of this dialect answers by itself
                self._owed -= bool(told) and isinstance(event, UtteranceEnd) and self._owed > 0
            elif isinstance(event, (Final, UtteranceEnd)):
                frames += self._settle()
        return frames

    def _settle(self) -> Sequence[Frame]:
        owed, self._owed = self._owed, 0
        return [self._server.flushed() for _ in range(owed)]

    def opening(self) -> Sequence[Frame]:
        return []

    def closing(self) -> Sequence[Frame]:
        return []


async def stt(session: WebSocketSession) -> None:
    request = cartesia_listen.parse_query(session.scope.get("query_string", b""))
    await listen(session, request, _Ears(session.caller.request_id))


class _TurnEars:
    def __init__(self, request_id: str) -> None:
        self._server = cartesia_turns.TurnsServer(request_id)

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        if isinstance(frame, bytes):
            return [HeardAudio(frame)] if frame else []
        return [Control.FINISH] if cartesia_turns.command_of(frame) == "close" else []

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        return self._server.encode(events)

    def opening(self) -> Sequence[Frame]:
        return [self._server.connected()]

    def closing(self) -> Sequence[Frame]:
        return []


async def turns(session: WebSocketSession) -> None:
    """Every turn's end is found by whoever listens."""
    request = cartesia_turns.parse_turns_query(session.scope.get("query_string", b""))
    await listen(session, request, _TurnEars(session.caller.request_id))


SOCKETS: dict[str, SocketHandler] = {
    "/tts/websocket": tts,
    "/stt/websocket": stt,
    "/stt/turns/websocket": turns,
}
"""Path → handler."""
