"""ElevenLabs: speech whole and live, transcription of recordings and live."""

from __future__ import annotations

import math
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import trio

from gw.errors import ProviderError, ProviderRejected, UpstreamCut, UpstreamProtocolError, one_error
from gw.net.http1 import HttpResponse
from gw.net.prewarm import open_warm
from gw.net.ws import WebSocket, WsClosed
from gw.net.ws_dial import open_ws
from gw.providers.event_stream import EventStream
from gw.providers.http_call import HttpCall, is_type, json_lines
from gw.providers.spec import (
    Account,
    ListenSession,
    ProviderSpec,
    SpeakSession,
    SpeakStream,
    TranscribeStream,
)
from gw.providers.speech_call import FormBody, SpokenAudio
from gw.providers.ws_session import ListenSocket, send, why_closed
from gw.types.audio import AudioFormat
from gw.types.pending import Pending
from gw.types.secret import Secret
from gw.types.stt import ListenEvent, ListenRequest, TranscribeEvent, TranscribeRequest
from gw.types.tts import SpeakEvent, SpeakLiveRequest, SpeakRequest
from gw.wire import elevenlabs_listen, elevenlabs_scribe, elevenlabs_speak, elevenlabs_tts_client, multipart
from gw.wire.elevenlabs_errors import close_error
from gw.wire.elevenlabs_scribe import ScribeListener
from gw.wire.elevenlabs_tts_client import ElevenSpeaker
from gw.wire.vendor_errors import classify_elevenlabs

_TRANSCRIPT_LIMIT = 25 * 1024 * 1024
_RAW = frozenset({"pcm_s16le", "mulaw", "alaw"})
_KEEP_ALIVE_S = 10.0
"""A speech context that is told nothing is closed after 20 s unless asked otherwise, a transcription sooner or later."""
_QUIET_S = 1.0
"""After the last commit's answer: the vendor has no word for the end, and answers to its own commits may still come."""


def key_headers(key: Secret) -> list[tuple[bytes, bytes]]:
    return [(b"xi-api-key", key.reveal().encode())] if key else []


class _Timed(EventStream[SpeakEvent]):
    """Lines of JSON with audio and times."""

    def __init__(self, response: HttpResponse, provider: str, fmt: AudioFormat) -> None:
        super().__init__(response, provider, elevenlabs_speak.TimedDecoder(provider))
        self.format = fmt


def _has_voice(voice: str, account: Account) -> None:
    """Raises ProviderRejected: another candidate may have a voice of its own."""
    if not voice:
        raise _not_here(account, "no voice: set default_voice of the model")


def _not_here(account: Account, detail: str) -> ProviderRejected:
    return ProviderRejected(provider=account.provider_id, upstream_status=400, fault="candidate", detail=detail)


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST /v1/text-to-speech/{voice}/stream`, with timestamps where the caller wants them."""
    _has_voice(request.voice, account)
    provider, fmt = account.provider_id, elevenlabs_speak.sent_for(request.format)

    def read(response: HttpResponse) -> SpeakStream:
        if request.want_timings:
            return _Timed(response, provider, fmt)
        if is_type(response, b"text/") or is_type(response, b"application/json"):
            raise UpstreamProtocolError(provider=provider, detail="text where audio was expected")
        return SpokenAudio(response, provider, fmt)

    path = elevenlabs_speak.http_path(request).encode()
    headers = json_lines(key_headers, account.api_key.reveal())
    body = elevenlabs_speak.body(request, account.model)
    return HttpCall(account, path, headers, body, classify_elevenlabs, read)


def _why_closed(provider: str, closed: WsClosed) -> ProviderError:
    return close_error(provider, closed.reason) or why_closed(provider, closed)


class _Speaking:
    """A `SpeakSession`. Both tasks may have frames to send, so the wire queues them and whoever holds the lock sends."""

    def __init__(self, ws: WebSocket, wire: ElevenSpeaker, provider: str) -> None:
        self.format = wire.format
        self.sent_at = trio.current_time()
        self._ws = ws
        self._wire = wire
        self._provider = provider
        self._sending = trio.Lock()
        self._waiting = trio.CancelScope()

    async def send_text(self, text: str) -> None:
        if text:
            self._wire.text(text)
        await self._send()

    async def flush(self) -> None:
        self._wire.flush()
        await self._send()

    async def clear(self) -> None:
        self._wire.clear()
        await self._send()

    async def send_frame(self, frame: str) -> None:
        """Frames of a caller name contexts of its own socket: they are not ours to send."""
        await trio.lowlevel.checkpoint()

    async def finish(self) -> None:
        self._wire.finish()
        await self._send()

    async def keep_alive(self) -> None:
        self._wire.keep_alive()
        await self._send()

    async def _send(self) -> None:
        if self._wire.due:  # an answer that no frame brings: the wait for one is broken off
            self._waiting.cancel()
        async with self._sending:
            while (frame := self._wire.next_frame()) is not None:
                self.sent_at = trio.current_time()
                await send(self._ws, self._provider, frame)

    async def receive(self) -> list[SpeakEvent]:
        while True:
            if self._wire.due:
                events, self._wire.due = self._wire.due, []
                return events
            if self._wire.ended:
                raise UpstreamCut(provider=self._provider, detail="read past the end of the session")
            with trio.CancelScope() as self._waiting:
                try:
                    frame = await self._ws.receive()
                except WsClosed as closed:
                    raise _why_closed(self._provider, closed) from None
            if self._waiting.cancelled_caught:
                continue
            events = self._wire.receive(frame)
            await self._send()
            if events:
                return events


@asynccontextmanager
async def speak_live(request: SpeakLiveRequest, account: Account) -> AsyncIterator[SpeakSession]:
    """`WS /v1/text-to-speech/{voice}/multi-stream-input`, one context after the other."""
    _has_voice(request.voice, account)
    if not elevenlabs_tts_client.is_offered(account.model):
        raise _not_here(account, "this model does not speak live")
    provider = account.provider_id
    path = elevenlabs_tts_client.path_of(request, account.model).encode()
    headers = key_headers(account.api_key)
    connect = account.pool.connect
    async with open_warm(account.spares, provider, account.origin, path, headers=headers, connect=connect) as ws:
        session = _Speaking(ws, ElevenSpeaker(provider, request, (account.api_key.reveal(),)), provider)
        async with _kept_alive(lambda: session.sent_at, session.keep_alive):
            yield session


@asynccontextmanager
async def _kept_alive(sent_at: Callable[[], float], keep_alive: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Say something when nothing has been said for a while. Its failure ends the session."""

    async def watch() -> None:
        while True:
            await trio.sleep_until(sent_at() + _KEEP_ALIVE_S)
            if trio.current_time() >= sent_at() + _KEEP_ALIVE_S:
                await keep_alive()

    with one_error():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            yield
            nursery.cancel_scope.cancel()


class _Transcript:
    def __init__(self, response: HttpResponse, provider: str, keep_raw: bool) -> None:
        self._response = response
        self._provider = provider
        self._keep_raw = keep_raw

    async def receive(self) -> list[TranscribeEvent]:
        body = await self._response.read(_TRANSCRIPT_LIMIT)
        return [elevenlabs_listen.decode_transcript(body, self._provider, keep_raw=self._keep_raw)]


def transcribe(request: TranscribeRequest, account: Account) -> HttpCall[TranscribeStream]:
    """`POST /v1/speech-to-text` as a multipart form."""
    boundary = b"gw-" + secrets.token_hex(16).encode()
    head, tail = multipart.encode_form(
        elevenlabs_listen.form_fields(request, account.model),
        file_name=request.audio.filename,
        file_content_type=request.audio.content_type,
        boundary=boundary,
    )
    headers = [(b"content-type", b"multipart/form-data; boundary=" + boundary), *key_headers(account.api_key)]
    body = FormBody(head, request.audio, tail)
    read = partial(_Transcript, provider=account.provider_id, keep_raw=request.dialect == "elevenlabs")
    return HttpCall(account, b"/v1/speech-to-text", headers, body, classify_elevenlabs, read)


class _Listening(ListenSocket):
    """A `ListenSocket` whose end is a silence of the vendor's."""

    def __init__(self, ws: WebSocket, wire: ScribeListener, provider: str) -> None:
        super().__init__(ws, wire, provider)
        self._scribe = wire

    async def keep_alive(self) -> None:
        self.sent_at = trio.current_time()
        await send(self._ws, self._provider, self._scribe.keep_alive())

    async def receive(self) -> list[ListenEvent]:
        if self._scribe.ended:
            raise UpstreamCut(provider=self._provider, detail="read past the end of the session")
        while True:
            try:
                with trio.move_on_after(_QUIET_S if self._scribe.may_end else math.inf) as waiting:
                    frame = await self._ws.receive()
            except WsClosed as closed:
                if self._scribe.may_end and closed.code in (1000, 1005):
                    return self._scribe.quiet()
                raise _why_closed(self._provider, closed) from None
            if waiting.cancelled_caught:
                return self._scribe.quiet()
            if events := self._scribe.receive(frame):
                return events

    async def each(self, take: Callable[[list[ListenEvent]], Pending]) -> None:
        while not self._scribe.ended:
            if (rest := take(await self.receive())) is not None:
                await rest


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`WS /v1/speech-to-text/realtime`, kept alive while nobody speaks."""
    provider = account.provider_id
    wire = ScribeListener(provider, request, (account.api_key.reveal(),))
    path = elevenlabs_scribe.path_of(request, account.model).encode()
    headers = key_headers(account.api_key)
    async with open_ws(provider, account.origin, path, headers=headers, connect=account.pool.connect) as ws:
        session = _Listening(ws, wire, provider)
        async with _kept_alive(lambda: session.sent_at, session.keep_alive):
            yield session


SPEC = ProviderSpec(
    type="elevenlabs",
    base_url="https://api.elevenlabs.io",
    dialect="elevenlabs",
    transcribe=transcribe,
    listen=listen,
    speak=speak,
    speak_live=speak_live,
    health_path="/v1/user/subscription",
    key_headers=key_headers,
    speak_formats=_RAW | {"mp3", "opus", "ogg"},
    speak_rates_hz=elevenlabs_speak.RATES_HZ,
    speak_live_formats=_RAW | {"mp3"},
    listen_formats=frozenset({"pcm_s16le"}),
    listen_rates_hz=elevenlabs_listen.RATES_HZ,
    reported=frozenset({"transcribe"}),
)
