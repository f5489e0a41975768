"""Whisper: local transcription, by a server or in a child process.

`base_url` decides: an address with `/v1` is a server of OpenAI's dialect (speaches), one that ends in `/inference` is
whisper.cpp's own, `tcp://host:10300` one of the Wyoming protocol. Without one, `model_path` names the folder of a model for
faster-whisper, which gw runs in a child process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from io import BytesIO

import attrs

from gw.engines import faster_whisper as engine
from gw.engines.engine_client import engine_process, engine_request
from gw.providers import openai_like, utterance_stt, wyoming_call
from gw.providers.http_call import HttpCall, check_get
from gw.providers.realtime_stt import by_socket_or_utterance
from gw.providers.recording_call import WavRecording, WholeTranscript, form_call
from gw.providers.spec import Account, Honours, ListenSession, ProviderSpec, TranscribeStream, bearer, rejected
from gw.providers.utterance_stt import Utterance
from gw.types.speech_settings import (
    KEYTERMS,
    LANGUAGE,
    NO_STORE,
    PROMPT,
    RESPONSE_FORMAT,
    SEGMENT_TIMESTAMPS,
    TEMPERATURE,
    TRANSLATE,
    WORD_TIMESTAMPS,
)
from gw.types.stt import AudioSource, ListenRequest, TranscribeRequest
from gw.wire import query, vendor_errors, whisper_cpp, wyoming

_MOST_SAMPLES = 64 * 2**20  # bytes of half an hour, converted to a WAV for a server that takes nothing else
_INFERENCE = b"/inference"


@asynccontextmanager
async def transcribe(request: TranscribeRequest, account: Account) -> AsyncIterator[TranscribeStream]:
    """Transcribe a recording by the protocol of the address. Raises ProviderError."""
    call: AbstractAsyncContextManager[TranscribeStream]
    if account.origin.scheme == "engine":
        peer = engine_request(engine, account.options, account.provider_id)
        call = wyoming_call.transcribe(peer, request, account, _engine_request(request))
    elif account.origin.scheme == "tcp":
        if request.task == "translate":
            raise rejected(account, "a Wyoming server does not translate")
        opening = _wyoming_request(request.language, account)
        call = wyoming_call.transcribe(wyoming_call.server(account), request, account, opening)
    elif account.origin.prefix.endswith(_INFERENCE):
        call = await _whisper_cpp_call(request, account)
    else:
        call = openai_like.transcribe(request, account)
    async with call as stream:
        yield stream


def _engine_request(request: TranscribeRequest) -> wyoming.Transcribe:
    return wyoming.Transcribe(
        language=query.bare_language(request.language),
        prompt=request.prompt or ", ".join(request.keyterms) or None,
        temperature=request.temperature, task=request.task, words=bool(request.timestamps),
    )


def _wyoming_request(language: str | None, account: Account) -> wyoming.Transcribe:
    return wyoming.Transcribe(name=account.model or None, language=query.bare_language(language))


# ---- live


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """Transcribe live by the protocol of the address. Raises ProviderError.

    A server of OpenAI's dialect that has a realtime socket (speaches) gets the audio over that, one of the Wyoming protocol
    gets each utterance as it is spoken, any other one when it has ended.
    """
    scheme = account.origin.scheme
    session: AbstractAsyncContextManager[ListenSession]
    if scheme == "tcp":
        session = utterance_stt.by_utterance(_over_wyoming(request, account), request, account)
    elif scheme == "engine" or account.origin.prefix.endswith(_INFERENCE):
        send = utterance_stt.as_recordings(transcribe, request, account)
        session = utterance_stt.by_utterance(send, request, account)
    else:
        session = by_socket_or_utterance(transcribe, request, account)
    async with session as live:
        yield live


def _over_wyoming(request: ListenRequest, account: Account) -> utterance_stt.TranscribeUtterance:
    opening = _wyoming_request(request.language, account)

    @asynccontextmanager
    async def transcribe_utterance(utterance: Utterance) -> AsyncIterator[TranscribeStream]:
        peer = wyoming_call.server(account)
        async with wyoming_call.transcribe_pieces(peer, utterance.pieces(), account, opening) as stream:
            yield stream

    return transcribe_utterance


# ---- whisper.cpp


async def _as_wav(request: TranscribeRequest, account: Account) -> AudioSource:
    """Return the recording itself if it is a WAV, else convert it to one. Raises ProviderRejected."""
    if request.format is not None and request.format.encoding == "wav":
        return request.audio
    samples = BytesIO()
    async for data in wyoming_call.samples_of(request, account):
        samples.write(data)
        if samples.tell() > _MOST_SAMPLES:
            raise rejected(account, "this server takes WAV only, and the recording is too long to be converted")
    return WavRecording(samples.getvalue())


async def _whisper_cpp_call(request: TranscribeRequest, account: Account) -> HttpCall[WholeTranscript]:
    audio = await _as_wav(request, account)
    decode = partial(whisper_cpp.decode, provider=account.provider_id)
    fields, headers = whisper_cpp.fields(request), bearer(account.api_key)
    return form_call(account, b"", headers, fields, audio, vendor_errors.classify, decode, ("audio.wav", "audio/wav"))


# ---- health


async def check(account: Account) -> None:
    """Raise ProviderError unless the server answers, or the engine is loaded."""
    path = b"/models"
    match account.origin.scheme:
        case "engine":
            await engine_process(engine, account.options, account.provider_id).wait_ready(account.provider_id)
            return
        case "tcp":
            if not (await wyoming_call.describe_peer(account)).asr:
                raise rejected(account, "this server has no transcription")
            return
        case _ if account.origin.prefix.endswith(_INFERENCE):
            account, path = attrs.evolve(account, origin=attrs.evolve(account.origin, prefix=b"")), b"/health"
    await check_get(account, path, b"application/json", vendor_errors.classify, bearer(account.api_key))


def _is_not_wyoming(request: TranscribeRequest | ListenRequest, account: Account) -> bool:
    """Return False for a Wyoming server, which takes a language and answers with the text alone."""
    return account.origin.scheme != "tcp"


def _takes_keyterms(request: TranscribeRequest | ListenRequest, account: Account) -> bool:
    return account.origin.scheme != "tcp" and not request.prompt


_LISTEN: Honours = {NO_STORE: True, LANGUAGE: True, KEYTERMS: _takes_keyterms, PROMPT: _is_not_wyoming}
_TRANSCRIBE: Honours = {
    **openai_like.WHISPER_HONOURS, NO_STORE: True, KEYTERMS: _takes_keyterms,
    **dict.fromkeys((PROMPT, WORD_TIMESTAMPS, SEGMENT_TIMESTAMPS, TRANSLATE, TEMPERATURE), _is_not_wyoming),
    RESPONSE_FORMAT: lambda request, account: request.response_format != "diarized_json" and _is_not_wyoming(request, account),
}  # fmt: skip
"""Nothing leaves the user's own machines."""

SPEC = ProviderSpec(
    type="whisper", base_url="http://127.0.0.1:8000/v1", dialect="openai",
    transcribe=transcribe, listen=listen,
    honours={"transcribe": _TRANSCRIBE, "listen": _LISTEN}, takes_own=lambda request, account: False,
    check=check, engine_option="model_path", engine_needs=engine.NEEDS, engine_extra=engine.EXTRA,
    listen_rates_hz=frozenset({16_000}),
    transports={
        "transcribe": "HTTP, Wyoming, own process",
        "listen": "WebSocket (speaches); else by utterance, over Wyoming as it is spoken",
    },
    reported=frozenset(),
)
