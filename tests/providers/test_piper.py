"""Piper's own HTTP server, of either release, and as a process of ours."""

from __future__ import annotations

import attrs
import pytest

from gw.errors import PluginMissing, ProviderError, ProviderFailed, ProviderRejected, UpstreamCut, UpstreamProtocolError
from gw.net.http1 import Pool
from gw.providers import piper
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.tts import SpeakRequest
from gw.wire import wav
from tests.fakes.hosting import hosted
from tests.fakes.net import ServerSide
from tests.fakes.recording import spoken
from tests.fakes.vendors.piper import FakePiper

SOUND = bytes(range(256)) * 20
TEXT = "This is the first sentence. Dr. Who said so! And this is the last"
AT_22K = AudioFormat(encoding="pcm_s16le", sample_rate_hz=22_050)


@pytest.fixture
def server(net):
    fake = FakePiper(speech_pcm=SOUND, rate_hz=22_050)
    net.hosts["127.0.0.1", 5_000] = hosted(fake)
    return fake


@pytest.fixture
def account(account_at, server):
    return account_at("piper", model="en_US-lessac-medium")


def request(text=TEXT, **more):
    return SpeakRequest(**{"model": "m", "text": text, "format": PCM_24K, **more})


async def test_sentences_are_spoken_one_by_one(account, server, autojump_clock):
    fmt, sound = await spoken(piper.speak(request(voice="alloy", speed=1.25), account))
    assert (fmt, sound) == (AT_22K, SOUND * 2)
    sent = [entry.fields["text"] for entry in server.ledger]
    assert sent == ["This is the first sentence. ", "Dr. Who said so! And this is the last"]
    assert {entry.fields["voice"] for entry in server.ledger} == {"en_US-lessac-medium"}
    assert {entry.fields["length_scale"] for entry in server.ledger} == {0.8}


async def test_sentences_in_one_wav(account, autojump_clock):
    fmt, sound = await spoken(piper.speak(request(format=AudioFormat(encoding="wav", sample_rate_hz=24_000)), account))
    assert wav.parse(sound).format == fmt == AudioFormat(encoding="wav", sample_rate_hz=22_050)
    assert sound.count(b"RIFF") == 1


@pytest.mark.parametrize(
    ("base_url", "path", "requested"),
    [
        ("http://127.0.0.1:5000", "/synthesize", ["/synthesize", "/synthesize"]),
        ("http://127.0.0.1:5000", "/", ["/synthesize", "/", "/"]),
        ("http://127.0.0.1:5000/api/tts", "/api/tts", ["/api/tts", "/api/tts"]),
        ("http://127.0.0.1:5000/piper", "/piper/synthesize", ["/piper", "/piper/synthesize", "/piper/synthesize"]),
    ],
)
async def test_the_path_that_worked_is_kept(account_at, server, base_url, path, requested, autojump_clock):
    server.path = path
    account = account_at("piper", base_url)
    for _ in range(2):
        await spoken(piper.speak(request("Hello."), account))
    assert [entry.path for entry in server.ledger] == requested


async def test_a_server_without_any_known_path(account, server, autojump_clock):
    server.path = "/elsewhere"
    with pytest.raises(ProviderRejected) as caught:
        await spoken(piper.speak(request(), account))
    assert caught.value.retryable


async def test_an_error_is_a_page_that_says_nothing(account, server, autojump_clock):
    server.status = 500
    with pytest.raises(ProviderFailed, match=r"HTTP 500$"):
        await spoken(piper.speak(request(), account))


WHOLE = wav.header(AudioFormat(encoding="wav", sample_rate_hz=16_000), 4_000) + bytes(4_000)
STEREO_8_BIT = bytearray(WHOLE)
STEREO_8_BIT[34] = 8


@pytest.mark.parametrize(
    ("content_type", "body", "error"),
    [
        (b"audio/wav", WHOLE[:2_000], UpstreamCut),
        (b"audio/wav", WHOLE[:30], UpstreamProtocolError),
        (b"audio/wav", b"", UpstreamProtocolError),
        (b"audio/wav", b"ID3" + bytes(100), UpstreamProtocolError),
        (b"audio/wav", bytes(STEREO_8_BIT), UpstreamProtocolError),
        (b"text/html", b"<!doctype html>", UpstreamProtocolError),
    ],
)
async def test_an_answer_that_is_no_wav(account, net, content_type, body, error, autojump_clock):
    async def serve(stream):
        server = ServerSide(stream)
        while await server.request() is not None:
            await server.respond(200, body, (b"content-type", content_type))

    net.hosts["127.0.0.1", 5_000] = serve
    with pytest.raises(error):
        await spoken(piper.speak(request("Hello."), account))


async def test_health(account, server, autojump_clock):
    await piper.check(account)
    server.status = 500
    with pytest.raises(ProviderError):
        await piper.check(account)


async def test_an_engine_that_is_not_installed(account_at, autojump_clock):
    account = account_at("piper", model_path="x.onnx")
    for calling in (spoken(piper.speak(request(), account)), piper.check(account)):
        with pytest.raises(PluginMissing, match=r"'piper'.*extra 'piper'"):
            await calling


@pytest.mark.process
async def test_an_engine(account_at, tmp_path, engine_libraries):
    pool = Pool()
    account = account_at("piper", pool=pool, model_path=tmp_path)
    await piper.check(account)
    assert await spoken(piper.speak(request("Hello."), attrs.evolve(account))) == (AT_22K, b"\1\2" * 2_205)
    await pool.aclose()


def test_the_body_of_a_request():
    expected = '{"text":"Où ?","voice":"en_US-lessac-medium","length_scale":0.8}'.encode()
    assert piper.synthesis_body("Où ?", "en_US-lessac-medium", 1.25) == expected
    assert piper.synthesis_body("a", "", None) == b'{"text":"a"}'


@pytest.mark.parametrize(
    ("requested", "model", "voice"),
    [
        ("", "piper", ""),
        ("alloy", "piper", "alloy"),
        ("alloy", "en_GB-alan-low", "en_GB-alan-low"),
        ("de_DE-thorsten-low", "en_GB-alan-low", "de_DE-thorsten-low"),
    ],
)
def test_a_voice_of_another_vendor_does_not_stand_before_the_models(requested, model, voice):
    assert piper.choose_voice(requested, model) == voice
