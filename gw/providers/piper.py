"""Piper: local text-to-speech, by its own HTTP server, by a server of the Wyoming protocol, or in a child process.

`base_url` decides: `http://host:5000`, `tcp://host:10200`. Without one, `model_path` names the voice's file and gw runs
Piper's HTTP server itself (never inside its own process: piper-tts is under the GPL).

Its HTTP server takes one POST of JSON per piece of text, and answers with a complete WAV of content type text/html (Flask's
default). Newer servers take `/synthesize`, older ones `/`; drop-in servers any path. For an unknown voice the server uses its
own. There is no usage. Source: piper-tts 1.8.0, `piper/http_server.py` (November 2026).
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import attrs
import msgspec

from gw.engines import piper_tts as engine
from gw.errors import ProviderError, UpstreamCut, UpstreamProtocolError
from gw.net.http1 import HttpResponse, Origin
from gw.providers import wyoming_call
from gw.providers.http_call import HttpCall, check_get, past_the_end
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, Honours, ProviderSpec, SpeakStream, rejected
from gw.providers.speech_call import headed
from gw.types.audio import PCM_24K
from gw.types.speech_settings import LANGUAGE, NO_STORE, SPEED
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakLiveRequest, SpeakRequest
from gw.wire import vendor_errors, wav
from gw.wire.query import bare_language
from gw.wire.sentences import sentences

_HEADERS = [(b"content-type", b"application/json"), (b"accept", b"audio/wav")]
_UNKNOWN_PATH = (404, 405)
_HEADER_BYTES = 4_096
_VOICE = re.compile(r"[a-z]{2,3}_[A-Z]{2}-\w+")  # `en_US-lessac-medium`
_PATHS = "piper_paths"
"""Key in `Account.call_state` of the path that each server accepted last: it depends on Piper's release."""


def synthesis_body(text: str, voice: str, speed: float | None) -> bytes:
    """Return the body of a request. `length_scale` is the inverse of speed."""
    fields = {"text": text, "voice": voice or None, "length_scale": round(1 / speed, 3) if speed else None}
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None})


def choose_voice(voice: str, model: str) -> str:
    """Return the voice to request: models of this type are named after voices, and `voice` may be another vendor's."""
    return next((name for name in (voice, model) if _VOICE.match(name)), voice)


def _candidate_paths(origin: Origin) -> tuple[bytes, ...]:
    """Return the paths to try. An address with a path is used as it is first."""
    return (b"", b"/synthesize") if origin.prefix else (b"/synthesize", b"/")


@asynccontextmanager
async def _synthesize(text: str, voice: str, speed: float | None, account: Account) -> AsyncIterator[HttpResponse]:
    """Request one sentence. Raises ProviderError."""
    known: dict[Origin, bytes] = account.call_state.setdefault(_PATHS, {})
    paths = (known[account.origin],) if account.origin in known else _candidate_paths(account.origin)
    body = synthesis_body(text, voice, speed)
    for path in paths:
        call = HttpCall(account, path, _HEADERS, body, vendor_errors.classify, lambda response: response)
        try:
            async with call as response:
                known[account.origin] = path
                yield response
            return
        except ProviderError as error:
            if path is paths[-1] or getattr(error, "upstream_status", None) not in _UNKNOWN_PATH:
                raise


class _Sentences:
    """A `SpeakStream` that requests one sentence after another, so that the first plays before the second is made."""

    def __init__(self, request: SpeakRequest, account: Account, voice: str) -> None:
        self.format = PCM_24K
        self._request = request
        self._account = account
        self._voice = voice
        self._audio = self._speak()
        self._first: bytes | None = None
        self._over = False

    async def start(self) -> None:
        """Read the first piece. Raises ProviderError."""
        self._first = await anext(self._audio, None)

    async def aclose(self) -> None:
        await self._audio.aclose()

    async def receive(self) -> list[SpeakEvent]:
        data, self._first = self._first, None
        if data is not None or (data := await anext(self._audio, None)) is not None:
            return [AudioChunk(data=data)]
        if self._over:
            raise past_the_end(self._account.provider_id)
        self._over = True
        return [SpeakEnd()]

    async def _speak(self) -> AsyncGenerator[bytes, None]:
        header: bytes | None = None
        for text in sentences(self._request.text):
            async with _synthesize(text, self._voice, self._request.speed, self._account) as response:
                info, data = await self._read_header(response)
                if header is None:   # of the first sentence
                    self.format, header = headed(self._request.format, info.format)
                bytes_left = info.data_bytes
                while True:
                    if bytes_left is not None:
                        data = data[:bytes_left]
                        bytes_left -= len(data)
                    if header or data:
                        yield header + data  # noqa: ASYNC119  its reader closes this generator
                        header = b""
                    data = await response.receive_some()
                    if not data:
                        break
                if bytes_left:
                    detail = "the WAV is shorter than its header says"
                    raise UpstreamCut(provider=self._account.provider_id, detail=detail)

    async def _read_header(self, response: HttpResponse) -> tuple[wav.WavInfo, bytes]:
        """Return the header of a WAV and the samples after it. Its content type says nothing: the server sends text/html."""
        head = b""
        while (info := wav.parse(head)) is None:
            if len(head) > _HEADER_BYTES or not b"RIFF".startswith(head[:4]):
                raise self._malformed("no WAV where one was expected")
            if not (data := await response.receive_some()):
                raise self._malformed("an answer without audio")
            head += data
        if info.format.encoding != "wav":
            raise self._malformed("a WAV of other than 16-bit samples")
        return info, head[info.data_offset :]

    def _malformed(self, detail: str) -> UpstreamProtocolError:
        return UpstreamProtocolError(provider=self._account.provider_id, detail=detail)


@asynccontextmanager
async def speak(request: SpeakRequest, account: Account) -> AsyncIterator[SpeakStream]:
    """Yield complete sentences as they are made, at the voice's own rate."""
    voice = choose_voice(request.voice, account.model)
    if account.origin.scheme == "tcp":
        async with wyoming_call.speak(wyoming_call.server(account), request, account, voice, None) as speech:
            yield speech
        return
    wyoming_call.refuse_empty(request, account)
    async with aclosing(_Sentences(request, await _with_server(account), voice)) as stream:
        await stream.start()
        yield stream


async def _with_server(account: Account) -> Account:
    """Return the account with the address of our own server if it has none. Raises ProviderError."""
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


def _speaks(request: SpeakRequest | SpeakLiveRequest, account: Account) -> bool:
    """Return whether the voice speaks the language: a voice's name begins with it, and one without is the administrator's choice."""
    voice = next((name for name in (request.voice, account.model) if _VOICE.match(name)), None)
    return voice is None or voice.partition("_")[0] == bare_language(request.language)


_SPEECH: Honours = {NO_STORE: True, LANGUAGE: _speaks, SPEED: True}
"""Nothing leaves the user's own machines."""

SPEC = ProviderSpec(
    type="piper", base_url="http://127.0.0.1:5000", dialect="piper",
    speak=speak, speak_live=by_sentence(speak), honours={"speak": _SPEECH, "speak_live": _SPEECH},
    check=check, engine_option="model_path", engine_needs=engine.NEEDS, engine_extra=engine.EXTRA,
    speak_formats=frozenset({"pcm_s16le", "wav"}),
    transports={"speak": "HTTP, Wyoming, own process", "speak_live": "as speech, by sentence"},
    reported=frozenset(),
)
