"""Whisper: local transcription, by a server or in a process of ours.

`base_url` says which: an address with `/v1` is a server of OpenAI's shape (speaches), one that ends in `/inference` is
whisper.cpp's own, `tcp://host:10300` one of the Wyoming protocol. Without one, `model_path` names the folder of a model for
faster-whisper, which gw runs in a process of its own.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO

import attrs

from gw.engines import faster_whisper as engine
from gw.engines.engine_client import at_engine, worker
from gw.engines.process import require
from gw.errors import ProviderRejected, UpstreamProtocolError
from gw.net.http1 import HttpResponse
from gw.net.ws_dial import open_ws
from gw.providers import openai_like, utterance_stt, wyoming_call
from gw.providers.http_call import rejection
from gw.providers.spec import Account, ListenSession, ProviderSpec, TranscribeStream, bearer
from gw.providers.speech_call import FormBody
from gw.providers.utterance_stt import Utterance
from gw.providers.ws_session import ListenSocket, send
from gw.types.audio import PCM_16K
from gw.types.stt import AudioSource, ListenRequest, TranscribeEvent, TranscribeRequest
from gw.wire import multipart, openai_realtime_beta, vendor_errors, wav, whisper_cpp, wyoming

_TRANSCRIPT_LIMIT = 25 * 1024 * 1024
_MOST_SAMPLES = 64 * 2**20
"""Half an hour, made into a WAV for a server that takes nothing else."""
_INFERENCE = b"/inference"


@asynccontextmanager
async def transcribe(request: TranscribeRequest, account: Account) -> AsyncIterator[TranscribeStream]:
    """As the address says. Raises ProviderError."""
    if account.origin.scheme == "engine":
        options = engine_options(account)
        asked = _asked(request, name=None)
        peer = at_engine(engine.MODULE, engine.NEEDS, engine.EXTRA, options, account.provider_id)
        async with wyoming_call.transcribe(peer, request, account, asked) as heard:
            yield heard
    elif account.origin.scheme == "tcp":
        if request.task == "translate":
            raise _cannot(account, "a Wyoming server does not translate")
        asked = wyoming.Transcribe(name=account.model or None, language=whisper_cpp.bare_language(request.language))
        async with wyoming_call.transcribe(wyoming_call.server(account), request, account, asked) as heard:
            yield heard
    elif account.origin.prefix.endswith(_INFERENCE):
        async with _at_whisper_cpp(request, account) as whole:
            yield whole
    else:
        async with openai_like.transcribe(request, account) as stream:
            yield stream


def engine_options(account: Account) -> dict[str, object]:
    return {name: account.options[name] for name in engine.OPTIONS if name in account.options}


def _asked(request: TranscribeRequest, name: str | None) -> wyoming.Transcribe:
    return wyoming.Transcribe(
        name=name,
        language=whisper_cpp.bare_language(request.language),
        prompt=request.prompt or ", ".join(request.keyterms) or None,
        temperature=request.temperature,
        task=request.task,
        words="word" in request.timestamps,
    )


def _cannot(account: Account, detail: str) -> ProviderRejected:
    return ProviderRejected(
        provider=account.provider_id, upstream_status=400, fault="candidate", detail=detail
    )


# ---- live


_NO_SOCKET = frozenset({400, 403, 404, 405, 426})
"""What servers without such a socket answer to its handshake; 403 is Starlette's word for a path it does not know."""


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """As the address says: a server of OpenAI's shape that has a realtime socket (speaches) is spoken to over that, one of
    the Wyoming protocol hears each utterance as it is spoken, any other one when it has ended. Raises ProviderError."""
    if account.origin.scheme == "tcp":
        hearer = _by_wyoming(request, account)
    else:
        hearer = utterance_stt.whole(transcribe, request, account)
        if account.origin.scheme != "engine" and not account.origin.prefix.endswith(_INFERENCE):
            opened = False
            try:
                async with _over_socket(request, account) as live:
                    opened = True
                    yield live
                return
            except (ProviderRejected, UpstreamProtocolError) as error:
                if opened or getattr(error, "upstream_status", 404) not in _NO_SOCKET:
                    raise
    async with utterance_stt.by_utterance(hearer, request, account) as session:
        yield session


@asynccontextmanager
async def _over_socket(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    provider = account.provider_id
    listener = openai_realtime_beta.BetaListener(provider, request, (account.api_key.reveal(),))
    path = "/realtime?" + openai_realtime_beta.query(request, account.model)
    headers = bearer(account.api_key)
    async with open_ws(provider, account.origin, path.encode(), headers=headers, connect=account.pool.connect) as ws:
        await send(ws, provider, listener.opening())
        yield ListenSocket(ws, listener, provider)


def _by_wyoming(request: ListenRequest, account: Account) -> utterance_stt.Hearer:
    asked = wyoming.Transcribe(name=account.model or None, language=whisper_cpp.bare_language(request.language))

    @asynccontextmanager
    async def hear(utterance: Utterance) -> AsyncIterator[TranscribeStream]:
        peering = wyoming_call.server(account)
        async with wyoming_call.transcribe_pieces(peering, utterance.pieces(), account, asked) as stream:
            yield stream

    return hear


# ---- whisper.cpp


class _Wav:
    """A recording held as a WAV of 16 kHz."""

    def __init__(self, samples: bytes) -> None:
        self._data = wav.header(PCM_16K, len(samples)) + samples
        self.size = len(self._data)
        self.filename, self.content_type = "audio.wav", "audio/wav"

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._data


async def _as_wav(request: TranscribeRequest, account: Account) -> AudioSource:
    """The recording itself where it is a WAV; another is made into one. Raises ProviderRejected."""
    if request.format is not None and request.format.encoding == "wav":
        return request.audio
    samples = BytesIO()
    async for data in wyoming_call.samples_of(request, account.provider_id):
        samples.write(data)
        if samples.tell() > _MOST_SAMPLES:
            raise _cannot(account, "this server takes WAV only, and the recording is too long to be made into one")
    return _Wav(samples.getvalue())


class _Whole:
    def __init__(self, response: HttpResponse, provider: str) -> None:
        self._response = response
        self._provider = provider

    async def receive(self) -> list[TranscribeEvent]:
        body = await self._response.read(_TRANSCRIPT_LIMIT)
        return [whisper_cpp.decode(body, self._provider)]


@asynccontextmanager
async def _at_whisper_cpp(request: TranscribeRequest, account: Account) -> AsyncIterator[TranscribeStream]:
    audio = await _as_wav(request, account)
    boundary = b"gw-" + secrets.token_hex(16).encode()
    head, tail = multipart.encode_form(
        whisper_cpp.fields(request),
        file_name=audio.filename or "audio.wav",
        file_content_type=audio.content_type or "audio/wav",
        boundary=boundary,
    )
    headers = [(b"content-type", b"multipart/form-data; boundary=" + boundary), *bearer(account.api_key)]
    body = FormBody(head, audio, tail)
    async with account.pool.open(account.provider_id, b"POST", account.origin, b"", headers, body) as response:
        if response.status != 200:
            raise await rejection(response, account, vendor_errors.classify)
        yield _Whole(response, account.provider_id)


# ---- health


async def check(account: Account) -> None:
    """Raises ProviderError unless the server answers, or the engine is loaded."""
    match account.origin.scheme:
        case "engine":
            require(engine.NEEDS, engine.EXTRA, account.provider_id)
            await worker(engine.MODULE, engine_options(account)).wait_ready(account.provider_id)
        case "tcp":
            if not (await wyoming_call.describe_peer(account)).asr:
                raise _cannot(account, "a server that does not transcribe")
        case _ if account.origin.prefix.endswith(_INFERENCE):
            await _get(attrs.evolve(account, origin=attrs.evolve(account.origin, prefix=b"")), b"/health")
        case _:
            await _get(account, b"/models")


async def _get(account: Account, path: bytes) -> None:
    headers = [(b"accept", b"application/json"), *bearer(account.api_key)]
    async with account.pool.open(account.provider_id, b"GET", account.origin, path, headers) as response:
        if response.status != 200:
            raise await rejection(response, account, vendor_errors.classify)


SPEC = ProviderSpec(
    type="whisper",
    base_url="http://127.0.0.1:8000/v1",
    dialect="openai",
    transcribe=transcribe,
    listen=listen,
    check=check,
    engine_option="model_path",
    engine_needs=engine.NEEDS,
    engine_extra=engine.EXTRA,
    transports={
        "transcribe": "HTTP, Wyoming, own process",
        "listen": "WebSocket (speaches); else by utterance, over Wyoming as it is spoken",
    },
    listen_rates_hz=frozenset({16_000}),
    reported=frozenset(),
)
