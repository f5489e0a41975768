"""The I/O that all vendors of OpenAI's dialect share. Not itself a provider."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import attrs
import msgspec

from gw.net.http1 import HttpResponse
from gw.providers.chat_call import ChatWire, chat_call
from gw.providers.http_call import EventStream, HttpCall, is_type, json_lines
from gw.providers.recording_call import WholeTranscript, form
from gw.providers.spec import Account, HonourRule, Honours, SpeakStream, TranscribeStream, bearer
from gw.providers.speech_call import SpeechAudio, SpeechEvents
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.speech_settings import (
    DIARIZE,
    KEYTERMS,
    LANGUAGE,
    OTHERS,
    PROMPT,
    RESPONSE_FORMAT,
    SEGMENT_TIMESTAMPS,
    TEMPERATURE,
    TRANSLATE,
    WORD_TIMESTAMPS,
)
from gw.types.stt import TranscribeEvent, TranscribeRequest
from gw.types.tts import SpeakRequest
from gw.wire import (
    openai_audio,
    openai_chat,
    openai_embeddings,
    openai_responses_answer,
    openai_responses_request,
    vendor_errors,
)

_JSON = b"application/json"
_SSE = b"text/event-stream"

CHAT = ChatWire(
    dialect="openai", path=b"/chat/completions", stream_type=_SSE, headers=bearer,
    body=lambda request, account: openai_chat.upstream_body(request, account.model),
    decoder=lambda provider, keep_raw: openai_chat.ChatDecoder(provider, keep_raw=keep_raw),
    decode=openai_chat.decode_completion, classify=vendor_errors.classify,
)
chat = partial(chat_call, CHAT)


def _document(dialect: str, path: bytes) -> ChatWire:
    return attrs.evolve(
        CHAT, dialect=dialect, path=path,
        body=lambda request, account: openai_embeddings.upstream_body(request, account.model),
        decode=lambda body, provider, keep_raw: openai_embeddings.decode_document(body, provider, keep_raw=keep_raw),
    )


EMBEDDINGS = _document(openai_embeddings.EMBEDDINGS, b"/embeddings")
MODERATIONS = _document(openai_embeddings.MODERATIONS, b"/moderations")
RESPONSES = ChatWire(
    dialect=openai_responses_request.DIALECT, path=b"/responses", stream_type=_SSE, headers=bearer,
    body=lambda request, account: openai_responses_request.upstream_body(request, account.model),
    decoder=lambda provider, keep_raw: openai_responses_answer.ResponsesDecoder(provider, keep_raw=keep_raw),
    decode=lambda body, provider, keep_raw: openai_responses_answer.decode_response(body, provider, keep_raw=keep_raw),
    classify=vendor_errors.classify,
)


class _StreamedTranscript(EventStream[TranscribeEvent]):
    def __init__(self, response: HttpResponse, provider: str, keep_raw: bool) -> None:
        super().__init__(response, provider, openai_audio.TranscriptDecoder(provider))
        self._keep_raw = keep_raw

    def _pass_on(self, events: list[TranscribeEvent]) -> list[TranscribeEvent]:
        events = super()._pass_on(events)
        return events if self._keep_raw else [msgspec.structs.replace(event, raw=None) for event in events]


WHISPER_FORMATS = frozenset({"json", "text", "srt", "verbose_json", "vtt"})


def transcribe(
    request: TranscribeRequest, account: Account, native: Collection[str] = WHISPER_FORMATS
) -> HttpCall[TranscribeStream]:
    """`POST {base}/audio/transcriptions` (or translations) as a multipart form.

    `native` are the formats that the server knows. An answer in another one than the caller's is not passed on as it is.
    """
    sent = openai_audio.sent_format(request, account.model, native)
    fields, audio = openai_audio.transcription_fields(request, account.model, sent), None if request.url else request.audio
    content_type, body = form(fields, audio)
    path = b"/audio/translations" if request.task == "translate" else b"/audio/transcriptions"
    headers = [content_type, (b"accept", _SSE if request.stream else b"*/*"), *bearer(account.api_key)]
    provider = account.provider_id
    keep_raw = request.dialect == "openai" and (request.stream or sent == request.response_format)

    def read(response: HttpResponse) -> TranscribeStream:
        if request.stream and is_type(response, _SSE):
            return _StreamedTranscript(response, provider, keep_raw)
        answer_type = (response.header(b"content-type") or _JSON).decode("latin-1")

        def decode(data: bytes) -> TranscribeEvent:
            transcript = openai_audio.decode_transcript(data, answer_type, sent, provider)
            return transcript if keep_raw else msgspec.structs.replace(transcript, raw=None)

        return WholeTranscript(response, decode)

    return HttpCall(account, path, headers, body, vendor_errors.classify, read)


def _takes_own(name: str) -> HonourRule:
    return lambda request, account: request.dialect == "openai" and openai_audio.takes_own(name, account.model)


OPENAIS_OWN = ("include[]", "known_speaker_names[]", "known_speaker_references[]", "languages[]", "chunking_strategy")
OPENAI_HONOURS: Honours = {
    LANGUAGE: True,
    KEYTERMS: lambda request, account: openai_audio.takes_keyterms(request, account.model),
    PROMPT: lambda request, account: not openai_audio.diarizes(account.model),
    WORD_TIMESTAMPS: lambda request, account: openai_audio.reports_times(account.model),
    SEGMENT_TIMESTAMPS: lambda request, account: openai_audio.reports_segments(request, account.model),
    RESPONSE_FORMAT: lambda request, account: openai_audio.takes_format(request, account.model),
    DIARIZE: lambda request, account: openai_audio.diarizes(account.model) and request.dialect in ("openai", "assemblyai"),
    TRANSLATE: lambda request, account: openai_audio.reports_times(account.model),
    TEMPERATURE: True,
    **{name: _takes_own(name) for name in (*OPENAIS_OWN, OTHERS)},
}  # fmt: skip
"""Settings of a recording that OpenAI's own models honour. Speakers come with segments, not with words: callers of
other protocols that read them from words get another candidate."""
WHISPER_HONOURS: Honours = {
    LANGUAGE: True, KEYTERMS: lambda request, account: not request.prompt, PROMPT: True, WORD_TIMESTAMPS: True,
    SEGMENT_TIMESTAMPS: True, RESPONSE_FORMAT: lambda request, account: request.response_format != "diarized_json",
    TRANSLATE: True, TEMPERATURE: True, OTHERS: _takes_own(OTHERS), **dict.fromkeys(OPENAIS_OWN, lambda request, account: False),
}  # fmt: skip
"""The same of a server that runs Whisper, and of Groq."""


def _delivered(fmt: AudioFormat) -> AudioFormat:
    """Return the format of the answer to a request for `fmt`.

    OpenAI's dialect has one rate for raw PCM and WAV: 24 kHz mono. That of other encodings is not known (0).
    """
    if fmt.encoding == "pcm_s16le":
        return PCM_24K
    return AudioFormat(encoding=fmt.encoding, sample_rate_hz=24_000 if fmt.encoding == "wav" else 0)


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST {base}/audio/speech`; audio, or events when the client requested them and the answer is an event stream."""
    provider, fmt = account.provider_id, _delivered(request.format)

    def read(response: HttpResponse) -> SpeakStream:
        if is_type(response, _SSE):
            return SpeechEvents(response, provider, openai_audio.SpeechDecoder(provider), fmt)
        return SpeechAudio(response, provider, fmt)

    body = openai_audio.speech_body(request, account.model, request.voice)
    headers = json_lines(bearer, account, _SSE if request.want_events else b"*/*")
    return HttpCall(account, b"/audio/speech", headers, body, vendor_errors.classify, read)
