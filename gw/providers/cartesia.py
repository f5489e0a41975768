"""Cartesia: speech whole and live, transcription of recordings and live."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from gw.errors import ProviderRejected, UpstreamProtocolError, one_error
from gw.net.http1 import HttpResponse
from gw.net.prewarm import open_warm
from gw.net.ws import WebSocket
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
from gw.providers.ws_session import ListeningUntilClosed, ListenSocket, SpeakSocket, send
from gw.types.audio import AudioFormat
from gw.types.secret import Secret
from gw.types.stt import ListenRequest, TranscribeEvent, TranscribeRequest
from gw.types.tts import SpeakEvent, SpeakLiveRequest, SpeakRequest
from gw.wire import cartesia_listen, cartesia_speak, multipart, vendor_errors
from gw.wire.cartesia_context import CartesiaSpeaker
from gw.wire.cartesia_listen import CartesiaListener, silence
from gw.wire.cartesia_turns import TurnsListener

_VERSION = b"2026-03-01"
_TRANSCRIPT_LIMIT = 25 * 1024 * 1024
_RAW = frozenset({"pcm_s16le", "pcm_f32le", "mulaw", "alaw"})
_SSE = b"text/event-stream"
_WATCH_S = 0.5
_DANGLING_S = 0.5
"""A turn in which no audio comes for so long is given silence, or it would never end."""
_IDLE_S = 60.0
"""The vendor closes a transcription that hears nothing for three minutes."""
_SILENCE_S = 0.02


def key_headers(key: Secret) -> list[tuple[bytes, bytes]]:
    """The key, and the version of the API that our codec speaks."""
    version = (b"cartesia-version", _VERSION)
    return [version, (b"x-api-key", key.reveal().encode())] if key else [version]


def _has_voice(voice: str, account: Account) -> None:
    """Raises ProviderRejected: another candidate may have a voice of its own."""
    if not voice:
        detail = "no voice: set default_voice of the model"
        raise ProviderRejected(provider=account.provider_id, upstream_status=400, fault="candidate", detail=detail)


class _SpokenEvents(EventStream[SpeakEvent]):
    def __init__(self, response: HttpResponse, request: SpeakRequest, account: Account) -> None:
        decoder = cartesia_speak.SpeechDecoder(
            account.provider_id, keep_raw=request.dialect == "cartesia", secrets=(account.api_key.reveal(),)
        )
        super().__init__(response, account.provider_id, decoder)
        self.format = request.format


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST /tts/bytes`, streamed while it is made; `POST /tts/sse` where the caller wants to know when words are heard."""
    _has_voice(request.voice, account)
    as_events = cartesia_speak.wants_events(request)
    provider = account.provider_id

    def read(response: HttpResponse) -> SpeakStream:
        if as_events != is_type(response, _SSE):
            raise UpstreamProtocolError(provider=provider, detail="not the kind of answer that was asked for")
        if as_events:
            return _SpokenEvents(response, request, account)
        if is_type(response, b"text/") or is_type(response, b"application/json"):
            raise UpstreamProtocolError(provider=provider, detail="text where audio was expected")
        return SpokenAudio(response, provider, request.format)

    headers = json_lines(key_headers, account.api_key.reveal())
    body = cartesia_speak.body(request, account.model)
    path = b"/tts/sse" if as_events else b"/tts/bytes"
    return HttpCall(account, path, headers, body, vendor_errors.classify_cartesia, read)


class _Speech(SpeakSocket):
    """A `SpeakSocket` some of whose answers come from no frame: the wait for one is broken off for them."""

    def __init__(self, ws: WebSocket, wire: CartesiaSpeaker, account: Account, request: SpeakLiveRequest) -> None:
        super().__init__(ws, wire, account.provider_id, request.format)
        self._speaker = wire
        self._waiting = trio.CancelScope()

    async def flush(self) -> None:
        await super().flush()
        self._wake()

    async def clear(self) -> None:
        await super().clear()
        self._wake()

    async def finish(self) -> None:
        await super().finish()
        self._wake()

    def _wake(self) -> None:
        if self._speaker.due:
            self._waiting.cancel()

    async def receive(self) -> list[SpeakEvent]:
        while not self._speaker.due:
            with trio.CancelScope() as self._waiting:
                return await super().receive()
        events, self._speaker.due = self._speaker.due, []
        return events


@asynccontextmanager
async def speak_live(request: SpeakLiveRequest, account: Account) -> AsyncIterator[SpeakSession]:
    """`WS /tts/websocket`, one context after the other."""
    _has_voice(request.voice, account)
    provider = account.provider_id
    wire = CartesiaSpeaker(provider, request, account.model, (account.api_key.reveal(),))
    headers = key_headers(account.api_key)
    connect, path = account.pool.connect, b"/tts/websocket"
    async with open_warm(account.spares, provider, account.origin, path, headers=headers, connect=connect) as ws:
        yield _Speech(ws, wire, account, request)


class _Transcript:
    def __init__(self, response: HttpResponse, provider: str, keep_raw: bool) -> None:
        self._response = response
        self._provider = provider
        self._keep_raw = keep_raw

    async def receive(self) -> list[TranscribeEvent]:
        body = await self._response.read(_TRANSCRIPT_LIMIT)
        return [cartesia_listen.decode_transcript(body, self._provider, keep_raw=self._keep_raw)]


def transcribe(request: TranscribeRequest, account: Account) -> HttpCall[TranscribeStream]:
    """`POST /stt` as a multipart form."""
    boundary = b"gw-" + secrets.token_hex(16).encode()
    head, tail = multipart.encode_form(
        cartesia_listen.form_fields(request, account.model),
        file_name=request.audio.filename,
        file_content_type=request.audio.content_type,
        boundary=boundary,
    )
    headers = [(b"content-type", b"multipart/form-data; boundary=" + boundary), *key_headers(account.api_key)]
    path = cartesia_listen.path_of(request).encode()
    body = FormBody(head, request.audio, tail)
    read = partial(_Transcript, provider=account.provider_id, keep_raw=request.dialect == "cartesia")
    return HttpCall(account, path, headers, body, vendor_errors.classify_cartesia, read)


async def _keep_alive(
    ws: WebSocket, session: ListenSocket, wire: CartesiaListener | TurnsListener, provider: str, fmt: AudioFormat
) -> None:
    """Silence where nothing else is sent, as far as the vendor needs it. Its failure ends the session."""
    while not wire.finishing:
        await trio.sleep(_WATCH_S)
        idle_s = trio.current_time() - session.sent_at
        if not wire.finishing and idle_s >= (_DANGLING_S if wire.speaking else _IDLE_S):
            session.sent_at = trio.current_time()
            await send(ws, provider, silence(fmt, idle_s if wire.speaking else _SILENCE_S))


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`WS /stt/turns/websocket` where the model finds the ends of turns and the caller has none of the vendor's own words
    for them; else `WS /stt/websocket`.
    """
    provider, model, secret = account.provider_id, account.model, account.api_key.reveal()
    by_turns = cartesia_listen.asks_by_turns(request, model)
    path = cartesia_listen.live_path(request, model, turns=by_turns)
    headers, connect = key_headers(account.api_key), account.pool.connect
    async with open_ws(provider, account.origin, path.encode(), headers=headers, connect=connect) as ws:
        wire: TurnsListener | CartesiaListener
        if by_turns:
            wire = TurnsListener(provider, request, (secret,))
            session: ListenSocket = ListeningUntilClosed(ws, wire, provider)
        else:
            wire = CartesiaListener(provider, request, model, (secret,))
            session = ListenSocket(ws, wire, provider)
        with one_error():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_keep_alive, ws, session, wire, provider, request.format)
                yield session
                nursery.cancel_scope.cancel()


SPEC = ProviderSpec(
    type="cartesia",
    base_url="https://api.cartesia.ai",
    dialect="cartesia",
    transcribe=transcribe,
    listen=listen,
    speak=speak,
    speak_live=speak_live,
    health_path="/voices?limit=1",
    key_headers=key_headers,
    speak_formats=_RAW | {"wav", "mp3"},
    speak_rates_hz=cartesia_speak.RATES_HZ,
    speak_live_formats=_RAW,
    listen_formats=_RAW,
    reported=frozenset(),
)
