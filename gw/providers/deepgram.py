"""Deepgram: transcription of recordings and live, speech whole and live."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import trio

from gw.errors import UpstreamProtocolError, one_error
from gw.net.http1 import HttpResponse
from gw.net.prewarm import open_warm
from gw.net.ws_dial import open_ws
from gw.providers.http_call import HttpCall, is_type, json_lines
from gw.providers.spec import (
    Account,
    ListenSession,
    ProviderSpec,
    SpeakSession,
    SpeakStream,
    TranscribeStream,
)
from gw.providers.speech_call import SpokenAudio
from gw.providers.ws_session import ListeningUntilClosed, ListenSocket, SpeakSocket, send
from gw.types.secret import Secret
from gw.types.stt import ListenRequest, TranscribeEvent, TranscribeRequest
from gw.types.tts import SpeakLiveRequest, SpeakRequest
from gw.wire import (
    deepgram_batch,
    deepgram_flux_client,
    deepgram_flux_speak,
    deepgram_listen_client,
    deepgram_speak,
    vendor_errors,
)

_TRANSCRIPT_LIMIT = 25 * 1024 * 1024
_KEEP_ALIVE_S = 4.0
"""A session that hears nothing for ten seconds is closed by the vendor."""


def key_headers(key: Secret) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Token " + key.reveal().encode())] if key else []


class _Transcript:
    def __init__(self, response: HttpResponse, provider: str, keep_raw: bool) -> None:
        self._response = response
        self._provider = provider
        self._keep_raw = keep_raw

    async def receive(self) -> list[TranscribeEvent]:
        body = await self._response.read(_TRANSCRIPT_LIMIT)
        return [deepgram_batch.decode(body, self._provider, keep_raw=self._keep_raw)]


def transcribe(request: TranscribeRequest, account: Account) -> HttpCall[TranscribeStream]:
    """`POST /v1/listen`, the recording as the body."""
    path = deepgram_batch.path_of(request, account.model).encode()
    content_type = request.audio.content_type or "application/octet-stream"
    headers = [(b"content-type", content_type.encode()), (b"accept", b"application/json")]
    headers += key_headers(account.api_key)
    read = partial(_Transcript, provider=account.provider_id, keep_raw=request.dialect == "deepgram")
    return HttpCall(account, path, headers, request.audio, vendor_errors.classify_deepgram, read)


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST /v1/speak`, of Flux models `/v2/speak`, streamed while it is made."""
    provider = account.provider_id

    def read(response: HttpResponse) -> SpeakStream:
        if is_type(response, b"text/") or is_type(response, b"application/json"):
            raise UpstreamProtocolError(provider=provider, detail="text where audio was expected")
        return SpokenAudio(response, provider, request.format, b"dg-char-count")

    flux = deepgram_flux_speak.is_flux(account.model)
    path = (deepgram_flux_speak if flux else deepgram_speak).http_path(request, account.model).encode()
    headers = json_lines(key_headers, account.api_key.reveal())
    return HttpCall(account, path, headers, deepgram_speak.body(request), vendor_errors.classify_deepgram, read)


def listen(request: ListenRequest, account: Account) -> AbstractAsyncContextManager[ListenSession]:
    """The path follows from the model: those that listen by turns have one of their own."""
    return _listen_by_turns(request, account) if deepgram_flux_client.is_flux(account.model) else _listen(request, account)


@asynccontextmanager
async def _listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`WS /v1/listen`, kept alive while nobody speaks."""
    provider = account.provider_id
    same = request.dialect == "deepgram" and not deepgram_listen_client.by_turns(request)
    wire = deepgram_listen_client.DeepgramListener(provider, keep_raw=same, secrets=(account.api_key.reveal(),))
    path = deepgram_listen_client.path_of(request, account.model).encode()
    headers = key_headers(account.api_key)
    async with open_ws(provider, account.origin, path, headers=headers, connect=account.pool.connect) as ws:
        session = ListenSocket(ws, wire, provider)

        async def keep_alive() -> None:
            while True:
                await trio.sleep(_KEEP_ALIVE_S)
                if trio.current_time() - session.sent_at >= _KEEP_ALIVE_S:
                    await send(ws, provider, wire.keep_alive())

        with one_error():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(keep_alive)
                yield session
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def _listen_by_turns(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`WS /v2/listen`. It has no keep-alive: while nobody speaks, silence is to be sent."""
    provider = account.provider_id
    turns = deepgram_flux_client.FluxListener(
        provider,
        keep_raw=deepgram_listen_client.by_turns(request),
        interims=request.interim_results,
        secrets=(account.api_key.reveal(),),
    )
    path = deepgram_flux_client.path_of(request, account.model).encode()
    headers = key_headers(account.api_key)
    async with open_ws(provider, account.origin, path, headers=headers, connect=account.pool.connect) as ws:
        yield ListeningUntilClosed(ws, turns, provider)


@asynccontextmanager
async def speak_live(request: SpeakLiveRequest, account: Account) -> AsyncIterator[SpeakSession]:
    """`WS /v1/speak`, of Flux models `/v2/speak`."""
    provider, secrets = account.provider_id, (account.api_key.reveal(),)
    if deepgram_flux_speak.is_flux(account.model):
        wire: deepgram_speak.DeepgramSpeaker = deepgram_flux_speak.FluxSpeaker(provider, secrets=secrets)
        path = deepgram_flux_speak.live_path(request, account.model).encode()
    else:
        wire = deepgram_speak.DeepgramSpeaker(provider, keep_raw=request.dialect == "deepgram", secrets=secrets)
        path = deepgram_speak.live_path(request, account.model).encode()
    headers = key_headers(account.api_key)
    connect = account.pool.connect
    async with open_warm(account.spares, provider, account.origin, path, headers=headers, connect=connect) as ws:
        yield SpeakSocket(ws, wire, provider, request.format)


SPEC = ProviderSpec(
    type="deepgram",
    base_url="https://api.deepgram.com",
    dialect="deepgram",
    transcribe=transcribe,
    listen=listen,
    speak=speak,
    speak_live=speak_live,
    health_path="/v1/projects",
    key_headers=key_headers,
    speak_formats=frozenset({"pcm_s16le", "mulaw", "alaw", "wav", "mp3", "opus", "ogg", "aac", "flac"}),
    speak_rates_hz=frozenset({8_000, 16_000, 24_000, 32_000, 48_000}),
    speak_live_formats=frozenset({"pcm_s16le", "mulaw", "alaw"}),
    listen_formats=frozenset({"pcm_s16le", "pcm_f32le", "mulaw", "alaw", "flac", "opus", "ogg", "webm", "mp4", "unknown"}),
    reported=frozenset({"transcribe", "listen", "speak"}),
)
