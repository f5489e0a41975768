"""whisper.cpp's own server, the engine in a process of ours, and how addresses choose between them."""

from __future__ import annotations

import msgspec
import pytest

from gw.errors import PluginMissing, ProviderError, ProviderFailed, ProviderRejected, UpstreamProtocolError
from gw.net.http1 import Pool
from gw.providers import whisper
from gw.providers.sim import fsk
from gw.types.audio import MULAW_8K, AudioFormat
from gw.types.stt import Final, TextDelta, TranscribeRequest, Transcript, Word
from gw.wire import multipart, wav
from tests.fakes.net import ServerSide
from tests.fakes.recording import Recording, recognized, wav_of
from tests.fakes.vendors.whisper_cpp import encode

WAV = AudioFormat(encoding="wav", sample_rate_hz=16_000)
HEARD = Transcript(
    text="hello there",
    language="english",
    duration_s=1.5,
    segments=(Final(text="hello there", start_s=0.0, end_s=1.5, words=(Word(text="hello", start_s=0.0, end_s=0.5, confidence=0.9),)),),
)


class WhisperCpp:
    """The server on one connection after another."""

    def __init__(self) -> None:
        self.status, self.body = 200, encode(HEARD)
        self.paths: list[bytes] = []
        self.form: list[object] = []

    async def __call__(self, stream):
        server = ServerSide(stream)
        while (requested := await server.request()) is not None:
            self.paths.append(requested.path)
            if requested.body:
                decoder = multipart.MultipartDecoder(multipart.boundary_of(requested.headers[b"content-type"]))
                self.form = decoder.feed(requested.body)
            await server.respond(self.status, self.body, (b"content-type", b"application/json"))

    @property
    def fields(self):
        return {part.name: part.value for part in self.form if isinstance(part, multipart.Field)}

    @property
    def file(self):
        return b"".join(part.data for part in self.form if isinstance(part, multipart.FileData))


@pytest.fixture
def server(net):
    net.hosts["cpp.test", 8_080] = server = WhisperCpp()
    return server


@pytest.fixture
def cpp(account_at, server):
    return account_at("whisper", "http://cpp.test:8080/inference")


def request(audio=None, fmt=WAV, **more):
    return TranscribeRequest(model="m", audio=audio or wav_of(bytes(3_200)), format=fmt, **more)


async def test_whisper_cpp_is_asked_at_its_own_path(cpp, server, autojump_clock):
    requested = request(language="de-DE", prompt="Namen", temperature=0.2, task="translate", fields=(("beam_size", "3"),))
    (transcript,) = await recognized(whisper.transcribe(requested, cpp))
    assert server.paths == [b"/inference"]
    assert server.fields == {
        "response_format": "verbose_json", "language": "de", "translate": "true", "prompt": "Namen", "temperature": "0.2",
        "beam_size": "3",
    }  # fmt: skip
    assert server.file == requested.audio.data
    assert msgspec.structs.replace(transcript, words=()) == HEARD
    assert transcript.words == HEARD.segments[0].words


async def test_whisper_cpp_hears_wav_only(cpp, server, autojump_clock):
    await recognized(whisper.transcribe(request(Recording(b"\xff" * 800, "a.ulaw", "audio/basic"), MULAW_8K), cpp))
    info = wav.parse(server.file)
    assert (info.format.sample_rate_hz, info.data_bytes) == (16_000, 3_200)


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (500, b'{"error":"failed to process audio"}', ProviderFailed),
        (499, b'{"error":"client gone"}', ProviderFailed),
        (404, b"File Not Found", ProviderRejected),
        (200, b'{"error":"failed"}', ProviderFailed),
        (200, b'{"tex', UpstreamProtocolError),
        (200, b"{}", UpstreamProtocolError),
    ],
)
async def test_whisper_cpp_fails(cpp, server, status, body, error, autojump_clock):
    server.status, server.body = status, body
    with pytest.raises(error):
        await recognized(whisper.transcribe(request(), cpp))


async def test_health_of_servers(cpp, account_at, server, autojump_clock):
    await whisper.check(cpp)
    await whisper.check(account_at("whisper", "http://cpp.test:8080/v1"))
    assert server.paths == [b"/health", b"/v1/models"]
    server.status = 503
    with pytest.raises(ProviderError):
        await whisper.check(cpp)


async def test_the_address_chooses(account_at):
    assert account_at("whisper").origin.prefix == b"/v1"
    assert account_at("whisper", model_path="x").origin.scheme == "engine"
    assert account_at("whisper", "http://a.test/v1", model_path="x").origin.scheme == "http"


async def test_an_engine_that_is_not_installed(account_at, autojump_clock):
    account = account_at("whisper", model_path="x")
    for calling in (recognized(whisper.transcribe(request(), account)), whisper.check(account)):
        with pytest.raises(PluginMissing, match=r"'faster_whisper'.*extra 'whisper'"):
            await calling


@pytest.mark.process
async def test_an_engine(account_at, tmp_path, engine_libraries):
    account = account_at("whisper", pool=Pool(), model_path=tmp_path, device="cpu", compute_type="int8")
    await whisper.check(account)
    audio = wav_of(b"".join(fsk.encode("hello|there", 16_000)))
    *deltas, transcript = await recognized(whisper.transcribe(request(audio, stream=True, timestamps=frozenset({"word"})), account))
    assert deltas == [TextDelta(text="hello"), TextDelta(text=" there")]
    assert (transcript.text, transcript.words[1].text) == ("hello there", "there")
    with pytest.raises(ProviderRejected) as caught:
        await recognized(whisper.transcribe(request(audio, language="tl"), account))
    assert caught.value.retryable
