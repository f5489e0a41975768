"""ElevenLabs' HTTP API: text-to-speech in its four forms, and `POST /v1/speech-to-text`."""

from __future__ import annotations

from functools import partial

import msgspec

from gw.dialects import error_bodies, http_handler
from gw.dialects.http_handler import JSON, Dialect, HttpExchange, Routes
from gw.dialects.request_io import send_response
from gw.dialects.upload import Upload
from gw.errors import GwError
from gw.relay.relay import TranscribeAnswer
from gw.types.stt import Transcript
from gw.types.tts import SpeakEvent, SpeakRequest, WordTiming
from gw.wire import elevenlabs_batch, elevenlabs_speak


def error_body(error: GwError, request_id: str) -> bytes:
    status = error_bodies.status_of(error)
    return error_bodies.body_by(partial(elevenlabs_speak.error_body, status), error, request_id)


DIALECT = Dialect(
    name="elevenlabs", error_body=error_body, in_band=lambda body: body + b"\n",
    id_headers=(b"x-request-id", b"request-id"),
)


async def _parse(exchange: HttpExchange, *, timings: bool) -> SpeakRequest:
    voice = exchange.scope["path_params"]["voice"]
    return elevenlabs_speak.parse(voice, exchange.query, await exchange.body(), timings=timings)


async def speech(exchange: HttpExchange) -> None:
    """Answer both the streamed and the unstreamed form: the same audio, sent as it comes."""
    request = await _parse(exchange, timings=False)
    await http_handler.answer_speech(exchange, request, lambda answer: [(b"character-cost", b"%d" % len(request.text))])


async def timed(exchange: HttpExchange) -> None:
    request = await _parse(exchange, timings=True)

    async def work() -> None:
        events: list[SpeakEvent] = []
        async with exchange.gateway.relay.speak(request, exchange.caller) as answer:
            while not answer.done:
                events += await answer.receive()
            timings = [event for event in events if isinstance(event, WordTiming)]
            body = msgspec.json.encode(elevenlabs_speak.timed_object(http_handler.join_audio(events), timings))
            await send_response(exchange.send, 200, JSON, body, http_handler.answer_headers(exchange, answer))

    await http_handler.while_connected(exchange, work)


async def timed_stream(exchange: HttpExchange) -> None:
    request = await _parse(exchange, timings=True)
    opening = exchange.gateway.relay.speak(request, exchange.caller)
    await http_handler.stream_lines(exchange, opening, lambda answer: elevenlabs_speak.encode_lines, JSON)


async def recording(exchange: HttpExchange) -> None:
    async with Upload() as upload:
        await http_handler.read_form(exchange, upload)
        request = elevenlabs_batch.parse_form(upload.fields, upload, upload.format, upload.audio_seconds)

        def encode(transcript: Transcript, answer: TranscribeAnswer) -> tuple[bytes, str]:
            id_ = exchange.caller.request_id
            body = elevenlabs_batch.encode_transcript(transcript, request_id=id_, duration_s=request.audio_seconds)
            return body, "application/json"

        await http_handler.answer_transcript(exchange, request, encode)


ROUTES: Routes = {
    ("POST", "/v1/text-to-speech/{voice}"): speech,
    ("POST", "/v1/text-to-speech/{voice}/stream"): speech,
    ("POST", "/v1/text-to-speech/{voice}/with-timestamps"): timed,
    ("POST", "/v1/text-to-speech/{voice}/stream/with-timestamps"): timed_stream,
    ("POST", "/v1/speech-to-text"): recording,
}
