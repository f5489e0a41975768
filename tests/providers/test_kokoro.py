from __future__ import annotations

import pytest

from gw.errors import PluginMissing, ProviderRejected
from gw.net.http1 import Pool
from gw.providers import kokoro
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.tts import SpeakRequest
from gw.wire import wav
from tests.fakes.hosting import hosted
from tests.fakes.recording import spoken
from tests.fakes.vendors.openai import FakeOpenAI


def request(voice="af_heart", **more):
    return SpeakRequest(**{"model": "m", "text": "Hello there.", "voice": voice, "format": PCM_24K, **more})


@pytest.fixture
def server(net):
    fake = FakeOpenAI()
    net.hosts["127.0.0.1", 8_880] = hosted(fake)
    return fake


async def test_a_server_is_given_a_voice(account_at, server, autojump_clock):
    await spoken(kokoro.speak(request(voice=""), account_at("kokoro")))
    await kokoro.check(account_at("kokoro"))
    assert server.ledger[0].fields["voice"] == "af_heart"


@pytest.mark.parametrize(
    ("message", "retryable"), [("Voice 'marin' not found. Available voices: af_heart", True), ("speed is out of range", False)]
)
async def test_a_voice_that_is_not_there_is_for_another_candidate(account_at, server, message, retryable, autojump_clock):
    server.status = 400
    detail = f'{{"detail":{{"error":"validation_error","message":"{message}","type":"invalid_request_error"}}}}'
    server.error_body = detail.encode()
    with pytest.raises(ProviderRejected) as caught:
        await spoken(kokoro.speak(request("marin"), account_at("kokoro")))
    assert caught.value.retryable is retryable


async def test_an_engine_that_is_not_installed(account_at, autojump_clock):
    account = account_at("kokoro", model_path="x", voices_path="y")
    for calling in (spoken(kokoro.speak(request(), account)), kokoro.check(account)):
        with pytest.raises(PluginMissing, match=r"'kokoro_onnx'.*extra 'kokoro'"):
            await calling


@pytest.mark.process
async def test_an_engine(account_at, tmp_path, engine_libraries):
    account = account_at("kokoro", pool=Pool(), model_path=tmp_path, voices_path=tmp_path)
    await kokoro.check(account)
    assert await spoken(kokoro.speak(request("alloy"), account)) == (PCM_24K, (16_383).to_bytes(2, "little") * 240 * 12)
    fmt, sound = await spoken(kokoro.speak(request(format=AudioFormat(encoding="wav", sample_rate_hz=24_000), speed=2), account))
    assert wav.parse(sound).format == fmt
    assert len(sound) == 44 + 2 * 240 * 6
    with pytest.raises(ProviderRejected) as caught:
        await spoken(kokoro.speak(request("marin"), account))
    assert caught.value.retryable
