"""Cartesia's HTTP API: `POST /tts/bytes`, `POST /tts/sse` and `POST /stt`."""

from __future__ import annotations

from functools import partial

from gw.dialects import error_bodies
from gw.dialects.http_handler import (
    JSON,
    Dialect,
    Handler,
    HttpExchange,
    answer_headers,
    body_of,
    send_audio,
    stream_events,
    upload_limit,
    while_connected,
    whole_transcript,
)
from gw.dialects.request_io import send_whole
from gw.dialects.upload import Upload, read_upload
from gw.errors import AllCandidatesFailed, ClientProtocolError, GwError, ProviderError
from gw.types.stt import TranscribeRequest
from gw.types.tts import SpeakRequest
from gw.wire import cartesia_listen, cartesia_speak, sse


def error_body(error: GwError, request_id: str) -> bytes:
    facts = error.facts()
    facts.pop("what", None)
    if isinstance(error, ProviderError):
        facts["outcome"] = error.outcome
    if isinstance(error, AllCandidatesFailed):
        facts["attempts"] = error_bodies.attempts_of(error)
    return cartesia_speak.error_body(error_bodies.code_of(error), error.message, request_id, **facts)


def _in_band(body: bytes) -> bytes:
    return sse.encode(b'{"type":"error","done":true,"status_code":500,' + body[1:], event="error")


DIALECT = Dialect(name="cartesia", error_body=error_body, in_band=_in_band)


async def tts_bytes(exchange: HttpExchange) -> None:
    request = cartesia_speak.parse_body(await body_of(exchange), events=False)
    await while_connected(exchange, partial(_audio, exchange, request))


async def _audio(exchange: HttpExchange, request: SpeakRequest) -> None:
    async with exchange.gateway.relay.speak(request, exchange.caller) as answer:
        await send_audio(exchange, answer)


async def tts_sse(exchange: HttpExchange) -> None:
    request = cartesia_speak.parse_body(await body_of(exchange), events=True)
    await while_connected(exchange, partial(_events, exchange, request))


async def _events(exchange: HttpExchange, request: SpeakRequest) -> None:
    server = cartesia_speak.SpeakServer(exchange.caller.request_id, timestamps=request.want_timings)
    await stream_events(
        exchange,
        exchange.gateway.relay.speak(request, exchange.caller),
        lambda answer: lambda events: cartesia_speak.as_sse(server.encode(events)),
    )


async def stt(exchange: HttpExchange) -> None:
    async with Upload() as upload:
        await read_upload(exchange.scope, exchange.receive, upload, limit_bytes=upload_limit(exchange))
        if not upload.has_file or not upload.size:
            raise ClientProtocolError(what="the form has no audio: send it as the part named 'file'", param="file")
        fields = dict(upload.fields)
        words = any(name.startswith("timestamp_granularities") for name, _ in upload.fields)
        request = TranscribeRequest(
            model=fields.get("model", ""),
            audio=upload,
            format=upload.format,
            audio_seconds=upload.audio_seconds,
            language=fields.get("language") or None,
            timestamps=frozenset({"word"} if words else ()),
            fields=tuple(upload.fields),
            dialect="cartesia",
        )
        await while_connected(exchange, partial(_transcribe, exchange, request))


async def _transcribe(exchange: HttpExchange, request: TranscribeRequest) -> None:
    async with exchange.gateway.relay.transcribe(request, exchange.caller) as answer:
        transcript = await whole_transcript(answer)
        body = transcript.raw
        if body is None or answer.call.spec.dialect != DIALECT.name:
            body = cartesia_listen.encode_transcript(
                transcript, request_id=exchange.caller.request_id, words="word" in request.timestamps
            )
        await send_whole(exchange.send, 200, JSON, body, answer_headers(exchange, answer))


ROUTES: dict[tuple[str, str], Handler] = {
    ("POST", "/tts/bytes"): tts_bytes,
    ("POST", "/tts/sse"): tts_sse,
    ("POST", "/stt"): stt,
}
"""Method and path → handler."""
