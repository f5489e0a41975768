"""Google Cloud's requests: what is sent, and what comes back."""

from __future__ import annotations

import attrs
import pytest

from gw.errors import ProviderRejected
from gw.net.http1 import Origin
from gw.providers import google_cloud
from gw.providers.recording_call import WavRecording
from gw.types.audio import PCM_16K, PCM_24K
from gw.types.secret import Secret
from gw.types.stt import TranscribeRequest
from gw.types.tts import SpeakRequest
from tests.fakes.hosting import hosted
from tests.fakes.recording import spoken
from tests.fakes.vendors.google_cloud import FakeGoogleCloud

SOUND = bytes(range(256)) * 400
VOICE = "en-US-Chirp3-HD-Charon"


@pytest.fixture
def vendor(net):
    fake = FakeGoogleCloud(api_key="k", speech_pcm=SOUND)
    for host in ("texttospeech.googleapis.com", "speech.googleapis.com", "us-speech.googleapis.com", "us-texttospeech.googleapis.com"):
        net.hosts[host, 443] = hosted(fake)
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


async def transcribed(request, account):
    async with google_cloud.transcribe(request, account) as stream:
        return (await stream.receive())[-1]


@pytest.fixture
def listener(account):
    return attrs.evolve(account, model="chirp_2", options={"project": "acme"})


@pytest.mark.parametrize("size", [0, 1, 2, 3, 100_000])
async def test_a_recording(size, listener, vendor, autojump_clock):
    wanted = TranscribeRequest(model="m", audio=WavRecording(bytes(size)), language="en", audio_seconds=1.0, timestamps=frozenset({"word"}))
    transcript = await transcribed(wanted, listener)
    assert (transcript.text, transcript.language, transcript.usage.source) == ("Hello there.", "en-US", "vendor")
    assert [word.text for word in transcript.words] == ["Hello", "there."]
    (entry,) = vendor.ledger
    assert (entry.path, entry.headers["host"]) == (
        "/v2/projects/acme/locations/global/recognizers/_:recognize", "speech.googleapis.com",
    )  # fmt: skip
    assert entry.headers["x-goog-api-key"] == "k"
    assert (entry.fields["model"], entry.fields["languageCodes"], entry.fields["enableWordTimeOffsets"]) == ("chirp_2", ["en-US"], True)
    assert entry.audio == b"".join([piece async for piece in wanted.audio.chunks()])


async def test_a_location(listener, vendor, autojump_clock):
    vendor.location = "us"
    account = attrs.evolve(listener, origin=Origin.parse("https://us-texttospeech.googleapis.com"), model="chirp_3")
    wanted = TranscribeRequest(model="m", audio=WavRecording(bytes(320)), diarize=True)
    transcript = await transcribed(wanted, account)
    assert vendor.ledger[0].headers["host"] == "us-speech.googleapis.com"
    assert vendor.ledger[0].fields["languageCodes"] == ["auto"]
    assert [(word.text, word.speaker) for word in transcript.words] == [("Hello", "1"), ("there.", "2")]
    await google_cloud.check(account)
    assert vendor.ledger[1].headers["host"] == "us-texttospeech.googleapis.com"


async def test_a_recording_that_is_too_long_is_for_another_candidate(listener, vendor, autojump_clock):
    for long in (
        TranscribeRequest(model="m", audio=WavRecording(bytes(320)), audio_seconds=60.1),
        TranscribeRequest(model="m", audio=WavRecording(bytes(10_000_000))),
    ):
        with pytest.raises(ProviderRejected, match="60 seconds and 10 MB") as caught:
            google_cloud.transcribe(long, listener)
        assert (caught.value.upstream_status, caught.value.retryable) == (413, True)
    assert vendor.ledger == []
    of_unknown_length = TranscribeRequest(model="m", audio=WavRecording(bytes(int(PCM_16K.sample_rate_hz * 2 * 60.1) // 2 * 2)))
    with pytest.raises(ProviderRejected, match="Sync input too long") as caught:
        await transcribed(of_unknown_length, listener)
    assert (caught.value.fault, caught.value.retryable) == ("request", True)


async def test_an_unknown_model_is_for_another_candidate(listener, vendor, autojump_clock):
    with pytest.raises(ProviderRejected, match="does not exist") as caught:
        await transcribed(TranscribeRequest(model="m", audio=WavRecording(bytes(320))), attrs.evolve(listener, model="nova"))
    assert caught.value.retryable
