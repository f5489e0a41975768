"""xAI's sessions and requests of speech: what is sent where, the silence of a flush, utterances, and what the vendor refuses."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from gw.errors import ProviderFailed, ProviderRejected, RateLimitError, UpstreamCut, UpstreamProtocolError
from gw.providers.sim import fsk
from gw.providers.spec import spec_of
from gw.types.audio import PCM_16K, PCM_24K, AudioFormat
from gw.types.secret import Secret
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, TranscribeRequest, UtteranceEnd
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakLiveRequest, SpeakRequest, WordTiming
from tests.fakes.hosting import hosted
from tests.fakes.recording import recognized, wav_of
from tests.fakes.vendors.xai import FakeXai

MODEL = "grok-voice-transcribe-2.0"
REQUEST = ListenRequest(model="m", format=PCM_16K, dialect="deepgram")
LIVE = SpeakLiveRequest(model="m", voice="ara", format=PCM_24K)
HELLO = b"".join(fsk.encode("hello there", 16_000))
SPEC = spec_of("xai")


@pytest.fixture
def vendor(net):
    fake = FakeXai(api_key="k")
    net.hosts["api.x.ai", 443] = hosted(fake)
    return fake


@pytest.fixture
def account(account_at, vendor):
    return attrs.evolve(account_at("xai", model=MODEL), api_key=Secret("k"))


@pytest.fixture
def speaker(account):
    return attrs.evolve(account, model="grok-tts")


async def until(session, kind):
    events = []
    while not any(isinstance(event, kind) for event in events):
        events += await session.receive()
    return events


def test_one_entry_has_all_modalities():
    assert SPEC.modalities == ("stt", "llm", "tts")
    assert SPEC.converse is not None


async def test_a_session(account, vendor, autojump_clock):
    request = attrs.evolve(REQUEST, language="de", keyterms=("Acme",), endpointing_ms=200)
    async with SPEC.listen(request, account) as session:
        for at in range(0, len(HELLO), 3_200):
            await session.send_audio(HELLO[at : at + 3_200])
        await session.send_audio(bytes(32_000))
        events = await until(session, UtteranceEnd)
        await session.finish()
        assert await session.receive() == [ListenEnd()]
        with pytest.raises(UpstreamCut):
            await session.receive()
    assert isinstance(events[0], Interim)
    assert [event.text for event in events if isinstance(event, Final)] == ["hello there"]
    (seen,) = vendor.ledger
    assert (seen.path, seen.headers["authorization"]) == ("/v1/stt", "Bearer k")
    wanted = {
        "model": MODEL, "language": "de", "keyterm": ["Acme"], "endpointing": "200", "interim_results": "true", "encoding": "pcm",
        "sample_rate": "16000",
    }  # fmt: skip
    assert {name: seen.fields[name] for name in wanted} == wanted


async def test_a_flush_ends_the_utterance_and_is_counted(account, vendor, autojump_clock):
    vendor.endpoint_s = 1.0  # it waits for the silence that the session sets
    async with SPEC.listen(REQUEST, account) as session:
        await session.send_audio(HELLO)
        await session.flush()
        events = await until(session, Final)
        assert session.padding_s == pytest.approx(0.7)
    assert [event.text for event in events if isinstance(event, Final)] == ["hello there"]


async def test_what_was_said_last_comes_with_the_end(account, vendor, autojump_clock):
    vendor.endpoint_s = 1.0
    async with SPEC.listen(attrs.evolve(REQUEST, endpointing_ms=5_000, interim_results=False), account) as session:
        await session.send_audio(HELLO + bytes(32_000))
        await session.finish()
        events = await until(session, ListenEnd)
    assert [event.text for event in events if isinstance(event, Final)] == ["hello there"]


async def test_speakers_of_a_session(account, vendor, autojump_clock):
    async with SPEC.listen(attrs.evolve(REQUEST, diarize=True), account) as session:
        await session.send_audio(HELLO + bytes(32_000))
        final = next(event for event in await until(session, Final) if isinstance(event, Final))
    assert [word.speaker for word in final.words] == ["0", "1"]


async def test_sessions_that_fail(account, vendor, autojump_clock):
    for other in (attrs.evolve(account, api_key=Secret("other")), attrs.evolve(account, model="m")):
        with pytest.raises(ProviderRejected):
            async with SPEC.listen(REQUEST, other):
                raise AssertionError
    vendor.status = [429]
    with pytest.raises(RateLimitError):
        async with SPEC.listen(REQUEST, account):
            raise AssertionError
    vendor.session_error_after = 1
    async with SPEC.listen(REQUEST, account) as session:
        await session.send_audio(bytes(320))
        with pytest.raises(ProviderFailed, match="scripted failure"):
            await session.receive()


async def test_a_recording(account, vendor, autojump_clock):
    request = TranscribeRequest(model="m", audio=wav_of(bytes(32_000)), language="en-US", keyterms=("Acme", "gw"), diarize=True)
    (transcript,) = await recognized(SPEC.transcribe(request, account))
    assert (transcript.text, transcript.usage.audio_seconds, transcript.usage.source) == ("Hello there.", 1.0, "vendor")
    assert [word.speaker for word in transcript.words] == ["0", "1"]
    (seen,) = vendor.ledger
    assert (seen.method, seen.path, seen.headers["authorization"]) == ("POST", "/v1/stt", "Bearer k")
    assert seen.fields == {"model": MODEL, "language": "en", "diarize": "true", "keyterm": ["Acme", "gw"], "format": "true"}


async def test_a_malformed_transcript(account, vendor, autojump_clock):
    vendor.malformed = True
    with pytest.raises(UpstreamProtocolError):
        await recognized(SPEC.transcribe(TranscribeRequest(model="m", audio=wav_of(bytes(320))), account))


@pytest.mark.parametrize("encoding", sorted(SPEC.speak_formats))
async def test_speech(encoding, speaker, vendor, autojump_clock):
    fmt = AudioFormat(encoding=encoding, sample_rate_hz=24_000)
    if encoding == "mp3":
        vendor.speech_pcm = bytes(4_800)
    request = SpeakRequest(model="m", text="Hi.", voice="ara", format=fmt, speed=1.2)
    async with SPEC.speak(request, speaker) as stream:
        data, events = b"", await stream.receive()
        while not isinstance(events[-1], SpeakEnd):
            data += b"".join(event.data for event in events if isinstance(event, AudioChunk))
            events = await stream.receive()
    assert data
    (seen,) = vendor.ledger
    assert (seen.path, seen.fields["voice_id"], seen.fields["language"], seen.fields["speed"]) == ("/v1/tts", "ara", "auto", 1.2)
    assert seen.fields["output_format"]["codec"] == {"pcm_s16le": "pcm"}.get(encoding, encoding)


async def test_live_speech(speaker, vendor, autojump_clock):
    async with SPEC.speak_live(attrs.evolve(LIVE, language="en-GB", speed=0.9), speaker) as session:
        await session.send_text("One two. ")
        await session.flush()
        await session.send_text("Three.")
        first = await until(session, Flushed)
        await session.finish()
        second = await until(session, SpeakEnd)
    words = [event for event in first + second if isinstance(event, WordTiming)]
    assert [word.word for word in words] == ["One", "two.", "Three."]
    assert sum(len(event.data) for event in first if isinstance(event, AudioChunk)) / 48_000 <= words[2].start_s
    (seen,) = vendor.ledger
    assert (seen.path, seen.headers["authorization"], seen.fields["text"]) == ("/v1/tts", "Bearer k", "One two. Three.")
    assert seen.fields["query"] == "voice=ara&language=en&codec=pcm&sample_rate=24000&with_timestamps=true&speed=0.9"


async def test_an_interruption(speaker, vendor, autojump_clock):
    vendor.speech_gap_s = 0.1
    async with SPEC.speak_live(LIVE, speaker) as session:
        await session.send_text("A long sentence that nobody hears to its end. ")
        await session.flush()
        await until(session, AudioChunk)
        await session.clear()
        await session.send_text("No.")
        await session.finish()
        events = await until(session, SpeakEnd)
    assert [event.word for event in events if isinstance(event, WordTiming)] == ["No."]
    assert not any(isinstance(event, Flushed) for event in events)


async def test_waiting_for_an_event_that_no_frame_brings(speaker, vendor, nursery, autojump_clock):
    received = trio.Event()

    async def receive(session):
        assert await session.receive() == [Flushed()]
        received.set()

    async with SPEC.speak_live(LIVE, speaker) as session:
        nursery.start_soon(receive, session)
        await trio.testing.wait_all_tasks_blocked()
        await session.flush()
        await received.wait()


async def test_another_model_speaks_nothing(account, vendor):
    with pytest.raises(ProviderRejected, match="grok-tts only"):
        SPEC.speak(SpeakRequest(model="m", text="Hi.", voice="ara", format=PCM_24K), account)
    with pytest.raises(ProviderRejected, match="grok-tts only"):
        async with SPEC.speak_live(LIVE, account):
            raise AssertionError
    assert vendor.ledger == []
