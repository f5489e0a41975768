import pytest
import trio

from gw.errors import ProviderRejected, UpstreamCut
from gw.providers.sim import SPEC, fsk
from gw.types.audio import MULAW_8K, PCM_16K, PCM_24K, AudioFormat
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakRequest
from gw.types.usage import Usage
from gw.wire import wav
from tests.providers.sim.engine import account, read, speak, speak_live

TEXT = "It is sunny in Paris."


def audio_of(events):
    return b"".join(e.data for e in events if isinstance(e, AudioChunk))


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000, 48_000])
async def test_pcm_at_the_asked_rate(rate):
    requested = AudioFormat(encoding="pcm_s16le", sample_rate_hz=rate)
    fmt, events = await speak(TEXT, requested)
    assert fmt == requested
    assert [done.text for done in fsk.decode(audio_of(events), rate)] == [TEXT]


async def test_audio_comes_in_small_pieces_and_then_the_usage():
    _, events = await speak(TEXT, PCM_24K)
    assert max(len(e.data) for e in events[:-1]) <= PCM_24K.bytes_per_second * 0.08
    assert len(events) > 20
    seconds = fsk.duration_s(TEXT)
    assert events[-1] == SpeakEnd(usage=Usage(characters=len(TEXT), audio_seconds=seconds, source="vendor"))
    assert PCM_24K.seconds(len(audio_of(events))) == pytest.approx(seconds)


async def test_other_formats_come_as_wav():
    fmt, events = await speak(TEXT, AudioFormat(encoding="mp3"))
    assert fmt == AudioFormat(encoding="wav", sample_rate_hz=24_000)
    info = wav.parse(audio_of(events))
    assert info.data_bytes == len(audio_of(events)) - info.data_offset


async def test_telephone():
    fmt, events = await speak(TEXT, MULAW_8K)
    assert fmt == MULAW_8K
    assert len(audio_of(events)) == round(fsk.duration_s(TEXT) * 8_000)


@pytest.mark.parametrize("text", ["", "x" * 20_000])
async def test_a_text_of_no_or_too_many_characters_is_the_callers_fault(text):
    with pytest.raises(ProviderRejected) as caught:
        await speak(text, PCM_16K)
    assert caught.value.fault == "caller"


async def test_the_longest_text_fits_whatever_its_characters():
    request = SpeakRequest(model="x", text="🎈" * 16_383, format=PCM_16K)
    async with SPEC.speak(request, account("tone")) as stream:
        assert isinstance((await stream.receive())[0], AudioChunk)


async def test_past_the_end():
    async with SPEC.speak(SpeakRequest(model="x", text="a", format=PCM_16K), account("tone")) as stream:
        await read(stream)
        with pytest.raises(UpstreamCut):
            await stream.receive()


async def test_chunks_take_their_time(autojump_clock):
    before = trio.current_time()
    _, events = await speak("a", PCM_16K, account("tone", token_ms=40))
    assert trio.current_time() - before == pytest.approx(0.04 * (len(events) - 1))


# --- live -------------------------------------------------------------------------------------------------------------


async def test_sentences_are_spoken_when_they_are_complete(autojump_clock):
    async with speak_live(PCM_16K) as session:
        for piece in ["Hello", " there. ", "How are"]:
            await session.send_text(piece)
        events = []
        with trio.move_on_after(1):
            while True:
                events += await session.receive()
        assert [d.text for d in fsk.decode(audio_of(events), 16_000)] == ["Hello there."]
        await session.send_text(" you?")
        await session.finish()
        events = await read(session)
    assert [d.text for d in fsk.decode(audio_of(events), 16_000)] == ["How are you?"]
    usage = events[-1].usage
    assert usage.characters == len("Hello there. How are you?")
    assert usage.audio_seconds == pytest.approx(fsk.duration_s("Hello there.") + fsk.duration_s("How are you?"))


async def test_a_flush_speaks_what_is_there_and_says_so(autojump_clock):
    async with speak_live(PCM_16K) as session:
        await session.send_text("no full stop")
        await session.flush()
        events = []
        with trio.fail_after(1):
            while Flushed() not in events:
                events += await session.receive()
        assert [d.text for d in fsk.decode(audio_of(events), 16_000)] == ["no full stop"]


async def test_nothing_to_say():
    async with speak_live(PCM_16K) as session:
        await session.flush()
        await session.finish()
        assert await read(session) == [Flushed(), SpeakEnd(usage=Usage(source="vendor"))]
        with pytest.raises(UpstreamCut):
            await session.receive()


async def test_a_live_container_becomes_raw_audio():
    async with speak_live(AudioFormat(encoding="wav", sample_rate_hz=16_000)) as session:
        assert session.format == PCM_16K


async def test_a_text_without_sentences_does_not_pile_up(autojump_clock):
    async with speak_live(PCM_16K) as session:
        await session.send_text("word " * 4_000)
        with trio.fail_after(1):
            assert isinstance((await session.receive())[0], AudioChunk)


async def test_a_cancelled_receive_loses_nothing(autojump_clock):
    async with speak_live(PCM_16K, account("tone", latency_ms=300)) as session:
        await session.send_text(TEXT)
        await session.finish()
        with trio.move_on_after(0.1):
            await session.receive()
        events = await read(session)
    assert [d.text for d in fsk.decode(audio_of(events), 16_000)] == [TEXT]
