"""Cartesia's HTTP API: `POST /tts/bytes`, `POST /tts/sse` and `POST /stt`."""

from __future__ import annotations

from functools import partial

from gw.dialects import error_bodies, http_handler
from gw.dialects.http_handler import Dialect, HttpExchange, Routes
from gw.dialects.upload import Upload
from gw.relay.relay import TranscribeAnswer
from gw.types.stt import TranscribeRequest, Transcript
from gw.wire import cartesia_listen, cartesia_speak, sse

error_body = partial(error_bodies.body_by, cartesia_speak.error_body)


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
    async with Upload() as upload:
        await http_handler.read_form(exchange, upload)
        fields = dict(upload.fields)
        words = any(name.startswith("timestamp_granularities") for name, _ in upload.fields)
        request = TranscribeRequest(
            model=fields.get("model", ""), audio=upload, format=upload.format, audio_seconds=upload.audio_seconds,
            language=fields.get("language") or None, timestamps=frozenset({"word"} if words else ()),
            fields=tuple(upload.fields), dialect=DIALECT.name,
        )

        def encode(transcript: Transcript, answer: TranscribeAnswer) -> tuple[bytes, str]:
            id_ = exchange.caller.request_id
            return cartesia_listen.encode_transcript(transcript, request_id=id_, words=words), "application/json"

        await http_handler.answer_transcript(exchange, request, encode)


ROUTES: Routes = {
    ("POST", "/tts/bytes"): tts_bytes,
    ("POST", "/tts/sse"): tts_sse,
    ("POST", "/stt"): stt,
}
