"""OpenAI's HTTP API: chat completions, speech, transcriptions, translations.

Where the upstream speaks this dialect too, its own JSON goes out unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

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
from gw.errors import ClientProtocolError
from gw.relay.relay import ChatAnswer, SpeakAnswer, TranscribeAnswer
from gw.types.llm import ChatEvent, ChatRequest, Completion
from gw.types.stt import TranscribeRequest, Transcript
from gw.types.tts import SpeakRequest
from gw.wire import openai_audio, openai_chat_server

DIALECT = Dialect(name="openai")


# ---- POST /v1/chat/completions


async def chat_completions(exchange: HttpExchange) -> None:
    request = openai_chat_server.parse_request(await body_of(exchange))
    answer = _chat_stream if request.stream else _chat_whole
    await while_connected(exchange, partial(answer, exchange, request))


def _encoder(exchange: HttpExchange, answer: ChatAnswer, request: ChatRequest) -> openai_chat_server.ChatEncoder:
    return openai_chat_server.ChatEncoder(
        id="chatcmpl-" + exchange.caller.request_id,
        created=int(answer.meter.timestamp),
        model=answer.call.model.name,
        include_usage=request.include_usage,
    )


async def _chat_whole(exchange: HttpExchange, request: ChatRequest) -> None:
    events: list[ChatEvent] = []
    async with exchange.gateway.relay.chat(request, exchange.caller) as answer:
        while not answer.done:
            events += await answer.receive()
        first = events[0]
        raw = first.raw if isinstance(first, Completion) else None
        body = raw if raw is not None else _encoder(exchange, answer, request).completion(events)
        await send_whole(exchange.send, 200, JSON, body, answer_headers(exchange, answer))


def _chat_stream(exchange: HttpExchange, request: ChatRequest) -> Awaitable[None]:
    return stream_events(
        exchange,
        exchange.gateway.relay.chat(request, exchange.caller),
        lambda answer: _encoder(exchange, answer, request).encode,
    )


# ---- POST /v1/audio/speech


async def speech(exchange: HttpExchange) -> None:
    request = openai_audio.parse_speech(await body_of(exchange))
    answer = _speech_events if request.want_events else _speech_audio
    await while_connected(exchange, partial(answer, exchange, request))


async def _speech_events(exchange: HttpExchange, request: SpeakRequest) -> None:
    async def in_another_format(answer: SpeakAnswer) -> bool:
        if answer.stream.format.encoding == request.format.encoding:
            return False
        await send_audio(exchange, answer)  # events cannot say what their audio is, a content type can
        return True

    opening = exchange.gateway.relay.speak(request, exchange.caller)
    await stream_events(exchange, opening, lambda answer: openai_audio.encode_speech, in_another_format)


async def _speech_audio(exchange: HttpExchange, request: SpeakRequest) -> None:
    async with exchange.gateway.relay.speak(request, exchange.caller) as answer:
        await send_audio(exchange, answer)


# ---- POST /v1/audio/transcriptions, /v1/audio/translations


async def transcriptions(exchange: HttpExchange) -> None:
    await _transcribe(exchange, "transcribe")


async def translations(exchange: HttpExchange) -> None:
    await _transcribe(exchange, "translate")


async def _transcribe(exchange: HttpExchange, task: str) -> None:
    async with Upload() as upload:
        await read_upload(exchange.scope, exchange.receive, upload, limit_bytes=upload_limit(exchange))
        if not upload.has_file or not upload.size:
            raise ClientProtocolError(what="the form has no audio: send it as the part named 'file'", param="file")
        request = openai_audio.parse_transcription(upload.fields, upload, upload.format, upload.audio_seconds, task)
        answer = _transcript_stream if request.stream else _transcript_whole
        await while_connected(exchange, partial(answer, exchange, request))


async def _transcript_stream(exchange: HttpExchange, request: TranscribeRequest) -> None:
    await stream_events(
        exchange,
        exchange.gateway.relay.transcribe(request, exchange.caller),
        lambda answer: openai_audio.encode_transcript_events,
    )


async def _transcript_whole(exchange: HttpExchange, request: TranscribeRequest) -> None:
    async with exchange.gateway.relay.transcribe(request, exchange.caller) as answer:
        transcript = await whole_transcript(answer)
        body, content_type = _as_asked(transcript, request, answer)
        await send_whole(exchange.send, 200, content_type.encode(), body, answer_headers(exchange, answer))


def _as_asked(transcript: Transcript, request: TranscribeRequest, answer: TranscribeAnswer) -> tuple[bytes, str]:
    if transcript.raw is not None and answer.call.spec.dialect == DIALECT.name:
        return transcript.raw, transcript.content_type
    return openai_audio.encode_transcript(transcript, request.response_format)


ROUTES: dict[tuple[str, str], Handler] = {
    ("POST", "/v1/chat/completions"): chat_completions,
    ("POST", "/v1/audio/speech"): speech,
    ("POST", "/v1/audio/transcriptions"): transcriptions,
    ("POST", "/v1/audio/translations"): translations,
}
"""Method and path → handler."""
