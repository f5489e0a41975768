"""Gemini's speech beside its address in OpenAI's dialect: the address, the key, and the tokens of live speech."""

from __future__ import annotations

import attrs
import pytest

from gw.errors import ProviderRefused
from gw.providers import gemini_speech
from gw.providers.sim import fsk
from gw.providers.spec import spec_of
from gw.types.audio import PCM_24K
from gw.types.secret import Secret
from gw.types.tts import AudioChunk, SpeakEnd, SpeakLiveRequest, SpeakRequest
from tests.fakes.hosting import hosted
from tests.fakes.vendors.gemini import FakeGemini

REQUEST = SpeakRequest(model="m", text="one two three", voice="Kore", format=PCM_24K)


@pytest.fixture
def vendor(net):
    fake = FakeGemini(prefix="/v1beta", api_key="k", speech_pcm=lambda request: b"".join(fsk.encode(request.text, 24_000)))
    net.hosts["generativelanguage.googleapis.com", 443] = hosted(fake)
    return fake


@pytest.fixture
def account(account_at, vendor):
    return attrs.evolve(account_at("gemini", model="gemini-3.8-flash-tts"), api_key=Secret("k"))


async def spoken(call):
    events = []
    async with call as stream:
        while not (events and isinstance(events[-1], SpeakEnd)):
            events += await stream.receive()
    return b"".join(event.data for event in events if isinstance(event, AudioChunk)), events[-1].usage


async def test_speech(account, vendor, autojump_clock):
    pcm, usage = await spoken(gemini_speech.speak(attrs.evolve(REQUEST, instructions="Whisper."), account))
    assert " ".join(done.text for done in fsk.decode(pcm, 24_000)) == "one two three"
    assert (usage.input_tokens, usage.source) == (3, "vendor")
    assert usage.output_tokens == usage.output_audio_tokens == vendor.ledger[0].usage.output_tokens > 0
    (entry,) = vendor.ledger
    assert entry.path == "/v1beta/models/gemini-3.8-flash-tts:streamGenerateContent"
    assert (entry.headers["x-goog-api-key"], "authorization" in entry.headers, entry.fields["style"]) == ("k", False, "Whisper.")


async def test_a_refusal(account, vendor, autojump_clock):
    vendor.refused = "SAFETY"
    with pytest.raises(ProviderRefused):
        await spoken(gemini_speech.speak(REQUEST, account))


async def test_the_tokens_of_live_speech_are_those_of_its_sentences(account, vendor, autojump_clock):
    request = SpeakLiveRequest(model="m", voice="Kore", format=PCM_24K)
    async with spec_of("gemini").speak_live(request, account) as session:
        await session.send_text("This is the first of two sentences. And this here is the second one. ")
        await session.finish()
        events = []
        while not (events and isinstance(events[-1], SpeakEnd)):
            events += await session.receive()
    used = [entry.usage for entry in vendor.ledger]
    assert len(used) == 2
    assert events[-1].usage.output_audio_tokens == sum(usage.output_audio_tokens for usage in used)
    assert (events[-1].usage.input_tokens, events[-1].usage.source) == (14, "vendor")


async def test_an_interruption_leaves_the_tokens_unknown(account, vendor, autojump_clock):
    vendor.speech_gap_s = 1.0
    async with spec_of("gemini").speak_live(SpeakLiveRequest(model="m", voice="Kore", format=PCM_24K), account) as session:
        await session.send_text("One two three four five six seven. ")
        await session.flush()
        assert isinstance((await session.receive())[0], AudioChunk)
        await session.clear()
        await session.send_text("Eight. ")
        await session.finish()
        events = []
        while not (events and isinstance(events[-1], SpeakEnd)):
            events += await session.receive()
    assert events[-1].usage is None
