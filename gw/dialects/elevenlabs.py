"""ElevenLabs' HTTP API: text-to-speech in its four forms, and `POST /v1/speech-to-text`."""

from __future__ import annotations

from functools import partial

import msgspec

from gw.dialects import error_bodies
from gw.dialects.http_handler import (
    JSON,
    Dialect,
    Handler,
    HttpExchange,
    answer_headers,
    audio_of,
    body_of,
    send_audio,
    stream_lines,
    upload_limit,
    while_connected,
    whole_transcript,
)
from gw.dialects.request_io import send_whole
from gw.dialects.upload import Upload, read_upload
from gw.errors import AllCandidatesFailed, ClientProtocolError, GwError, ProviderError
from gw.types.stt import TranscribeRequest
from gw.types.tts import SpeakEvent, SpeakRequest, WordTiming
from gw.wire import elevenlabs_listen, elevenlabs_speak


def error_body(error: GwError, request_id: str) -> bytes:
    facts = error.facts()
    facts.pop("what", None)
    if isinstance(error, ProviderError):
        facts["outcome"] = error.outcome
    if isinstance(error, AllCandidatesFailed):
        facts["attempts"] = error_bodies.attempts_of(error)
    status = error_bodies.status_of(error)
    return elevenlabs_speak.error_body(status, error_bodies.code_of(error), error.message, request_id, **facts)


DIALECT = Dialect(
    name="elevenlabs",
    error_body=error_body,
    in_band=lambda body: body + b"\n",
    id_headers=(b"x-request-id", b"request-id"),
)


async def _parse(exchange: HttpExchange, *, timings: bool) -> SpeakRequest:
    voice = exchange.scope["path_params"]["voice"]
    query: bytes = exchange.scope.get("query_string", b"")
    return elevenlabs_speak.parse(voice, query, await body_of(exchange), timings=timings)


async def speech(exchange: HttpExchange) -> None:
    """Whole or streamed: the same audio, sent as it comes."""
    request = await _parse(exchange, timings=False)
    await while_connected(exchange, partial(_audio, exchange, request))


async def _audio(exchange: HttpExchange, request: SpeakRequest) -> None:
    async with exchange.gateway.relay.speak(request, exchange.caller) as answer:
        await send_audio(exchange, answer, [(b"character-cost", b"%d" % len(request.text))])


async def timed(exchange: HttpExchange) -> None:
    request = await _parse(exchange, timings=True)
    await while_connected(exchange, partial(_whole_with_times, exchange, request))


async def _whole_with_times(exchange: HttpExchange, request: SpeakRequest) -> None:
    events: list[SpeakEvent] = []
    async with exchange.gateway.relay.speak(request, exchange.caller) as answer:
        while not answer.done:
            events += await answer.receive()
        timings = [event for event in events if isinstance(event, WordTiming)]
        body = msgspec.json.encode(elevenlabs_speak.timed_object(audio_of(events), timings))
        await send_whole(exchange.send, 200, JSON, body, answer_headers(exchange, answer))


async def timed_stream(exchange: HttpExchange) -> None:
    request = await _parse(exchange, timings=True)
    await while_connected(exchange, partial(_lines, exchange, request))


async def _lines(exchange: HttpExchange, request: SpeakRequest) -> None:
    opening = exchange.gateway.relay.speak(request, exchange.caller)
    await stream_lines(exchange, opening, lambda answer: elevenlabs_speak.encode_lines, JSON)


async def recording(exchange: HttpExchange) -> None:
    async with Upload() as upload:
        await read_upload(exchange.scope, exchange.receive, upload, limit_bytes=upload_limit(exchange))
        if not upload.has_file or not upload.size:
            raise ClientProtocolError(what="the form has no audio: send it as the part named 'file'", param="file")
        request = elevenlabs_listen.parse_form(upload.fields, upload, upload.format, upload.audio_seconds)
        await while_connected(exchange, partial(_transcribe, exchange, request))


async def _transcribe(exchange: HttpExchange, request: TranscribeRequest) -> None:
    async with exchange.gateway.relay.transcribe(request, exchange.caller) as answer:
        transcript = await whole_transcript(answer)
        body = transcript.raw
        if body is None or answer.call.spec.dialect != DIALECT.name:
            body = elevenlabs_listen.encode_transcript(
                transcript, request_id=exchange.caller.request_id, duration_s=request.audio_seconds
            )
        await send_whole(exchange.send, 200, JSON, body, answer_headers(exchange, answer))


ROUTES: dict[tuple[str, str], Handler] = {
    ("POST", "/v1/text-to-speech/{voice}"): speech,
    ("POST", "/v1/text-to-speech/{voice}/stream"): speech,
    ("POST", "/v1/text-to-speech/{voice}/with-timestamps"): timed,
    ("POST", "/v1/text-to-speech/{voice}/stream/with-timestamps"): timed_stream,
    ("POST", "/v1/speech-to-text"): recording,
}
"""Method and path → handler."""
