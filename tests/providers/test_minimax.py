"""MiniMax's requests: what is sent, what comes back, and the check of a key."""

from __future__ import annotations

import attrs
import pytest

from gw.errors import ProviderRejected
from gw.providers import minimax
from gw.types.audio import PCM_24K
from gw.types.secret import Secret
from gw.types.tts import SpeakEnd, SpeakRequest
from tests.fakes.hosting import hosted
from tests.fakes.recording import spoken
from tests.fakes.vendors.minimax import FakeMiniMax

SOUND = bytes(range(256)) * 20


@pytest.fixture
def vendor(net):
    fake = FakeMiniMax(api_key="k")
    net.hosts["api.minimax.io", 443] = hosted(fake)
    return fake


@pytest.fixture
def account(account_at, vendor):
    return attrs.evolve(account_at("minimax", model="speech-2.8-turbo"), api_key=Secret("k"))


def request(**more):
    return SpeakRequest(**{"model": "m", "text": "Hello there.", "voice": "Wise_Woman", "format": PCM_24K, **more})


async def test_speech(account, vendor, autojump_clock):
    vendor.speech_pcm = SOUND
    assert await spoken(minimax.speak(request(language="en-GB", speed=0.1), account)) == (PCM_24K, SOUND)
    (entry,) = vendor.ledger
    assert (entry.path, entry.headers["authorization"]) == ("/v1/t2a_v2", "Bearer k")
    assert entry.fields == {
        "model": "speech-2.8-turbo", "text": "Hello there.", "voice": "Wise_Woman", "stream": True, "language_boost": "English",
        "stream_options": {"exclude_aggregated_audio": True}, "voice_setting": {"voice_id": "Wise_Woman", "speed": 0.5},
        "audio_setting": {"format": "pcm", "channel": 1, "sample_rate": 24_000},
    }  # fmt: skip


async def test_the_characters_that_are_billed(account, autojump_clock):
    async with minimax.speak(request(text="你好 there"), account) as stream:
        events = []
        while not events or not isinstance(events[-1], SpeakEnd):
            events += await stream.receive()
    assert (events[-1].usage.characters, events[-1].usage.source) == (8, "vendor")


async def test_requests_that_are_not_sent(account, vendor):
    for odd in (request(voice=""), request(text="a" * 10_000), request(text="")):
        with pytest.raises(ProviderRejected):
            minimax.speak(odd, account)
    assert vendor.ledger == []


async def test_a_voice_that_the_vendor_does_not_have(account, vendor, autojump_clock):
    vendor.voices = frozenset({"Calm_Woman"})
    with pytest.raises(ProviderRejected) as caught:
        await spoken(minimax.speak(request(), account))
    assert (caught.value.upstream_status, caught.value.upstream_code, caught.value.retryable) == (400, "20132", True)


async def test_a_key_is_checked(account, vendor, autojump_clock):
    await minimax.check(account)
    with pytest.raises(ProviderRejected) as caught:
        await minimax.check(attrs.evolve(account, api_key=Secret("other")))
    assert caught.value.upstream_status == 401
    vendor.refusal = (2049, "invalid api key")  # with status 200
    with pytest.raises(ProviderRejected) as caught:
        await minimax.check(account)
    assert (caught.value.upstream_status, caught.value.upstream_code) == (401, "2049")
