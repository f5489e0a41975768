"""Piper: local text-to-speech, by its own HTTP server, by a server of the Wyoming protocol, or in a process of ours.

`base_url` says which: `http://host:5000`, `tcp://host:10200`; without one, `model_path` names the voice's file and gw runs
Piper's HTTP server itself (never inside its own process: piper-tts is under the GPL).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from weakref import WeakKeyDictionary

import attrs

from gw.engines import piper_tts as engine
from gw.errors import ProviderError, ProviderRejected, UpstreamCut, UpstreamProtocolError
from gw.net.http1 import HttpResponse, Origin, Pool
from gw.providers import wyoming_call
from gw.providers.http_call import rejection
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, ProviderSpec, SpeakSession, SpeakStream
from gw.types.audio import PCM_24K, AudioFormat, Encoding
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakLiveRequest, SpeakRequest
from gw.wire import piper_http, vendor_errors, wav
from gw.wire.sentences import sentences

_HEADERS = [(b"content-type", b"application/json"), (b"accept", b"audio/wav")]
_NO_SUCH_PATH = (404, 405)
_HEADER_BYTES = 4_096
_paths: WeakKeyDictionary[Pool, dict[Origin, bytes]] = WeakKeyDictionary()
"""What a server took last, as its release decides."""


def _candidates(origin: Origin) -> tuple[bytes, ...]:
    """An address with a path is meant as it stands."""
    return (b"", b"/synthesize") if origin.prefix else (b"/synthesize", b"/")


class _Spoken:
    """The text, one sentence after another: the first is heard before the second is made."""

    def __init__(self, request: SpeakRequest, account: Account, voice: str) -> None:
        self.format = PCM_24K
        self._account = account
        self._sentences: Iterator[str] = sentences(request.text)
        self._voice = voice
        self._speed = request.speed
        self._as_wav = request.format.encoding == "wav"
        self._exchange: AbstractAsyncContextManager[HttpResponse] | None = None
        self._response: HttpResponse | None = None
        self._head = b""
        self._left: int | None = None
        self._in_samples = self._sounded = False

    async def open_next(self) -> bool:
        """Ask for the next sentence; False when there is none. Raises ProviderError."""
        text = next(self._sentences, None)
        if text is None:
            return False
        body = piper_http.body(text, self._voice, self._speed)
        known = _paths.setdefault(self._account.pool, {})
        origin = self._account.origin
        paths = (known[origin],) if origin in known else _candidates(origin)
        for path in paths:
            response = await self._open(path, body)
            if response.status == 200:
                known[origin] = path
                return True
            refused = await rejection(response, self._account, vendor_errors.classify)
            await self.close()
            if response.status not in _NO_SUCH_PATH:
                break
        raise refused

    async def _open(self, path: bytes, body: bytes) -> HttpResponse:
        account = self._account
        self._exchange = account.pool.open(account.provider_id, b"POST", account.origin, path, _HEADERS, body)
        try:
            self._response = response = await self._exchange.__aenter__()
        except BaseException:
            self._exchange = None
            raise
        self._head, self._left, self._in_samples = b"", None, False
        return response

    async def close(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            await exchange.__aexit__(None, None, None)

    async def receive(self) -> list[SpeakEvent]:
        while True:
            response = self._response
            if response is None:
                raise self._fault(UpstreamCut, "read past the end of the answer")
            data = await response.receive_some()
            if not data:
                self._check_complete()
                await self.close()
                if not await self.open_next():
                    self._response = None
                    return [SpeakEnd()]
            elif audio := self._samples(data):
                return [AudioChunk(data=audio)]

    def _samples(self, data: bytes) -> bytes:
        """What is sound in `data`; the first piece of all comes with a header of its own where a WAV is wanted.

        The bytes alone tell: the server calls its WAVs text/html.
        """
        if self._in_samples:
            return self._counted(data)
        self._head += data
        info = wav.parse(self._head)
        if info is None:
            if len(self._head) > _HEADER_BYTES or not b"RIFF".startswith(self._head[:4]):
                raise self._fault(UpstreamProtocolError, "no WAV where one was expected")
            return b""
        if info.format.encoding != "wav":
            raise self._fault(UpstreamProtocolError, "a WAV of other than 16-bit samples")
        self._in_samples = True
        self._left = info.data_bytes
        audio = self._counted(self._head[info.data_offset :])
        if self._sounded:
            return audio
        self._sounded = True
        encoding: Encoding = "wav" if self._as_wav else "pcm_s16le"
        self.format = AudioFormat(
            encoding=encoding, sample_rate_hz=info.format.sample_rate_hz, channels=info.format.channels
        )
        return wav.header(self.format, None) + audio if self._as_wav else audio

    def _counted(self, data: bytes) -> bytes:
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        return data

    def _check_complete(self) -> None:
        if not self._in_samples:
            raise self._fault(UpstreamProtocolError, "an answer without audio")
        if self._left:
            raise self._fault(UpstreamCut, "the WAV is shorter than it says")

    def _fault(self, kind: type[UpstreamProtocolError] | type[UpstreamCut], detail: str) -> ProviderError:
        return kind(provider=self._account.provider_id, detail=detail)


@asynccontextmanager
async def speak(request: SpeakRequest, account: Account) -> AsyncIterator[SpeakStream]:
    """Whole sentences, each as it is made; the voice's own rate."""
    voice = piper_http.voice_of(request.voice, account.model)
    if account.origin.scheme == "tcp":
        async with wyoming_call.speak(wyoming_call.server(account), request, account, voice, None) as spoken:
            yield spoken
        return
    wyoming_call.refuse_empty(request, account.provider_id)
    stream = _Spoken(request, await _at_its_server(account), voice)
    try:
        await stream.open_next()
        yield stream
    finally:
        await stream.close()


async def _at_its_server(account: Account) -> Account:
    """The account as it stands, or with the address of the server that is ours. Raises ProviderError."""
    if account.origin.scheme != "engine":
        return account
    return attrs.evolve(account, origin=Origin.parse(await engine.address(account.provider_id, account.options)))


def speak_live(request: SpeakLiveRequest, account: Account) -> AbstractAsyncContextManager[SpeakSession]:
    """A sentence at a time."""
    return by_sentence(speak, request, account)


async def check(account: Account) -> None:
    """Raises ProviderError unless the server answers, or the engine is loaded."""
    if account.origin.scheme == "tcp":
        if not (await wyoming_call.describe_peer(account)).tts:
            raise ProviderRejected(
                provider=account.provider_id, upstream_status=404, fault="candidate", detail="a server without speech"
            )
        return
    account = await _at_its_server(account)
    async with account.pool.open(account.provider_id, b"GET", account.origin, b"/voices", _HEADERS[1:]) as response:
        if response.status != 200:
            raise await rejection(response, account, vendor_errors.classify)


SPEC = ProviderSpec(
    type="piper",
    base_url="http://127.0.0.1:5000",
    dialect="piper",
    speak=speak,
    speak_live=speak_live,
    check=check,
    speak_formats=frozenset({"pcm_s16le", "wav"}),
    engine_option="model_path",
    engine_needs=engine.NEEDS,
    engine_extra=engine.EXTRA,
    transports={"speak": "HTTP, Wyoming, own process", "speak_live": "as speech, by sentence"},
    reported=frozenset(),
)
