"""The I/O that all vendors of OpenAI's dialect share. Not itself a provider."""

from __future__ import annotations

from functools import partial

import msgspec

from gw.net.http1 import HttpResponse
from gw.providers.chat_call import ChatWire, chat_call
from gw.providers.http_call import EventStream, HttpCall, is_type, json_lines
from gw.providers.spec import Account, SpeakStream, TranscribeStream, bearer
from gw.providers.speech_call import SpeechAudio, SpeechEvents, WholeTranscript, form
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.stt import TranscribeEvent, TranscribeRequest
from gw.types.tts import SpeakRequest
from gw.wire import openai_audio, openai_chat, vendor_errors

_JSON = b"application/json"
_SSE = b"text/event-stream"

CHAT = ChatWire(
    dialect="openai", path=b"/chat/completions", stream_type=_SSE, headers=bearer,
    body=lambda request, account: openai_chat.upstream_body(request, account.model),
    decoder=lambda provider, keep_raw: openai_chat.ChatDecoder(provider, keep_raw=keep_raw),
    decode=openai_chat.decode_completion, classify=vendor_errors.classify,
)
chat = partial(chat_call, CHAT)


class _StreamedTranscript(EventStream[TranscribeEvent]):
    def __init__(self, response: HttpResponse, provider: str, keep_raw: bool) -> None:
        super().__init__(response, provider, openai_audio.TranscriptDecoder(provider))
        self._keep_raw = keep_raw

    def _pass_on(self, events: list[TranscribeEvent]) -> list[TranscribeEvent]:
        events = super()._pass_on(events)
        return events if self._keep_raw else [msgspec.structs.replace(event, raw=None) for event in events]


def transcribe(request: TranscribeRequest, account: Account) -> HttpCall[TranscribeStream]:
    """`POST {base}/audio/transcriptions` (or translations) as a multipart form."""
    content_type, body = form(openai_audio.transcription_fields(request, account.model), request.audio)
    path = b"/audio/translations" if request.task == "translate" else b"/audio/transcriptions"
    headers = [content_type, (b"accept", _SSE if request.stream else b"*/*"), *bearer(account.api_key)]
    provider, keep_raw = account.provider_id, request.dialect == "openai"

    def read(response: HttpResponse) -> TranscribeStream:
        if request.stream and is_type(response, _SSE):
            return _StreamedTranscript(response, provider, keep_raw)
        answer_type = (response.header(b"content-type") or _JSON).decode("latin-1")
        response_format = "json" if request.stream else request.response_format

        def decode(data: bytes) -> TranscribeEvent:
            transcript = openai_audio.decode_transcript(data, answer_type, response_format, provider)
            return transcript if keep_raw else msgspec.structs.replace(transcript, raw=None)

        return WholeTranscript(response, decode)

    return HttpCall(account, path, headers, body, vendor_errors.classify, read)


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
