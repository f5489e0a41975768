"""xAI's transcription and speech, in protocols of its own. Not itself a provider: the rest of the vendor is a file, in OpenAI's dialect."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import attrs

from gw.net.http1 import HttpResponse
from gw.net.ws import WsClosed
from gw.providers.http_call import HttpCall, json_lines
from gw.providers.recording_call import WholeTranscript, form_call
from gw.providers.spec import Account, Honours, ListenSession, ProviderSpec, SpeakSession, SpeakStream, bearer, rejected
from gw.providers.speech_call import SpeechAudio
from gw.providers.ws_session import ListenSocket, open_socket, why_closed
from gw.providers.ws_speech import FrameQueueSocket
from gw.types.speech_settings import (
    DIARIZE,
    KEYTERMS,
    LANGUAGE,
    RESPONSE_FORMAT,
    SEGMENT_TIMESTAMPS,
    SPEED,
    WORD_TIMESTAMPS,
)
from gw.types.stt import ListenRequest, TranscribeRequest
from gw.types.tts import SpeakLiveRequest, SpeakRequest
from gw.wire import vendor_errors, xai_listen, xai_speak
from gw.wire.xai_listen import XaiListenClient
from gw.wire.xai_speak import XaiSpeakClient


def transcribe(request: TranscribeRequest, account: Account) -> HttpCall[WholeTranscript]:
    """`POST /stt`: a form with the settings, and the recording last."""
    decode = partial(xai_listen.decode_recording, provider=account.provider_id)
    path, fields = xai_listen.PATH.encode(), xai_listen.form_fields(request, account.model)
    return form_call(account, path, bearer(account.api_key), fields, request.audio, vendor_errors.classify, decode)


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`WS /stt`. Audio may be sent once the vendor has created the transcript; channels are mixed into one."""
    provider = account.provider_id
    wire = XaiListenClient(provider, request, (account.api_key.reveal(),))
    path = xai_listen.live_path(request, account.model)
    async with open_socket(account, path, bearer(account.api_key)) as ws:
        session = ListenSocket(ws, wire, provider, xai_listen.pace_of(request))
        session.flush_padding_s = wire.flush_s
        while not wire.started:
            try:
                wire.receive(await ws.receive())
            except WsClosed as closed:
                raise why_closed(provider, closed) from None
        yield session


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST /tts`, streamed while it is made. Raises ProviderRejected for a model that the vendor does not have."""
    _require_model(account)

    def read(response: HttpResponse) -> SpeakStream:
        return SpeechAudio(response, account.provider_id, request.format)

    lines = json_lines(bearer, account)
    return HttpCall(account, xai_speak.PATH.encode(), lines, xai_speak.body(request), vendor_errors.classify, read)


def _require_model(account: Account) -> None:
    if account.model != xai_speak.MODEL:
        raise rejected(account, f"speech is made by the model {xai_speak.MODEL} only", status=404)


def _speak_socket(request: SpeakLiveRequest, account: Account) -> tuple[str, list[tuple[bytes, bytes]]]:
    return xai_speak.live_path(request), bearer(account.api_key)


@asynccontextmanager
async def speak_live(request: SpeakLiveRequest, account: Account) -> AsyncIterator[SpeakSession]:
    """`WS /tts`, one utterance after the other."""
    _require_model(account)
    provider = account.provider_id
    wire = XaiSpeakClient(provider, request, (account.api_key.reveal(),))
    async with open_socket(account, *_speak_socket(request, account), prewarmed=True) as ws:
        yield FrameQueueSocket(ws, wire, provider, request.format)


_LISTEN: Honours = {
    LANGUAGE: lambda request, account: xai_listen.takes_language(request.language),
    KEYTERMS: lambda request, account: xai_listen.takes_keyterms(request.keyterms), DIARIZE: True,
}  # fmt: skip
_SPEECH: Honours = {
    LANGUAGE: lambda request, account: xai_speak.language_of(request.language) is not None,
    SPEED: lambda request, account: xai_speak.takes_speed(request.speed),
}  # fmt: skip


def with_transcription(spec: ProviderSpec) -> ProviderSpec:
    """Return the spec with xAI's transcription."""
    recordings: Honours = {**_LISTEN, WORD_TIMESTAMPS: True, SEGMENT_TIMESTAMPS: True, RESPONSE_FORMAT: True}
    return attrs.evolve(
        spec, transcribe=transcribe, listen=listen, honours={**spec.honours, "transcribe": recordings, "listen": _LISTEN},
        listen_formats=frozenset(xai_listen.ENCODINGS), listen_rates_hz=xai_listen.RATES_HZ, reported=spec.reported | {"transcribe"},
    )


def with_speech(spec: ProviderSpec) -> ProviderSpec:
    """Return the spec with xAI's speech."""
    return attrs.evolve(
        spec, speak=speak, speak_live=speak_live, speak_socket=_speak_socket,
        honours={**spec.honours, "speak": _SPEECH, "speak_live": {**_SPEECH, WORD_TIMESTAMPS: True}},
        speak_formats=frozenset(xai_speak.CODECS), speak_live_formats=frozenset(xai_speak.RAW), speak_rates_hz=xai_speak.RATES_HZ,
        speak_g711_rates_hz=xai_speak.RATES_HZ,
        makes_mp3=xai_speak.makes_mp3,
    )
