"""Hume's requests: what is sent, what comes back, and the check of a key."""

from __future__ import annotations

import attrs
import pytest

from gw.errors import ProviderRejected
from gw.providers import hume
from gw.providers.http_call import check_get
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.secret import Secret
from gw.types.tts import SpeakRequest
from gw.wire import hume_speak
from tests.fakes.hosting import hosted
from tests.fakes.recording import spoken
from tests.fakes.vendors.hume import FakeHume

SOUND = bytes(range(256)) * 20


@pytest.fixture
def vendor(net):
    fake = FakeHume(api_key="k")
    net.hosts["api.hume.ai", 443] = hosted(fake)
    return fake


@pytest.fixture
def account(account_at, vendor):
    return attrs.evolve(account_at("hume", model="octave-1"), api_key=Secret("k"))


def request(**more):
    return SpeakRequest(**{"model": "m", "text": "Hello there.", "voice": "Ava Song", "format": PCM_24K, **more})


async def test_speech(account, vendor, autojump_clock):
    """The vendor has one sample rate."""
    vendor.speech_pcm = SOUND
    fmt = AudioFormat(encoding="pcm_s16le", sample_rate_hz=48_000)
    assert await spoken(hume.speak(request(speed=0.1, instructions="calm"), account)) == (fmt, SOUND)
    (entry,) = vendor.ledger
    assert (entry.path, entry.headers["x-hume-api-key"]) == ("/v0/tts/stream/json", "k")
    assert entry.fields == {
        "text": "Hello there.", "voice": "Ava Song", "version": "1", "instant_mode": True, "strip_headers": True, "format": {"type": "pcm"},
        "utterances": [{
            "text": "Hello there.", "voice": {"name": "Ava Song", "provider": "HUME_AI"}, "speed": 0.5, "description": "calm",
        }],
    }  # fmt: skip


async def test_a_request_without_a_voice_is_not_sent(account, vendor):
    with pytest.raises(ProviderRejected):
        hume.speak(request(voice=""), account)
    assert vendor.ledger == []


async def test_a_voice_that_the_vendor_does_not_have(account, vendor, autojump_clock):
    vendor.voices = frozenset({"Another"})
    with pytest.raises(ProviderRejected) as caught:
        await spoken(hume.speak(request(), account))
    assert (caught.value.upstream_status, caught.value.retryable) == (400, True)


async def test_a_key_is_checked(account, autojump_clock):
    path = hume.SPEC.health_path.encode()
    await check_get(account, path, b"application/json", hume_speak.classify, hume.key_headers(account.api_key))
    with pytest.raises(ProviderRejected) as caught:
        await check_get(account, path, b"application/json", hume_speak.classify, hume.key_headers(Secret("other")))
    assert caught.value.upstream_status == 401
