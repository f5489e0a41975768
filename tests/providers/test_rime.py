"""Rime's requests: what is sent, what comes back, and the check of its address."""

from __future__ import annotations

import attrs
import pytest

from gw.errors import ProviderFailed, ProviderRejected, UpstreamProtocolError
from gw.providers import rime
from gw.providers.http_call import check_get
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.secret import Secret
from gw.types.tts import SpeakRequest
from gw.wire import rime_speak
from tests.fakes.hosting import hosted
from tests.fakes.recording import spoken
from tests.fakes.vendors.rime import FakeRime

SOUND = bytes(range(256)) * 20


@pytest.fixture
def vendor(net):
    fake = FakeRime(api_key="k", speech_pcm=SOUND)
    net.hosts["users.rime.ai", 443] = hosted(fake)
    return fake


@pytest.fixture
def account(account_at, vendor):
    return attrs.evolve(account_at("rime", model="coda"), api_key=Secret("k"))


def request(**more):
    return SpeakRequest(**{"model": "m", "text": "Hello there.", "voice": "lyra", "format": PCM_24K, **more})


async def test_speech(account, vendor, autojump_clock):
    assert await spoken(rime.speak(request(language="en-GB", speed=0.5), account)) == (PCM_24K, SOUND)
    (entry,) = vendor.ledger
    assert (entry.path, entry.headers["accept"]) == ("/v1/rime-tts", "audio/L16")
    assert entry.headers["authorization"] == "Bearer k"
    assert entry.fields == {
        "text": "Hello there.", "speaker": "lyra", "voice": "lyra", "modelId": "coda", "lang": "en", "samplingRate": 24_000,
        "timeScaleFactor": 2.0,
    }  # fmt: skip


async def test_mulaw(account, vendor, autojump_clock):
    fmt = AudioFormat(encoding="mulaw", sample_rate_hz=8_000)
    received, sound = await spoken(rime.speak(request(format=fmt), account))
    assert (received, len(sound)) == (fmt, len(SOUND) // 2)
    assert vendor.ledger[0].headers["accept"] == "audio/PCMU"


async def test_a_voice_is_required(account, vendor):
    with pytest.raises(ProviderRejected):
        rime.speak(request(voice=""), account)
    assert vendor.ledger == []


async def test_a_voice_that_the_vendor_does_not_have(account, vendor, autojump_clock):
    vendor.voices = frozenset({"astra"})
    with pytest.raises(ProviderRejected) as caught:
        await spoken(rime.speak(request(), account))
    assert (caught.value.fault, caught.value.retryable) == ("request", True)


async def test_json_is_no_speech(account, net, autojump_clock):
    """Without a format that it knows, the vendor answers with JSON."""

    class Json(FakeRime):
        async def _speak(self, entry, body, answer):
            await answer.send_complete(b'{"audioContent":""}', "application/json")

    net.hosts["users.rime.ai", 443] = hosted(Json())
    with pytest.raises(UpstreamProtocolError):
        await spoken(rime.speak(request(), account))


async def test_the_address_is_checked(account, vendor, autojump_clock):
    path, headers = rime.SPEC.health_path.encode(), rime.SPEC.key_headers(account.api_key)
    await check_get(account, path, b"application/json", rime_speak.classify, headers)
    vendor.status = 503
    with pytest.raises(ProviderFailed):
        await check_get(account, path, b"application/json", rime_speak.classify, headers)
