"""Google Cloud's requests: what is sent, and what comes back."""

from __future__ import annotations

import attrs
import pytest

from gw.errors import ProviderRejected
from gw.providers import google_cloud
from gw.types.audio import PCM_24K
from gw.types.secret import Secret
from gw.types.tts import SpeakRequest
from tests.fakes.hosting import hosted
from tests.fakes.recording import spoken
from tests.fakes.vendors.google_cloud import FakeGoogleCloud

SOUND = bytes(range(256)) * 400
VOICE = "en-US-Chirp3-HD-Charon"


@pytest.fixture
def vendor(net):
    fake = FakeGoogleCloud(api_key="k", speech_pcm=SOUND)
    net.hosts["texttospeech.googleapis.com", 443] = hosted(fake)
    return fake


@pytest.fixture
def account(account_at, vendor):
    return attrs.evolve(account_at("google_cloud", model="chirp3-hd"), api_key=Secret("k"))


def request(**more):
    return SpeakRequest(**{"model": "m", "text": "Hello there.", "voice": VOICE, "format": PCM_24K, **more})


async def test_speech(account, vendor, autojump_clock):
    assert await spoken(google_cloud.speak(request(speed=1.2), account)) == (PCM_24K, SOUND)
    (entry,) = vendor.ledger
    assert (entry.path, entry.headers["x-goog-api-key"]) == ("/v1/text:synthesize", "k")
    assert "authorization" not in entry.headers
    assert entry.fields["voice"] == VOICE
    assert entry.fields["audioConfig"] == {"audioEncoding": "PCM", "sampleRateHertz": 24_000, "speakingRate": 1.2}


@pytest.mark.parametrize(("voice", "words"), [("", "no voice"), ("en-US-Neural2-A", "model neural2")])
async def test_a_voice_of_another_price_is_refused(voice, words, account):
    with pytest.raises(ProviderRejected, match=words) as caught:
        google_cloud.speak(request(voice=voice), account)
    assert caught.value.fault == "candidate"
