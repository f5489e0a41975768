"""Piper: local text-to-speech, by its own HTTP server, by a server of the Wyoming protocol, or in a process of ours.

`base_url` decides: `http://host:5000`, `tcp://host:10200`. Without one, `model_path` names the voice's file and gw runs
Piper's HTTP server itself (never inside its own process: piper-tts is under the GPL).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from weakref import WeakKeyDictionary

import attrs

from gw.engines import piper_tts as engine
from gw.errors import UpstreamCut, UpstreamProtocolError
from gw.net.http1 import HttpResponse, Origin, Pool
from gw.providers import wyoming_call
from gw.providers.event_stream import past_the_end
from gw.providers.http_call import check_get, rejection
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, ProviderSpec, SpeakStream, rejected
from gw.types.audio import PCM_24K, AudioFormat, Encoding
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakRequest
from gw.wire import piper_http, vendor_errors, wav
from gw.wire.sentences import sentences

_HEADERS = [(b"content-type", b"application/json"), (b"accept", b"audio/wav")]
_UNKNOWN_PATH = (404, 405)
_HEADER_BYTES = 4_096
_paths: WeakKeyDictionary[Pool, dict[Origin, bytes]] = WeakKeyDictionary()
"""Path that each server accepted last: it depends on Piper's release."""


def _candidate_paths(origin: Origin) -> tuple[bytes, ...]:
    """Return the paths to try. An address with a path is used as it is first."""
    return (b"", b"/synthesize") if origin.prefix else (b"/synthesize", b"/")


class _Sentences:
    """A `SpeakStream` that requests one sentence after another, so that the first plays before the second is made."""

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
        """Bytes up to the end of the WAV's header."""
        self._bytes_left: int | None = None
        self._in_samples = self._has_audio = False

    async def open_next(self) -> bool:
        """Request the next sentence; return False after the last. Raises ProviderError."""
        text = next(self._sentences, None)
        if text is None:
            return False
        body = piper_http.body(text, self._voice, self._speed)
        known = _paths.setdefault(self._account.pool, {})
        origin = self._account.origin
        paths = (known[origin],) if origin in known else _candidate_paths(origin)
        for path in paths:
            response = await self._open(path, body)
            if response.status == 200:
                known[origin] = path
                return True
            error = await rejection(response, self._account, vendor_errors.classify)
            await self.close()
            if response.status not in _UNKNOWN_PATH:
                break
        raise error

    async def _open(self, path: bytes, body: bytes) -> HttpResponse:
        account = self._account
        self._exchange = account.pool.open(account.provider_id, b"POST", account.origin, path, _HEADERS, body)
        try:
            self._response = response = await self._exchange.__aenter__()
        except BaseException:
            self._exchange = None
            raise
        self._head, self._bytes_left, self._in_samples = b"", None, False
        return response

    async def close(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            await exchange.__aexit__(None, None, None)

    async def receive(self) -> list[SpeakEvent]:
        while True:
            response = self._response
            if response is None:
                raise past_the_end(self._account.provider_id)
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
        """Return the audio in `data`; if a WAV is wanted, its header comes before the first sentence's audio.

        A WAV is recognised by its bytes: the server sends it as text/html.
        """
        if self._in_samples:
            return self._within_length(data)
        self._head += data
        info = wav.parse(self._head)
        if info is None:
            if len(self._head) > _HEADER_BYTES or not b"RIFF".startswith(self._head[:4]):
                raise self._malformed("no WAV where one was expected")
            return b""
        if info.format.encoding != "wav":
            raise self._malformed("a WAV of other than 16-bit samples")
        self._in_samples = True
        self._bytes_left = info.data_bytes
        audio = self._within_length(self._head[info.data_offset :])
        if self._has_audio:
            return audio
        self._has_audio = True
        encoding: Encoding = "wav" if self._as_wav else "pcm_s16le"
        self.format = AudioFormat(
            encoding=encoding, sample_rate_hz=info.format.sample_rate_hz, channels=info.format.channels
        )
        return wav.header(self.format, None) + audio if self._as_wav else audio

    def _within_length(self, data: bytes) -> bytes:
        """Return `data` without what comes after the length that the WAV's header gives."""
        if self._bytes_left is not None:
            data = data[: self._bytes_left]
            self._bytes_left -= len(data)
        return data

    def _check_complete(self) -> None:
        if not self._in_samples:
            raise self._malformed("an answer without audio")
        if self._bytes_left:
            raise UpstreamCut(provider=self._account.provider_id, detail="the WAV is shorter than its header says")

    def _malformed(self, detail: str) -> UpstreamProtocolError:
        return UpstreamProtocolError(provider=self._account.provider_id, detail=detail)


@asynccontextmanager
async def speak(request: SpeakRequest, account: Account) -> AsyncIterator[SpeakStream]:
    """Yield complete sentences as they are made, at the voice's own rate."""
    voice = piper_http.voice_of(request.voice, account.model)
    if account.origin.scheme == "tcp":
        async with wyoming_call.speak(wyoming_call.server(account), request, account, voice, None) as speech:
            yield speech
        return
    wyoming_call.refuse_empty(request, account)
    stream = _Sentences(request, await _with_server(account), voice)
    try:
        await stream.open_next()
        yield stream
    finally:
        await stream.close()


async def _with_server(account: Account) -> Account:
    """Return the account with the address of a server of ours if it has none. Raises ProviderError."""
    if account.origin.scheme != "engine":
        return account
    return attrs.evolve(account, origin=Origin.parse(await engine.address(account.provider_id, account.options)))


async def check(account: Account) -> None:
    """Raise ProviderError unless the server answers, or the engine is loaded."""
    if account.origin.scheme == "tcp":
        if not (await wyoming_call.describe_peer(account)).tts:
            raise rejected(account, "this server has no speech", status=404)
    else:
        await check_get(await _with_server(account), b"/voices", b"audio/wav", vendor_errors.classify)


SPEC = ProviderSpec(
    type="piper",
    base_url="http://127.0.0.1:5000",
    dialect="piper",
    speak=speak,
    speak_live=by_sentence(speak),
    check=check,
    speak_formats=frozenset({"pcm_s16le", "wav"}),
    engine_option="model_path",
    engine_needs=engine.NEEDS,
    engine_extra=engine.EXTRA,
    transports={"speak": "HTTP, Wyoming, own process", "speak_live": "as speech, by sentence"},
    reported=frozenset(),
)
