"""OpenAI's HTTP API: chat completions, speech, transcriptions, translations.

Where the upstream speaks this dialect too, its own JSON goes out unchanged. Each handler owns its upstream in one
`async with`; whatever is raised before the head of the answer becomes a status and an error body, afterwards an error
event inside the stream (or, for raw audio, a cut connection).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TypeVar

import msgspec

from gw.dialects import failure
from gw.dialects.asgi import Headers, cancels, read_body, send_piece, send_start, send_whole, until_disconnect
from gw.dialects.caller import identify, request_id
from gw.dialects.keepalive import KeepAlive, SseResponse
from gw.dialects.upload import Upload, read_upload
from gw.errors import ClientProtocolError, GwError
from gw.gateway import Gateway
from gw.relay.answer import Answer
from gw.relay.relay import ChatAnswer, SpeakAnswer, TranscribeAnswer
from gw.types.asgi import Receive, Scope, Send
from gw.types.audio import CONTENT_TYPES
from gw.types.caller import Caller
from gw.types.llm import ChatEvent, ChatRequest, Completion
from gw.types.stt import TextDelta, TranscribeRequest, Transcript
from gw.types.tts import AudioChunk, SpeakEvent, SpeakRequest
from gw.types.usage import NANO
from gw.wire import openai_audio, openai_chat, sse

_JSON = b"application/json"
_MEGABYTE = 1024 * 1024


class Exchange(msgspec.Struct, eq=False):
    """One request of this dialect. `started`: the head of a plain answer has gone, so a failure can only cut it."""

    gateway: Gateway
    keepalive: KeepAlive
    scope: Scope
    receive: Receive
    send: Send
    caller: Caller
    started: bool = False

    @property
    def id_header(self) -> tuple[bytes, bytes]:
        return (b"x-request-id", self.caller.request_id.encode())


S = TypeVar("S")
E = TypeVar("E")
Handler = Callable[[Exchange], Awaitable[None]]


async def serve(
    handler: Handler, gateway: Gateway, keepalive: KeepAlive, scope: Scope, receive: Receive, send: Send
) -> None:
    """Run one handler: identify the caller, and answer what it raises before the head of its answer."""
    exchange: Exchange | None = None
    try:
        exchange = Exchange(gateway, keepalive, scope, receive, send, identify(gateway, scope, dialect="openai"))
        await handler(exchange)
    except GwError as error:
        if exchange is not None and exchange.started:
            raise ConnectionAbortedError("the answer broke off after its first bytes") from None
        id_ = request_id(scope)
        headers = [(b"x-request-id", id_.encode()), *failure.headers_of(error)]
        await send_whole(send, failure.status_of(error), _JSON, failure.body_of(error, id_), headers)


def answer_headers(exchange: Exchange, answer: Answer[S, E]) -> Headers:
    """Who answered, after how many attempts, how long the gateway took, and the provider's bucket."""
    meter = answer.meter
    own_ms = ((meter.first_call_at or meter.started) - meter.started) * 1000
    wait_ms = ((meter.content_at or meter.started) - meter.started) * 1000 - own_ms
    headers = [
        exchange.id_header,
        (b"x-gw-model", _header_text(answer.call.model.id)),
        (b"x-gw-attempts", b"%d" % len(meter.marks)),
        (b"server-timing", b"gw;dur=%.3f, upstream;dur=%.3f" % (own_ms, wait_ms)),
    ]
    record = answer.record
    if record is not None and record.cost_nusd is not None:
        headers.append((b"x-gw-cost-usd", b"%.9f" % (record.cost_nusd / NANO)))
    bucket = answer.call.gate.bucket
    if bucket is not None:
        now = meter.last_event_at or meter.started
        headers += [
            (b"x-ratelimit-limit-requests", b"%d" % (answer.call.provider.requests_per_minute or 0)),
            (b"x-ratelimit-remaining-requests", b"%d" % bucket.remaining(now)),
            (b"x-ratelimit-reset-requests", b"%.3fs" % bucket.reset_s(now)),
        ]
    return headers


def _header_text(text: str) -> bytes:
    """Model names are the administrator's text: anything that is no visible ASCII is escaped."""
    return text.encode("ascii", "backslashreplace").replace(b"\r", b"").replace(b"\n", b"")


async def _json_body(exchange: Exchange) -> bytes:
    limit = int(exchange.gateway.settings.serve.max_body_mb * _MEGABYTE)
    return await read_body(exchange.receive, limit_bytes=limit)


def _while_connected(exchange: Exchange, work: Callable[[], Awaitable[None]]) -> Awaitable[None]:
    """`work`, cancelled when the client leaves: by our host, or by a task of ours under one that does not do that."""
    return work() if cancels(exchange.scope) else until_disconnect(exchange.receive, work)


# ---- POST /v1/chat/completions


async def chat_completions(exchange: Exchange) -> None:
    request = openai_chat.parse_request(await _json_body(exchange))
    answer = _chat_stream if request.stream else _chat_whole
    await _while_connected(exchange, partial(answer, exchange, request))


def _encoder(exchange: Exchange, answer: ChatAnswer, request: ChatRequest) -> openai_chat.ChatEncoder:
    return openai_chat.ChatEncoder(
        id="chatcmpl-" + exchange.caller.request_id,
        created=int(answer.meter.timestamp),
        model=answer.call.model.name,
        include_usage=request.include_usage,
    )


async def _chat_whole(exchange: Exchange, request: ChatRequest) -> None:
    events: list[ChatEvent] = []
    async with exchange.gateway.relay.chat(request, exchange.caller) as answer:
        while not answer.done:
            events += await answer.receive()
        first = events[0]
        raw = first.raw if isinstance(first, Completion) else None
        body = raw if raw is not None else _encoder(exchange, answer, request).completion(events)
        await send_whole(exchange.send, 200, _JSON, body, answer_headers(exchange, answer))


async def _chat_stream(exchange: Exchange, request: ChatRequest) -> None:
    await _stream(
        exchange,
        exchange.gateway.relay.chat(request, exchange.caller),
        lambda answer: _encoder(exchange, answer, request).encode,
    )


async def _stream(
    exchange: Exchange,
    opening: AbstractAsyncContextManager[Answer[S, E]],
    encoder: Callable[[Answer[S, E]], Callable[[list[E]], bytes]],
    instead: Callable[[Answer[S, E]], Awaitable[bool]] | None = None,
) -> None:
    """Relay an answer as server-sent events. `instead` may answer in another way, unless a comment went out before."""
    response = SseResponse(exchange.send, [exchange.id_header])
    exchange.keepalive.watch(response)
    try:
        async with opening as answer:
            exchange.keepalive.forget(response)
            if instead is not None and not response.started and await instead(answer):
                return
            await response.begin(answer_headers(exchange, answer))
            encode = encoder(answer)
            while not answer.done:
                data = encode(await answer.receive())
                if data or answer.done:
                    await response.write(data, more=not answer.done)
    except GwError as error:
        if not response.started:
            raise
        await response.write(sse.encode(failure.body_of(error, exchange.caller.request_id)), more=False)
    finally:
        exchange.keepalive.forget(response)


# ---- POST /v1/audio/speech


async def speech(exchange: Exchange) -> None:
    request = openai_audio.parse_speech(await _json_body(exchange))
    answer = _speech_events if request.want_events else _speech_audio
    await _while_connected(exchange, partial(answer, exchange, request))


async def _speech_events(exchange: Exchange, request: SpeakRequest) -> None:
    async def in_another_format(answer: SpeakAnswer) -> bool:
        if answer.stream.format.encoding == request.format.encoding:
            return False
        await _send_audio(exchange, answer)  # events cannot say what their audio is, a content type can
        return True

    opening = exchange.gateway.relay.speak(request, exchange.caller)
    await _stream(exchange, opening, lambda answer: openai_audio.encode_speech, in_another_format)


async def _speech_audio(exchange: Exchange, request: SpeakRequest) -> None:
    async with exchange.gateway.relay.speak(request, exchange.caller) as answer:
        await _send_audio(exchange, answer)


async def _send_audio(exchange: Exchange, answer: SpeakAnswer) -> None:
    """Relay the audio itself under the content type of what the provider sends."""
    content_type = CONTENT_TYPES[answer.stream.format.encoding]
    while not answer.done:
        audio = _audio(await answer.receive())
        if not exchange.started:
            exchange.started = True
            await send_start(exchange.send, content_type.encode(), answer_headers(exchange, answer))
        if audio or answer.done:
            await send_piece(exchange.send, audio, more=not answer.done)


def _audio(events: list[SpeakEvent]) -> bytes:
    return b"".join(e.data for e in events if isinstance(e, AudioChunk))


# ---- POST /v1/audio/transcriptions, /v1/audio/translations


async def transcriptions(exchange: Exchange) -> None:
    await _transcribe(exchange, "transcribe")


async def translations(exchange: Exchange) -> None:
    await _transcribe(exchange, "translate")


async def _transcribe(exchange: Exchange, task: str) -> None:
    limit = int(exchange.gateway.settings.serve.max_upload_mb * _MEGABYTE)
    async with Upload() as upload:
        await read_upload(exchange.scope, exchange.receive, upload, limit_bytes=limit)
        if not upload.has_file or not upload.size:
            raise ClientProtocolError(what="the form has no audio: send it as the part named 'file'", param="file")
        request = openai_audio.parse_transcription(upload.fields, upload, upload.format, upload.audio_seconds, task)
        answer = _transcript_stream if request.stream else _transcript_whole
        await _while_connected(exchange, partial(answer, exchange, request))


async def _transcript_stream(exchange: Exchange, request: TranscribeRequest) -> None:
    await _stream(
        exchange,
        exchange.gateway.relay.transcribe(request, exchange.caller),
        lambda answer: openai_audio.encode_transcript_events,
    )


async def _transcript_whole(exchange: Exchange, request: TranscribeRequest) -> None:
    async with exchange.gateway.relay.transcribe(request, exchange.caller) as answer:
        transcript = await _last(answer)
        body, content_type = _as_asked(transcript, request, answer)
        await send_whole(exchange.send, 200, content_type.encode(), body, answer_headers(exchange, answer))


async def _last(answer: TranscribeAnswer) -> Transcript:
    while True:
        event = (await answer.receive())[-1]
        if not isinstance(event, TextDelta):
            return event


def _as_asked(transcript: Transcript, request: TranscribeRequest, answer: TranscribeAnswer) -> tuple[bytes, str]:
    if transcript.raw is not None and answer.call.spec.dialect == "openai":
        return transcript.raw, transcript.content_type
    return openai_audio.encode_transcript(transcript, request.response_format)


ROUTES: dict[tuple[bytes, bytes], Handler] = {
    (b"POST", b"/v1/chat/completions"): chat_completions,
    (b"POST", b"/v1/audio/speech"): speech,
    (b"POST", b"/v1/audio/transcriptions"): transcriptions,
    (b"POST", b"/v1/audio/translations"): translations,
}
"""Method and path → handler. The same below `/openai` (what Groq's SDK calls)."""
