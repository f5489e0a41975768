"""Cartesia's API: `POST /tts/bytes`, `POST /tts/sse` and `POST /stt`; `WS /tts/websocket`, many contexts over one socket,
`WS /stt/websocket` and, by turns, `WS /stt/turns/websocket`."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial

from gw.dialects import error_bodies, http_handler, live_transcription
from gw.dialects.arriving_upload import receive_form
from gw.dialects.exchange import Dialect, HttpExchange, Routes
from gw.dialects.speech_contexts import Context, Contexts, open_contexts
from gw.dialects.websocket import SocketDialect, SocketHandler, WebSocketSession
from gw.errors import ClientProtocolError, GwError
from gw.relay.relay import TranscribeAnswer
from gw.types.stt import TranscribeRequest, Transcript
from gw.wire import cartesia_listen, cartesia_speak, sse
from gw.wire.json_frames import Frame
from gw.wire.live_messages import CancelContext, ContextText

CODES = {"budget_exceeded": "quota_exceeded", "rate_limited": "concurrency_limited"}
"""The vendor's `error_code` for ours (its page on errors, November 2026, which does not name the code of a 402)."""

error_body = partial(error_bodies.body_by, error_bodies.without_param(cartesia_speak.error_body), codes=CODES)


def _in_band(body: bytes) -> bytes:
    return sse.encode(b'{"type":"error","done":true,"status_code":500,' + body[1:], event="error")


DIALECT = Dialect(name="cartesia", error_body=error_body, in_band=_in_band)


async def tts_bytes(exchange: HttpExchange) -> None:
    await http_handler.answer_speech(exchange, cartesia_speak.parse_body(await exchange.body(), events=False))


async def tts_sse(exchange: HttpExchange) -> None:
    request = cartesia_speak.parse_body(await exchange.body(), events=True)
    server = cartesia_speak.CartesiaSpeakServer(exchange.caller.request_id, timestamps=request.want_timings)
    opening = exchange.gateway.relay.speak(request, exchange.caller)
    await http_handler.stream_events(
        exchange, opening, lambda answer: lambda events: cartesia_speak.as_sse(server.encode(events))
    )


async def stt(exchange: HttpExchange) -> None:
    async with exchange.upload() as upload:

        def parse() -> TranscribeRequest:
            return cartesia_listen.parse_form(upload.fields, upload, upload.format, upload.audio_seconds)

        async with receive_form(exchange, upload, parse) as received:

            def encode(transcript: Transcript, answer: TranscribeAnswer) -> tuple[bytes, str]:
                id_, words = exchange.caller.request_id, bool(received.request.timestamps)
                return cartesia_listen.encode_transcript(transcript, request_id=id_, words=words), "application/json"

            await http_handler.answer_transcript(exchange, received.request, encode)


ROUTES: Routes = {
    ("POST", "/tts/bytes"): tts_bytes,
    ("POST", "/tts/sse"): tts_sse,
    ("POST", "/stt"): stt,
}


# ---- WebSockets


def _error_frames(error: GwError, request_id: str, context: str | None = None) -> Sequence[Frame]:
    status, code = error_bodies.status_of(error), error_bodies.spoken_code(error, CODES)
    return [cartesia_speak.error_frame(status, code, error.message, context, request_id)]


SOCKET_DIALECT = SocketDialect(name="cartesia", error_body=error_body, error_frames=_error_frames)


async def speak(session: WebSocketSession) -> None:
    """Serve `WS /tts/websocket`. A malformed frame is answered with an error; the socket stays open."""
    await session.accept()
    async with open_contexts(session) as contexts:
        while (frame := await session.socket.receive()) is not None:
            try:
                await _handle(session, contexts, cartesia_speak.parse_frame(frame))
            except ClientProtocolError as error:
                for answer in _error_frames(error, session.caller.request_id):
                    await session.socket.send(answer)


async def _handle(session: WebSocketSession, contexts: Contexts, message: ContextText | CancelContext) -> None:
    def open_context(first: ContextText) -> Context:
        assert first.request is not None
        server = cartesia_speak.CartesiaSpeakServer(first.context, timestamps=first.request.want_timings)
        error_frames = partial(_error_frames, request_id=session.caller.request_id, context=first.context)
        return contexts.open(first.context, first.request, server.encode, error_frames)

    if isinstance(message, CancelContext):
        contexts.drop(message.context)
    else:
        await contexts.deliver(message, open_context)


def listen(session: WebSocketSession) -> Awaitable[None]:
    request = cartesia_listen.parse_query(session.scope.get("query_string", b""))
    server = cartesia_listen.CartesiaListenServer(session.caller.request_id)
    return live_transcription.listen(session, request, server)


def listen_by_turns(session: WebSocketSession) -> Awaitable[None]:
    """Serve `WS /stt/turns/websocket`, where the provider finds the end of turns."""
    request = cartesia_listen.parse_turns_query(session.scope.get("query_string", b""))
    server = cartesia_listen.CartesiaTurnsServer(session.caller.request_id)
    return live_transcription.listen(session, request, server)


SOCKETS: dict[str, SocketHandler] = {
    "/tts/websocket": speak,
    "/stt/websocket": listen,
    "/stt/turns/websocket": listen_by_turns,
}
