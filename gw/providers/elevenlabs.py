"""ElevenLabs: speech whole and live, transcription of recordings and live."""

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
from gw.types.audio import AudioFormat
from gw.types.secret import Secret
from gw.types.stt import ListenRequest, TranscribeEvent, TranscribeRequest
from gw.types.tts import SpeakEvent, SpeakLiveRequest, SpeakRequest
from gw.wire import elevenlabs_listen, elevenlabs_live, elevenlabs_speak, multipart

_TRANSCRIPT_LIMIT = 25 * 1024 * 1024
_RAW = frozenset({"pcm_s16le", "mulaw", "alaw"})


def key_headers(key: Secret) -> list[tuple[bytes, bytes]]:
    return [(b"xi-api-key", key.reveal().encode())] if key else []


class _Timed:
    """Lines of JSON with audio and times."""

    def __init__(self, response: Response, provider: str, fmt: AudioFormat) -> None:
        self.format = fmt
        self._response = response
        self._decoder = elevenlabs_speak.TimedDecoder(provider)

    async def receive(self) -> list[SpeakEvent]:
        while True:
            data = await self._response.receive_some()
            events = self._decoder.feed(data) if data else self._decoder.end()
            if events:
                return events


@asynccontextmanager
async def speak(request: SpeakRequest, account: Account) -> AsyncIterator[SpeakStream]:
    """`POST /v1/text-to-speech/{voice}/stream`, with timestamps where the caller wants them."""
    path = elevenlabs_speak.http_path(request).encode()
    headers = [(b"content-type", b"application/json"), *key_headers(account.api_key)]
    body = elevenlabs_speak.body(request, account.model)
    provider, pool = account.provider_id, account.pool
    async with pool.open(provider, b"POST", account.origin, path, headers, body) as response:
        if response.status != 200:
            raise await rejection(response, account, elevenlabs_speak.classify)
        if request.want_timings:
            yield _Timed(response, provider, request.format)
        elif is_type(response, b"text/") or is_type(response, b"application/json"):
            raise UpstreamProtocolError(provider=provider, detail="text where audio was expected")
        else:
            yield SpokenAudio(response, provider, request.format)
        await response.finish()


@asynccontextmanager
async def speak_live(request: SpeakLiveRequest, account: Account) -> AsyncIterator[SpeakSession]:
    """`WS /v1/text-to-speech/{voice}/multi-stream-input`, one context."""
    provider = account.provider_id
    wire = elevenlabs_live.ElevenSpeaker(provider, request, (account.api_key.reveal(),))
    path = elevenlabs_live.path_of(request, account.model).encode()
    headers = key_headers(account.api_key)
    async with open_ws(provider, account.origin, path, headers=headers, connect=account.pool.connect) as ws:
        yield Speaking(ws, wire, provider, request.format)


class _Transcript:
    def __init__(self, response: Response, provider: str, keep_raw: bool) -> None:
        self._response = response
        self._provider = provider
        self._keep_raw = keep_raw

    async def receive(self) -> list[TranscribeEvent]:
        body = await self._response.read(_TRANSCRIPT_LIMIT)
        return [elevenlabs_listen.decode_transcript(body, self._provider, keep_raw=self._keep_raw)]


@asynccontextmanager
async def transcribe(request: TranscribeRequest, account: Account) -> AsyncIterator[TranscribeStream]:
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
    provider, pool = account.provider_id, account.pool
    async with pool.open(provider, b"POST", account.origin, b"/v1/speech-to-text", headers, body) as response:
        if response.status != 200:
            raise await rejection(response, account, elevenlabs_speak.classify)
        yield _Transcript(response, provider, request.dialect == "elevenlabs")


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`WS /v1/speech-to-text/realtime`."""
    provider = account.provider_id
    wire = elevenlabs_listen.ElevenListener(
        provider, request, keep_raw=request.dialect == "elevenlabs", secrets=(account.api_key.reveal(),)
    )
    path = elevenlabs_listen.live_path(request, account.model).encode()
    headers = key_headers(account.api_key)
    async with open_ws(provider, account.origin, path, headers=headers, connect=account.pool.connect) as ws:
        yield Listening(ws, wire, provider)


SPEC = ProviderSpec(
    type="elevenlabs",
    location="cloud",
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
    listen_formats=frozenset({"pcm_s16le", "mulaw"}),
    listen_rates_hz=elevenlabs_listen.RATES_HZ,
)
