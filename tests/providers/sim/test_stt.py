import pytest
import trio

from gw.errors import ProviderRejected, UpstreamCut
from gw.providers.sim import SPEC, fsk
from gw.types.audio import MULAW_8K, PCM_16K, AudioFormat
from gw.types.stt import Final, Interim, ListenEnd, SpeechStarted, TextDelta, TranscribeRequest, UtteranceEnd
from gw.types.usage import Usage
from gw.wire import g711, wav
from gw.wire.convert import converter
from tests.providers.sim.engine import Recording, account, listen, read, transcribe

TEXT = "What is the weather?"
PCM = b"".join(fsk.encode(TEXT, 16_000))


def recording(pcm=PCM, rate=16_000, *, encoding="wav", known_length=True, **kwargs):
    fmt = AudioFormat(encoding=encoding, sample_rate_hz=rate)
    return Recording(wav.header(fmt, len(pcm) if known_length else None) + pcm, **kwargs)


async def text_of(*args, **kwargs):
    return (await transcribe(*args, **kwargs))[-1].text


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000, 48_000])
async def test_a_wav_is_read_at_any_rate(rate):
    assert await text_of(recording(b"".join(fsk.encode("rate", rate)), rate)) == "rate"


@pytest.mark.parametrize("rate", [4_000, 11_025, 12_000, 22_050, 44_100, 96_000, 192_000])
async def test_rates_that_the_voice_does_not_have_are_resampled(rate):
    spoken = converter(PCM_16K, AudioFormat(encoding="pcm_s16le", sample_rate_hz=rate))
    pcm = spoken.feed(PCM) + spoken.end()
    expected = "" if rate == 4_000 else TEXT  # half of its tones are above 2 kHz
    assert await text_of(recording(pcm, rate)) == expected
    raw = AudioFormat(encoding="pcm_s16le", sample_rate_hz=rate)
    assert await text_of(Recording(pcm, piece=999), format=raw) == expected
    async with listen(fmt=raw) as session:
        piece = len(pcm) // 50 | 1  # odd: samples are cut
        for at in range(0, len(pcm), piece):
            await session.send_audio(pcm[at : at + piece])
        await session.finish()
        events = await read(session)
    assert [event.text for event in events if isinstance(event, Final)] == ([expected] if expected else [])
    assert events[-1].usage.audio_seconds == pytest.approx(len(PCM) / 32_000, abs=0.01)


@pytest.mark.parametrize("piece", [1, 43, 1_000])
async def test_a_wav_cut_anywhere(piece):
    assert await text_of(recording(b"".join(fsk.encode("cut", 8_000)), 8_000, piece=piece)) == "cut"


async def test_a_wav_that_does_not_know_its_length():
    assert await text_of(recording(known_length=False)) == TEXT


async def test_chunks_after_the_samples_are_ignored():
    file = recording()
    trailing = Recording(file.data + b"LIST" + PCM)
    events = await transcribe(trailing)
    assert events[-1].text == TEXT
    assert events[-1].duration_s == pytest.approx(fsk.duration_s(TEXT))


async def test_a_telephone_wav():
    narrow = g711.pcm16_to_mulaw(b"".join(fsk.encode("ring", 8_000)))
    assert await text_of(recording(narrow, 8_000, encoding="mulaw")) == "ring"


async def test_raw_samples_of_a_told_format():
    assert await text_of(Recording(PCM), format=PCM_16K) == TEXT


async def test_the_transcript_has_times_and_usage():
    pcm = bytes(32_000) + PCM + b"".join(fsk.encode("And you?", 16_000))
    transcript = (await transcribe(recording(pcm), language="en"))[-1]
    seconds = 1 + fsk.duration_s(TEXT) + fsk.duration_s("And you?")
    assert transcript.text == f"{TEXT} And you?"
    assert [s.text for s in transcript.segments] == [TEXT, "And you?"]
    assert [w.text for w in transcript.words] == [*TEXT.split(), "And", "you?"]
    assert all(1 < w.start_s < w.end_s < seconds for w in transcript.words)
    assert transcript.segments[0].start_s == pytest.approx(1, abs=0.001)
    assert transcript.duration_s == pytest.approx(seconds)
    assert transcript.usage == Usage(audio_seconds=transcript.duration_s, source="vendor")
    assert transcript.language == "en"


async def test_speakers_are_named_when_wanted_and_no_time_is_before_the_recording():
    for diarize, speaker in ((False, None), (True, "0")):
        transcript = (await transcribe(recording(PCM), diarize=diarize))[-1]
        assert {word.speaker for word in transcript.words} == {segment.speaker for segment in transcript.segments} == {speaker}
        assert transcript.segments[0].start_s == 0


async def test_streamed_words_come_before_the_transcript():
    pcm = PCM + b"".join(fsk.encode("And you?", 16_000))
    events = await transcribe(recording(pcm), stream=True)
    deltas = [e.text for e in events[:-1] if isinstance(e, TextDelta)]
    assert deltas == ["What", " is", " the", " weather?", " And", " you?"]
    assert events[-1].text == "".join(deltas)


async def test_without_stream_there_is_the_transcript_only():
    assert len(await transcribe(recording())) == 1


@pytest.mark.parametrize("data", [b"", b"not audio", b"RIFF", b"RIFF\0\0\0\0WAVEgarbage", bytes(5_000)])
async def test_what_cannot_be_understood_is_an_empty_text(data):
    transcript = (await transcribe(Recording(data), audio_seconds=2.5))[-1]
    assert (transcript.text, transcript.duration_s) == ("", 2.5)


async def test_silence_is_an_empty_text_of_its_length():
    transcript = (await transcribe(recording(bytes(32_000))))[-1]
    assert (transcript.text, transcript.segments, transcript.duration_s) == ("", (), 1.0)


@pytest.mark.parametrize(
    ("audio", "fields", "why"),
    [
        (Recording(b"ID3"), {"format": AudioFormat(encoding="mp3")}, "not from mp3"),
        (Recording(PCM), {"format": AudioFormat(encoding="pcm_s16le", sample_rate_hz=3_999)}, "not at 3999"),
    ],
)
async def test_what_cannot_be_read_is_another_candidates_chance(audio, fields, why):
    with pytest.raises(ProviderRejected, match=why) as caught:
        await transcribe(audio, **fields)
    assert caught.value.retryable


async def test_leaving_early_closes_the_recording():
    audio = recording(PCM * 3, piece=1_000)
    request = TranscribeRequest(model="x", audio=audio, stream=True)
    async with SPEC.transcribe(request, account("tone")) as stream:
        await stream.receive()
        assert audio.open == 1
    assert audio.open == 0


async def test_long_audio_leaves_others_their_turn():
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await transcribe(recording(bytes(32_000 * 10)))
        nursery.cancel_scope.cancel()
    assert turns >= 10 / 0.25


async def test_past_the_end():
    request = TranscribeRequest(model="x", audio=recording())
    async with SPEC.transcribe(request, account("tone")) as stream:
        await read(stream)
        with pytest.raises(UpstreamCut):
            await stream.receive()


# --- live -------------------------------------------------------------------------------------------------------------


async def recognized(session, data, piece=640):
    """Everything the session says to `data`, sent in pieces; like an app, which sends and receives at the same time."""

    async def send():
        for at in range(0, len(data), piece):
            await session.send_audio(data[at : at + piece])
        await session.finish()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        return await read(session)


async def test_a_live_utterance():
    async with listen() as session:
        events = await recognized(session, bytes(16_000) + PCM)
    assert isinstance(events[0], SpeechStarted)
    assert events[0].at_s == pytest.approx(0.5, abs=0.001)
    assert [e.text for e in events[1:-3]] == ["What", "What is", "What is the"]
    assert all(isinstance(e, Interim) for e in events[1:-3])
    final, utterance_end, end = events[-3:]
    assert isinstance(final, Final)
    assert final.text == TEXT
    assert [w.text for w in final.words] == TEXT.split()
    assert utterance_end == UtteranceEnd(at_s=final.end_s)
    assert end == ListenEnd(usage=Usage(audio_seconds=0.5 + fsk.duration_s(TEXT), source="vendor"))


async def test_live_speakers_are_named_when_wanted():
    async with listen(diarize=True) as session:
        events = await recognized(session, PCM)
    pieces = [event for event in events if isinstance(event, Interim | Final)]
    assert {word.speaker for piece in pieces for word in piece.words} == {piece.speaker for piece in pieces} == {"0"}
    assert min(piece.start_s for piece in pieces) == 0


async def test_no_interims_when_none_are_wanted():
    async with listen(interim_results=False) as session:
        events = await recognized(session, PCM)
    assert [type(e) for e in events] == [SpeechStarted, Final, UtteranceEnd, ListenEnd]


async def test_live_telephone_audio_in_odd_pieces():
    narrow = g711.pcm16_to_mulaw(b"".join(fsk.encode("hello?", 8_000)))
    async with listen(fmt=MULAW_8K) as session:
        events = await recognized(session, narrow, piece=77)
    assert [e.text for e in events if isinstance(e, Final)] == ["hello?"]


async def test_the_final_comes_before_the_session_ends(autojump_clock):
    async with listen() as session:
        await session.send_audio(PCM)
        events = []
        with trio.fail_after(1):
            while not any(isinstance(e, Final) for e in events):
                events += await session.receive()


async def test_speech_that_breaks_off_ends_without_a_final():
    async with listen() as session:
        events = await recognized(session, PCM[: len(PCM) // 2] + bytes(16_000))
    assert [type(e) for e in events if not isinstance(e, Interim)] == [SpeechStarted, UtteranceEnd, ListenEnd]


async def test_a_sender_waits_when_nobody_listens(autojump_clock):
    async with listen() as session:
        sent = 0
        with trio.move_on_after(1):
            while True:
                await session.send_audio(bytes(640))
                sent += 1
    assert sent == 64


async def test_a_cancelled_receive_loses_nothing(autojump_clock):
    async with listen(account("tone", latency_ms=300)) as session:
        await session.send_audio(PCM)
        await session.finish()
        with trio.move_on_after(0.1):
            await session.receive()
        events = await read(session)
    assert [e.text for e in events if isinstance(e, Final)] == [TEXT]


async def test_finishing_twice_is_harmless_and_reading_on_is_an_error():
    async with listen() as session:
        await session.finish()
        await session.finish()
        assert await session.receive() == [ListenEnd(usage=Usage(source="vendor"))]
        with pytest.raises(UpstreamCut):
            await session.receive()


@pytest.mark.parametrize("fmt", [AudioFormat(encoding="opus"), AudioFormat(encoding="pcm_s16le", sample_rate_hz=3_999)])
async def test_a_live_format_that_cannot_be_read(fmt):
    with pytest.raises(ProviderRejected):
        async with listen(fmt=fmt):
            pytest.fail("the session opened")


async def test_a_waiting_sender_gets_an_error_when_the_session_is_left(autojump_clock):
    async def send():
        while True:
            await session.send_audio(bytes(640))

    async def send_until_cut():
        with pytest.raises(UpstreamCut, match="the session has ended"):
            await send()

    async with trio.open_nursery() as nursery, listen() as session:
        nursery.start_soon(send_until_cut)
        await trio.sleep(1)
