"""The I/O every vendor of OpenAI's dialect shares. Not itself a provider."""

from __future__ import annotations

import secrets
from contextlib import AbstractAsyncContextManager

import msgspec

from gw.errors import UpstreamProtocolError
from gw.net.http1 import HttpResponse
from gw.providers.chat_call import ChatWire, chat_call
from gw.providers.event_stream import EventStream
from gw.providers.http_call import HttpCall, is_type, json_lines
from gw.providers.spec import Account, ChatStream, SpeakStream, TranscribeStream, bearer
from gw.providers.speech_call import FormBody, SpokenAudio
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.llm import ChatRequest
from gw.types.stt import TranscribeEvent, TranscribeRequest
from gw.types.tts import SpeakEvent, SpeakRequest
from gw.wire import multipart, openai_audio, openai_chat_client, vendor_errors

_JSON = b"application/json"
_SSE = b"text/event-stream"
_TRANSCRIPT_LIMIT = 25 * 1024 * 1024


CHAT = ChatWire(
    dialect="openai",
    path=b"/chat/completions",
    stream_type=b"text/event-stream",
    headers=bearer,
    body=lambda request, account: openai_chat_client.upstream_body(request, account.model),
    decoder=lambda provider, keep_raw: openai_chat_client.ChatDecoder(provider, keep_raw=keep_raw),
    whole=openai_chat_client.decode_completion,
    classify=vendor_errors.classify,
)


def chat(request: ChatRequest, account: Account) -> AbstractAsyncContextManager[ChatStream]:
    """Chat, streamed or whole; events carry the upstream's own JSON where the caller speaks this dialect."""
    return chat_call(CHAT, request, account)


def _is_text(response: HttpResponse) -> bool:
    """A page of a proxy or portal, or an error told with status 200."""
    name = (response.header(b"content-type") or b"").lower().partition(b";")[0].strip()
    return name.startswith(b"text/") or name.endswith((b"json", b"xml", b"html"))


class _WholeTranscript:
    def __init__(self, response: HttpResponse, account: Account, response_format: str, keep_raw: bool) -> None:
        self._response = response
        self._account = account
        self._format = response_format
        self._keep_raw = keep_raw

    async def receive(self) -> list[TranscribeEvent]:
        body = await self._response.read(_TRANSCRIPT_LIMIT)
        content_type = (self._response.header(b"content-type") or _JSON).decode("latin-1")
        made = openai_audio.decode_transcript(body, content_type, self._format, self._account.provider_id)
        return [made if self._keep_raw else msgspec.structs.replace(made, raw=None)]


class _StreamedTranscript(EventStream[TranscribeEvent]):
    def __init__(self, response: HttpResponse, provider: str, keep_raw: bool) -> None:
        super().__init__(response, provider, openai_audio.TranscriptDecoder(provider))
        self._keep_raw = keep_raw

    async def receive(self) -> list[TranscribeEvent]:
        events = await super().receive()
        return events if self._keep_raw else [msgspec.structs.replace(event, raw=None) for event in events]


def transcribe(request: TranscribeRequest, account: Account) -> HttpCall[TranscribeStream]:
    """`POST {base}/audio/transcriptions` (or translations) as a multipart form."""
    boundary = b"gw-" + secrets.token_hex(16).encode()
    head, tail = multipart.encode_form(
        openai_audio.transcription_fields(request, account.model),
        file_name=request.audio.filename,
        file_content_type=request.audio.content_type,
        boundary=boundary,
    )
    path = b"/audio/translations" if request.task == "translate" else b"/audio/transcriptions"
    headers = [
        (b"content-type", b"multipart/form-data; boundary=" + boundary),
        (b"accept", _SSE if request.stream else b"*/*"),
        *bearer(account.api_key),
    ]
    body = FormBody(head, request.audio, tail)
    keep_raw = request.dialect == "openai"

    def read(response: HttpResponse) -> TranscribeStream:
        if request.stream and is_type(response, _SSE):
            return _StreamedTranscript(response, account.provider_id, keep_raw)
        return _WholeTranscript(response, account, "json" if request.stream else request.response_format, keep_raw)

    return HttpCall(account, path, headers, body, vendor_errors.classify, read)


class _SpokenEvents(EventStream[SpeakEvent]):
    def __init__(self, response: HttpResponse, provider: str, asked: AudioFormat) -> None:
        super().__init__(response, provider, openai_audio.SpeechDecoder(provider))
        self.format = asked


def _delivered(asked: AudioFormat) -> AudioFormat:
    """OpenAI's dialect has one rate: 24 kHz mono for raw pcm and in containers we make sums about."""
    if asked.encoding == "pcm_s16le":
        return PCM_24K
    return AudioFormat(encoding=asked.encoding, sample_rate_hz=24_000 if asked.encoding == "wav" else 0)


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST {base}/audio/speech`; audio, or events when the caller asked for them and the answer is an event stream."""
    provider = account.provider_id

    def read(response: HttpResponse) -> SpeakStream:
        if is_type(response, _SSE):
            return _SpokenEvents(response, provider, _delivered(request.format))
        if _is_text(response):
            raise UpstreamProtocolError(provider=provider, detail="text where audio was expected")
        return SpokenAudio(response, provider, _delivered(request.format))

    body = openai_audio.speech_body(request, account.model, request.voice)
    headers = json_lines(bearer, account.api_key.reveal(), _SSE if request.want_events else b"*/*")
    return HttpCall(account, b"/audio/speech", headers, body, vendor_errors.classify, read)
