"""The I/O every vendor of OpenAI's dialect shares. Not itself a provider."""

from __future__ import annotations

import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from types import TracebackType

from gw.errors import ProviderError, UpstreamCut, UpstreamProtocolError
from gw.net.http1 import Response, header_lines
from gw.providers.spec import Account, ChatStream, SpeakStream, TranscribeStream, bearer
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.llm import ChatEnd, ChatEvent, ChatRequest, Completion, Delta, UsageReport
from gw.types.secret import Secret
from gw.types.stt import AudioSource, TranscribeEvent, TranscribeRequest
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakRequest
from gw.wire import multipart, openai_audio, openai_chat, openai_errors, wav

_JSON = b"application/json"
_SSE = b"text/event-stream"
_ERROR_LIMIT = 64 * 1024
_TRANSCRIPT_LIMIT = 25 * 1024 * 1024


def _headers(account: Account, content_type: bytes, accept: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", content_type), (b"accept", accept), *bearer(account.api_key)]


@lru_cache(maxsize=1_024)
def _chat_headers(key: str, accept: bytes) -> bytes:
    return header_lines([(b"content-type", _JSON), (b"accept", accept), *bearer(Secret(key))])


async def _rejection(response: Response, account: Account) -> ProviderError:
    try:
        body = await response.read(_ERROR_LIMIT)
    except ProviderError:
        body = b""
    return openai_errors.classify(
        account.provider_id,
        response.status,
        response.header(b"retry-after"),
        body,
        (account.api_key.reveal(),),
        response.header(b"date"),
    )


def _is(response: Response, media_type: bytes) -> bool:
    return (response.header(b"content-type") or b"").lower().startswith(media_type)


def _is_text(response: Response) -> bool:
    """A page of a proxy or portal, or an error told with status 200."""
    name = (response.header(b"content-type") or b"").lower().partition(b";")[0].strip()
    return name.startswith(b"text/") or name.endswith((b"json", b"xml", b"html"))


def _past_the_end(provider: str) -> UpstreamCut:
    return UpstreamCut(provider=provider, detail="read past the end of the answer")


class _StreamedChat:
    def __init__(self, response: Response, provider: str) -> None:
        self._response = response
        self._provider = provider
        self._decoder = openai_chat.ChatDecoder(provider)

    async def receive(self) -> list[ChatEvent]:
        while True:
            data = await self._response.receive_some()
            events = self._decoder.feed(data) if data else self._decoder.end()
            if events:
                return events
            if not data:
                raise _past_the_end(self._provider)


class _WholeChat:
    """An unstreamed answer; to a caller that asked for a stream it is handed out as one."""

    def __init__(self, response: Response, provider: str, *, as_stream: bool) -> None:
        self._response = response
        self._provider = provider
        self._as_stream = as_stream
        self._done = False

    async def receive(self) -> list[ChatEvent]:
        if self._done:
            raise _past_the_end(self._provider)
        self._done = True
        completion = openai_chat.decode_completion(await self._response.read(), self._provider)
        return _as_stream(completion) if self._as_stream else [completion]


def _as_stream(completion: Completion) -> list[ChatEvent]:
    events: list[ChatEvent] = [
        Delta(
            text=completion.text,
            refusal=completion.refusal,
            tool_calls=completion.tool_calls,
            finish_reason=completion.finish_reason or "stop",
        )
    ]
    if completion.usage is not None:
        events.append(UsageReport(usage=completion.usage))
    return [*events, ChatEnd()]


class _ChatCall(AbstractAsyncContextManager[ChatStream]):
    """`POST {base}/chat/completions`. A class and not a generator: this is the call that is made most."""

    __slots__ = ("_account", "_exchange", "_request", "_streamed")

    def __init__(self, request: ChatRequest, account: Account) -> None:
        self._request = request
        self._account = account
        self._streamed: Response | None = None

    async def __aenter__(self) -> ChatStream:
        request, account = self._request, self._account
        headers = _chat_headers(account.api_key.reveal(), _SSE if request.stream else _JSON)
        body = openai_chat.upstream_body(request, account.model)
        provider = account.provider_id
        self._exchange = account.pool.open(provider, b"POST", account.origin, b"/chat/completions", headers, body)
        response = await self._exchange.__aenter__()
        if response.status != 200:
            try:
                raise await _rejection(response, account)
            except BaseException:
                await self._exchange.__aexit__(*sys.exc_info())
                raise
        if request.stream and _is(response, _SSE):
            self._streamed = response
            return _StreamedChat(response, provider)
        return _WholeChat(response, provider, as_stream=request.stream)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None and self._streamed is not None:
                await self._streamed.finish()  # the answer was read to its end; keeps the connection
        finally:
            await self._exchange.__aexit__(kind, error, trace)


def chat(request: ChatRequest, account: Account) -> AbstractAsyncContextManager[ChatStream]:
    """Chat, streamed or whole; events carry the upstream's own JSON."""
    return _ChatCall(request, account)


class _FormBody:
    """A multipart form around an audio source: read in pieces, its length known beforehand."""

    def __init__(self, head: bytes, audio: AudioSource, tail: bytes) -> None:
        self._head = head
        self._audio = audio
        self._tail = tail
        self.size = len(head) + audio.size + len(tail)

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._head
        async for piece in self._audio.chunks():
            yield piece
        yield self._tail


class _WholeTranscript:
    def __init__(self, response: Response, account: Account, response_format: str) -> None:
        self._response = response
        self._account = account
        self._format = response_format

    async def receive(self) -> list[TranscribeEvent]:
        body = await self._response.read(_TRANSCRIPT_LIMIT)
        content_type = (self._response.header(b"content-type") or _JSON).decode("latin-1")
        return [openai_audio.decode_transcript(body, content_type, self._format, self._account.provider_id)]


class _StreamedTranscript:
    def __init__(self, response: Response, provider: str) -> None:
        self._response = response
        self._provider = provider
        self._decoder = openai_audio.TranscriptDecoder(provider)

    async def receive(self) -> list[TranscribeEvent]:
        while True:
            data = await self._response.receive_some()
            if not data:
                raise UpstreamCut(provider=self._provider, detail="the stream ended without transcript.text.done")
            if events := self._decoder.feed(data):
                return events


@asynccontextmanager
async def transcribe(request: TranscribeRequest, account: Account) -> AsyncIterator[TranscribeStream]:
    """`POST {base}/audio/transcriptions` (or translations) as a multipart form."""
    boundary = b"gw-" + secrets.token_hex(16).encode()
    head, tail = multipart.encode_form(
        openai_audio.transcription_fields(request, account.model),
        file_name=request.audio.filename,
        file_content_type=request.audio.content_type,
        boundary=boundary,
    )
    path = b"/audio/translations" if request.task == "translate" else b"/audio/transcriptions"
    headers = _headers(account, b"multipart/form-data; boundary=" + boundary, _SSE if request.stream else b"*/*")
    body = _FormBody(head, request.audio, tail)
    async with account.pool.open(account.provider_id, b"POST", account.origin, path, headers, body) as response:
        if response.status != 200:
            raise await _rejection(response, account)
        if request.stream and _is(response, _SSE):
            yield _StreamedTranscript(response, account.provider_id)
            await response.finish()
        else:
            yield _WholeTranscript(response, account, "json" if request.stream else request.response_format)


class _SpokenAudio:
    """The body is the audio. Its first bytes tell a WAV's real rate."""

    def __init__(self, response: Response, provider: str, asked: AudioFormat) -> None:
        self._response = response
        self._provider = provider
        self._seen = 0
        self.format = asked

    async def receive(self) -> list[SpeakEvent]:
        data = await self._response.receive_some()
        if not data:
            if not self._seen:
                raise UpstreamProtocolError(provider=self._provider, detail="empty answer")
            return [SpeakEnd()]
        if not self._seen and self.format.encoding == "wav" and (info := wav.parse(data)) is not None:
            self.format = info.format
        self._seen += len(data)
        return [AudioChunk(data=data)]


class _SpokenEvents:
    def __init__(self, response: Response, provider: str, asked: AudioFormat) -> None:
        self._response = response
        self._provider = provider
        self._decoder = openai_audio.SpeechDecoder(provider)
        self.format = asked

    async def receive(self) -> list[SpeakEvent]:
        while True:
            data = await self._response.receive_some()
            if not data:
                raise UpstreamCut(provider=self._provider, detail="the stream ended without speech.audio.done")
            if events := self._decoder.feed(data):
                return events


def _delivered(asked: AudioFormat) -> AudioFormat:
    """OpenAI's dialect has one rate: 24 kHz mono for raw pcm and in containers we make sums about."""
    if asked.encoding == "pcm_s16le":
        return PCM_24K
    return AudioFormat(encoding=asked.encoding, sample_rate_hz=24_000 if asked.encoding == "wav" else 0)


@asynccontextmanager
async def speak(request: SpeakRequest, account: Account) -> AsyncIterator[SpeakStream]:
    """`POST {base}/audio/speech`; audio, or events when the caller asked for them and the answer is an event stream."""
    body = openai_audio.speech_body(request, account.model, request.voice)
    headers = _headers(account, _JSON, _SSE if request.want_events else b"*/*")
    async with account.pool.open(
        account.provider_id, b"POST", account.origin, b"/audio/speech", headers, body
    ) as response:
        if response.status != 200:
            raise await _rejection(response, account)
        as_events = _is(response, _SSE)
        if not as_events and _is_text(response):
            raise UpstreamProtocolError(provider=account.provider_id, detail="text where audio was expected")
        stream = _SpokenEvents if as_events else _SpokenAudio
        yield stream(response, account.provider_id, _delivered(request.format))
        await response.finish()
