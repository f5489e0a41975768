"""OpenAI's HTTP API: chat completions, embeddings, moderations, speech, transcriptions, translations.

If the upstream speaks this dialect too, its own JSON goes out unchanged. Azure's clients send the same to
`/openai/deployments/{deployment}/…`: the path names the model there, whatever the body says.
"""

from __future__ import annotations

from functools import partial

import attrs
import msgspec

from gw.dialects import http_handler
from gw.dialects.arriving_upload import ReceivedRequest, receive_form
from gw.dialects.exchange import Dialect, HttpExchange, Routes
from gw.dialects.remote_recording import by_url
from gw.relay.relay import ChatAnswer, SpeakAnswer, TranscribeAnswer
from gw.types.pending import Pending
from gw.types.stt import TranscribeRequest, Transcript
from gw.wire import openai_audio, x_groq
from gw.wire.chat_functions import is_older
from gw.wire.openai_chat import ChatEncoder, parse_request
from gw.wire.openai_embeddings import parse_embeddings, parse_moderation

DIALECT = Dialect(name="openai")
_GROQ_PATHS = "/openai/v1/"
"""Groq's own paths begin like our mount of OpenAI's."""


async def chat_completions(exchange: HttpExchange) -> Pending:
    request = await exchange.decoded(parse_request)
    if deployment := _deployment(exchange):
        request = msgspec.structs.replace(request, model=deployment)
    return http_handler.answer_chat(exchange, request, partial(_chat_encoder, exchange, request.include_usage, is_older(request.fields)))


def _chat_encoder(exchange: HttpExchange, include_usage: bool, older: bool, answer: ChatAnswer) -> ChatEncoder:
    """Return the encoder. It is given what it needs of the request, which is not kept for as long as an answer streams."""
    request_id = exchange.caller.request_id
    return ChatEncoder(
        id="chatcmpl-" + request_id, created=int(answer.meter.timestamp), model=answer.call.model.name,
        include_usage=include_usage, older=older,
        groq_request=request_id if exchange.scope["path"].startswith(_GROQ_PATHS) else "",
    )  # fmt: skip


async def embeddings(exchange: HttpExchange) -> None:
    request = await exchange.decoded(partial(parse_embeddings, model=_deployment(exchange)))
    await http_handler.answer_document(exchange, request)


async def moderations(exchange: HttpExchange) -> None:
    request = await exchange.decoded(partial(parse_moderation, model=_deployment(exchange)))
    await http_handler.answer_document(exchange, request)


async def speech(exchange: HttpExchange) -> None:
    request = await exchange.decoded(openai_audio.parse_speech)
    if deployment := _deployment(exchange):
        request = attrs.evolve(request, model=deployment)
    if not request.want_events:
        await http_handler.answer_speech(exchange, request)
        return

    async def in_another_format(answer: SpeakAnswer) -> bool:
        if answer.stream.format.encoding == request.format.encoding:
            return False
        await http_handler.send_audio(exchange, answer)  # events cannot name the format of their audio, a content type can
        return True

    opening = exchange.gateway.relay.speak(request, exchange.caller)
    await http_handler.stream_events(exchange, opening, lambda answer: openai_audio.encode_speech, in_another_format)


async def transcriptions(exchange: HttpExchange, task: str = "transcribe") -> None:
    async with exchange.upload() as upload:

        def parse() -> TranscribeRequest:
            def parsed() -> TranscribeRequest:
                return openai_audio.parse_transcription(upload.fields, upload, upload.format, upload.audio_seconds, task)

            url = openai_audio.url_in(upload.fields)
            request = by_url(exchange.gateway, url, "url", upload, parsed) if url else parsed()
            deployment = _deployment(exchange)
            return attrs.evolve(request, model=deployment) if deployment else request

        async with receive_form(exchange, upload, parse, ("url",)) as received:
            await _answer_transcription(exchange, received)


async def _answer_transcription(exchange: HttpExchange, received: ReceivedRequest) -> None:
    def with_groq_id(body: bytes) -> bytes:
        request = received.request
        is_json = request.response_format in ("json", "verbose_json") and not request.stream
        has_id = is_json and exchange.scope["path"].startswith(_GROQ_PATHS)
        return x_groq.with_groq_id(body, exchange.caller.request_id) if has_id else body

    def encode(transcript: Transcript, answer: TranscribeAnswer) -> tuple[bytes, str]:
        request = received.request
        if request.stream:
            return openai_audio.encode_transcript_events([transcript]), "text/event-stream"
        timestamps, language, audio_s = request.timestamps, request.language, request.audio_seconds
        return openai_audio.encode_transcript(transcript, request.response_format, timestamps, language, audio_s)

    if not received.request.stream:
        # A field after the file may still say that the answer is wanted as a stream.
        await http_handler.answer_transcript(exchange, received.request, encode, with_groq_id, lambda: received.request.stream)
        return
    opening = exchange.gateway.relay.transcribe(received.request, exchange.caller)
    await http_handler.stream_events(exchange, opening, lambda answer: openai_audio.encode_transcript_events)


def _deployment(exchange: HttpExchange) -> str | None:
    """Return the model that the path of an Azure client names."""
    deployment: str | None = exchange.scope["path_params"].get("deployment")
    return deployment


ROUTES: Routes = {
    ("POST", "/v1/chat/completions"): chat_completions,
    ("POST", "/v1/embeddings"): embeddings,
    ("POST", "/v1/moderations"): moderations,
    ("POST", "/v1/audio/speech"): speech,
    ("POST", "/v1/audio/transcriptions"): transcriptions,
    ("POST", "/v1/audio/translations"): partial(transcriptions, task="translate"),
}
