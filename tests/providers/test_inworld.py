"""Inworld's requests: what is sent, what comes back, and the check of a key."""

from __future__ import annotations

import attrs
import pytest

from gw.errors import ProviderRejected
from gw.providers import inworld
from gw.providers.http_call import check_get
from gw.providers.sim import fsk
from gw.types.audio import PCM_24K
from gw.types.secret import Secret
from gw.types.tts import AudioChunk, SpeakRequest, WordTiming
from gw.wire import inworld_speak
from tests.fakes.hosting import hosted
from tests.fakes.recording import spoken
from tests.fakes.vendors.inworld import FakeInworld

SOUND = bytes(range(256)) * 20
TEXT = "Hello there."


@pytest.fixture
def vendor(net):
    fake = FakeInworld(api_key="k")
    net.hosts["api.inworld.ai", 443] = hosted(fake)
    return fake


@pytest.fixture
def account(account_at, vendor):
    return attrs.evolve(account_at("inworld", model="inworld-tts-1.5-max"), api_key=Secret("k"))


def request(**more):
    return SpeakRequest(**{"model": "m", "text": TEXT, "voice": "Dennis", "format": PCM_24K, **more})


async def test_speech(account, vendor, autojump_clock):
    vendor.speech_pcm = SOUND
    assert await spoken(inworld.speak(request(language="en-GB", speed=0.1), account)) == (PCM_24K, SOUND)
    (entry,) = vendor.ledger
    assert (entry.path, entry.headers["authorization"]) == ("/tts/v1/voice:stream", "Basic k")
    assert entry.fields == {
        "text": TEXT, "voiceId": "Dennis", "voice": "Dennis", "modelId": "inworld-tts-1.5-max", "language": "en-US",
        "audioConfig": {"audioEncoding": "PCM", "sampleRateHertz": 24_000, "speakingRate": 0.5},
    }  # fmt: skip


async def test_word_times(account, autojump_clock):
    events = []
    async with inworld.speak(request(want_timings=True), account) as stream:
        while not events or isinstance(events[-1], AudioChunk | WordTiming):
            events += await stream.receive()
    assert [event.word for event in events if isinstance(event, WordTiming)] == TEXT.split()
    pcm = b"".join(event.data for event in events if isinstance(event, AudioChunk))
    assert " ".join(done.text for done in fsk.decode(pcm, 24_000)) == TEXT


async def test_requests_that_are_not_sent(account, vendor):
    for odd in (request(voice=""), request(text="a" * 2_001)):
        with pytest.raises(ProviderRejected):
            inworld.speak(odd, account)
    assert vendor.ledger == []


async def test_a_voice_that_the_vendor_does_not_have(account, vendor, autojump_clock):
    vendor.voices = frozenset({"Ashley"})
    with pytest.raises(ProviderRejected) as caught:
        await spoken(inworld.speak(request(), account))
    assert (caught.value.upstream_status, caught.value.retryable) == (404, True)


async def test_a_key_is_checked(account, autojump_clock):
    path = inworld.SPEC.health_path.encode()
    await check_get(account, path, b"application/json", inworld_speak.classify, inworld.key_headers(account.api_key))
    with pytest.raises(ProviderRejected) as caught:
        await check_get(account, path, b"application/json", inworld_speak.classify, inworld.key_headers(Secret("other")))
    assert caught.value.upstream_status == 401
