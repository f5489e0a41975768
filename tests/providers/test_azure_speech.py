"""Azure Speech's requests: what is sent, what comes back, and which host of the vendor gets it."""

from __future__ import annotations

import attrs
import pytest

from gw.errors import ProviderRejected, UpstreamProtocolError
from gw.net.http1 import Origin
from gw.providers import azure_speech
from gw.providers.recording_call import WavRecording
from gw.providers.sim import fsk
from gw.types.audio import PCM_16K, PCM_24K, AudioFormat
from gw.types.secret import Secret
from gw.types.stt import Final, ListenEnd, ListenRequest, TranscribeRequest
from gw.types.tts import SpeakEnd, SpeakLiveRequest, SpeakRequest
from tests.fakes.hosting import hosted
from tests.fakes.recording import spoken
from tests.fakes.vendors.azure_speech import FakeAzureSpeech

SOUND = bytes(range(256)) * 20
ADDRESS = "https://eastus.api.cognitive.microsoft.com"
VOICE = "en-US-AvaMultilingualNeural"


@pytest.fixture
def vendor(net):
    fake = FakeAzureSpeech(api_key="k", speech_pcm=SOUND)
    services = ("eastus.tts.speech.microsoft.com", "eastus.stt.speech.microsoft.com")
    for host in ("eastus.api.cognitive.microsoft.com", *services, "mine.cognitiveservices.azure.com"):
        net.hosts[host, 443] = hosted(fake)
    return fake


@pytest.fixture
def account(account_at, vendor):
    at = account_at("azure_speech", base_url=ADDRESS, model="neural")
    return attrs.evolve(at, api_key=Secret("k"))


def request(**more):
    return SpeakRequest(**{"model": "m", "text": "Hello there.", "voice": VOICE, "format": PCM_24K, **more})


async def test_speech(account, vendor, autojump_clock):
    assert await spoken(azure_speech.speak(request(language="de-DE", speed=0.8), account)) == (PCM_24K, SOUND)
    (entry,) = vendor.ledger
    assert (entry.path, entry.headers["host"]) == ("/cognitiveservices/v1", "eastus.tts.speech.microsoft.com")
    assert entry.headers["content-type"] == "application/ssml+xml"
    assert entry.headers["x-microsoft-outputformat"] == "raw-24khz-16bit-mono-pcm"
    assert entry.headers["ocp-apim-subscription-key"] == "k"
    assert "authorization" not in entry.headers
    assert entry.fields == {"text": "Hello there.", "voice": VOICE, "language": "de-DE", "speed": 0.8}


async def test_a_resource_with_a_name_of_its_own(account, vendor, autojump_clock):
    account = attrs.evolve(account, origin=Origin.parse("https://mine.cognitiveservices.azure.com"))
    await spoken(azure_speech.speak(request(), account))
    assert vendor.ledger[0].path == "/tts/cognitiveservices/v1"
    await azure_speech.check(account)
    assert vendor.ledger[1].path == "/tts/cognitiveservices/voices/list"


async def test_the_characters_that_are_billed(account, vendor, autojump_clock):
    async with azure_speech.speak(request(text="漢字", speed=2.0), account) as stream:
        while not isinstance((end := (await stream.receive())[-1]), SpeakEnd):
            pass
    assert (end.usage.characters, end.usage.source) == (4 + len('<prosody rate="2"></prosody>'), "measured")
    live = SpeakLiveRequest(model="m", voice=VOICE, format=PCM_24K)
    async with azure_speech.SPEC.speak_live(live, account) as session:
        await session.send_text("漢字 is the first sentence. And this here is the second one.")
        await session.finish()
        while not isinstance((end := (await session.receive())[-1]), SpeakEnd):
            pass
    assert end.usage.characters == len("漢字 is the first sentence. And this here is the second one.") + 2


async def test_live_speech_at_a_rate_that_the_vendor_does_not_have(account, vendor, autojump_clock):
    fmt = AudioFormat(encoding="pcm_s16le", sample_rate_hz=32_000)
    async with azure_speech.SPEC.speak_live(SpeakLiveRequest(model="m", voice=VOICE, format=fmt), account) as session:
        await session.send_text("One sentence.")
        await session.finish()
        sound = 0
        while not isinstance((event := (await session.receive())[-1]), SpeakEnd):
            sound += len(event.data)
    assert vendor.ledger[0].headers["x-microsoft-outputformat"] == "raw-48khz-16bit-mono-pcm"
    assert sound == pytest.approx(len(SOUND) * 2 / 3, rel=0.05)


async def test_mulaw(account, vendor, autojump_clock):
    fmt = AudioFormat(encoding="mulaw", sample_rate_hz=8_000)
    received, sound = await spoken(azure_speech.speak(request(format=fmt), account))
    assert (received, len(sound)) == (fmt, len(SOUND) // 2)


@pytest.mark.parametrize(
    ("model", "voice", "words"),
    [("neural", "", "no voice"), ("neural", "en-US-Ava:DragonHDLatestNeural", "model neural-hd"), ("neural-hd", VOICE, "model neural")],
)
async def test_a_voice_of_another_price_is_refused(model, voice, words, account):
    with pytest.raises(ProviderRejected, match=words) as caught:
        azure_speech.speak(request(voice=voice), attrs.evolve(account, model=model))
    assert (caught.value.fault, caught.value.retryable) == ("candidate", True)


async def test_a_page_of_a_proxy_is_no_speech(account, vendor, net, autojump_clock):
    async def page(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": b"<html>"})

    net.hosts["eastus.tts.speech.microsoft.com", 443] = hosted(page)
    with pytest.raises(UpstreamProtocolError):
        await spoken(azure_speech.speak(request(), account))


async def test_a_session(account, vendor, autojump_clock):
    said = "one two three"
    pcm = b"".join(fsk.encode(said, 16_000)) + bytes(32_000)
    asked = ListenRequest(model="m", format=PCM_16K, language="en-GB", keyterms=("Contoso",))
    async with azure_speech.listen(asked, attrs.evolve(account, model="standard")) as session:
        for at in range(0, len(pcm), 3_200):
            await session.send_audio(pcm[at : at + 3_200])
        await session.flush()
        await session.finish()
        events = []
        while not events or not isinstance(events[-1], ListenEnd):
            events += await session.receive()
    assert [event.text for event in events if isinstance(event, Final)] == [said]
    assert session.padding_s == pytest.approx(1.0)
    (entry,) = vendor.ledger
    assert (entry.path, entry.headers["host"]) == (
        "/speech/recognition/conversation/cognitiveservices/v1", "eastus.stt.speech.microsoft.com",
    )  # fmt: skip
    assert entry.headers["ocp-apim-subscription-key"] == "k"
    assert {"language": "en-GB", "terms": ["Contoso"]}.items() <= entry.fields.items()


async def test_a_recording(account, vendor, autojump_clock):
    asked = TranscribeRequest(model="m", audio=WavRecording(bytes(32_000)), language="en", keyterms=("Contoso",))
    async with azure_speech.transcribe(asked, attrs.evolve(account, model="standard")) as stream:
        (transcript,) = await stream.receive()
    assert (transcript.text, transcript.usage.audio_seconds) == ("Hello there.", 1.0)
    (entry,) = vendor.ledger
    assert (entry.path, entry.headers["host"]) == ("/speechtotext/transcriptions:transcribe", "eastus.api.cognitive.microsoft.com")
    assert (entry.fields["locales"], entry.fields["phrase_list"].phrases) == (["en-US"], ["Contoso"])


async def test_a_model_of_speech_has_no_recordings(account):
    with pytest.raises(ProviderRejected, match="model standard"):
        azure_speech.transcribe(TranscribeRequest(model="m", audio=WavRecording(b"")), account)
