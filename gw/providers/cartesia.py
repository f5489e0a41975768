"""Cartesia: speech whole and live, transcription of recordings and live."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gw.errors import UpstreamProtocolError
from gw.net.http1 import Response
from gw.net.ws import open_ws
from gw.providers.chat_call import is_type, rejection
from gw.providers.live_call import Listening, Speaking
from gw.providers.spec import (
    Account,
    ListenSession,
    ProviderSpec,
    SpeakSession,
    SpeakStream,
    TranscribeStream,
)
from gw.providers.speech_call import FormBody, SpokenAudio
from gw.types.secret import Secret
from gw.types.stt import ListenRequest, TranscribeEvent, TranscribeRequest
from gw.types.tts import SpeakLiveRequest, SpeakRequest
from gw.wire import cartesia_errors, cartesia_listen, cartesia_speak, multipart

_VERSION = b"2026-03-01"
_TRANSCRIPT_LIMIT = 25 * 1024 * 1024
_RAW = frozenset({"pcm_s16le", "pcm_f32le", "mulaw", "alaw"})


def key_headers(key: Secret) -> list[tuple[bytes, bytes]]:
    """The key, and the version of the API that our codec speaks."""
    version = (b"cartesia-version", _VERSION)
    return [version, (b"x-api-key", key.reveal().encode())] if key else [version]


@asynccontextmanager
async def speak(request: SpeakRequest, account: Account) -> AsyncIterator[SpeakStream]:
    """`POST /tts/bytes`, streamed while it is made."""
    headers = [(b"content-type", b"application/json"), *key_headers(account.api_key)]
    body = cartesia_speak.body(request, account.model)
    provider, pool = account.provider_id, account.pool
    async with pool.open(provider, b"POST", account.origin, b"/tts/bytes", headers, body) as response:
        if response.status != 200:
            raise await rejection(response, account, cartesia_errors.classify)
        if is_type(response, b"text/") or is_type(response, b"application/json"):
            raise UpstreamProtocolError(provider=provider, detail="text where audio was expected")
        yield SpokenAudio(response, provider, request.format)
        await response.finish()


@asynccontextmanager
async def speak_live(request: SpeakLiveRequest, account: Account) -> AsyncIterator[SpeakSession]:
    """`WS /tts/websocket`, one context."""
    provider = account.provider_id
    wire = cartesia_speak.CartesiaSpeaker(provider, request, account.model, (account.api_key.reveal(),))
    headers = key_headers(account.api_key)
    connect = account.pool.connect
    async with open_ws(provider, account.origin, b"/tts/websocket", headers=headers, connect=connect) as ws:
        yield Speaking(ws, wire, provider, request.format)


class _Transcript:
    def __init__(self, response: Response, provider: str, keep_raw: bool) -> None:
        self._response = response
        self._provider = provider
        self._keep_raw = keep_raw

    async def receive(self) -> list[TranscribeEvent]:
        body = await self._response.read(_TRANSCRIPT_LIMIT)
        return [cartesia_listen.decode_transcript(body, self._provider, keep_raw=self._keep_raw)]


@asynccontextmanager
async def transcribe(request: TranscribeRequest, account: Account) -> AsyncIterator[TranscribeStream]:
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
    provider, pool = account.provider_id, account.pool
    async with pool.open(provider, b"POST", account.origin, path, headers, body) as response:
        if response.status != 200:
            raise await rejection(response, account, cartesia_errors.classify)
        yield _Transcript(response, provider, request.dialect == "cartesia")


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`WS /stt/websocket`."""
    provider = account.provider_id
    wire = cartesia_listen.CartesiaListener(
        provider, request.format, keep_raw=request.dialect == "cartesia", secrets=(account.api_key.reveal(),)
    )
    path = cartesia_listen.live_path(request, account.model).encode()
    headers = key_headers(account.api_key)
    async with open_ws(provider, account.origin, path, headers=headers, connect=account.pool.connect) as ws:
        yield Listening(ws, wire, provider)


SPEC = ProviderSpec(
    type="cartesia",
    location="cloud",
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
)
