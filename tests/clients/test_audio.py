"""Compressed audio with the real library (PyAV): there and back, in pieces, and the lengths that we measure of it."""

from __future__ import annotations

import contextlib
import io
import math
import random
from array import array
from contextlib import asynccontextmanager
from itertools import pairwise

import av
import pytest
import trio

from gw.codecs.compressed import converter
from gw.codecs.live_decoder import LiveDecoder
from gw.errors import UpstreamProtocolError
from gw.providers.sim import fsk
from gw.relay.transcoding import TranscodedCall
from gw.types.audio import MULAW_8K, PCM_16K, PCM_24K, AudioFormat
from gw.types.ids import Caller
from gw.types.stt import Final, ListenRequest
from gw.types.tts import AudioChunk, SpeakEnd, SpeakLiveRequest
from gw.wire import wav
from gw.wire.containers.frames import format_of
from gw.wire.containers.ogg import OggPackets
from gw.wire.convert import CannotConvert
from gw.wire.durations import LengthMeter
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.openai import FakeOpenAI
from tests.fakes.vendors.piper import FakePiper

pytestmark = pytest.mark.clients

SECONDS = 3.0
FORMATS = ["mp3", "opus", "ogg", "aac", "flac"]


def sine(rate, hz=440):
    return array("h", (round(12_000 * math.sin(2 * math.pi * hz * n / rate)) for n in range(int(rate * SECONDS)))).tobytes()


def converted(source, target, data, size=641):
    convert = converter(source, target)
    return b"".join(convert.feed(data[at : at + size]) for at in range(0, len(data), size)) + convert.end()


def strongest_hz(pcm, rate):
    """Crossings of zero, upwards, per second: exact enough for one tone."""
    samples = array("h", pcm)
    middle = samples[rate // 2 : -rate // 2]
    return sum(a < 0 <= b for a, b in pairwise(middle)) / (len(middle) / rate)


@pytest.mark.parametrize("encoding", FORMATS)
@pytest.mark.parametrize("source", [PCM_24K, PCM_16K])
def test_there_and_back(encoding, source):
    made = converted(source, AudioFormat(encoding=encoding), sine(source.sample_rate_hz))
    meter = LengthMeter()
    meter.feed(made)
    assert meter.seconds == pytest.approx(SECONDS, abs=0.1)
    back = converted(AudioFormat(encoding=encoding), PCM_24K, made, 1_000)
    assert len(back) / 48_000 == pytest.approx(SECONDS, abs=0.1)
    assert strongest_hz(back, 24_000) == pytest.approx(440, rel=0.01)


@pytest.mark.parametrize("encoding", ["mp3", "opus", "aac"])
def test_it_is_passed_on_as_it_is_made(encoding):
    convert = converter(PCM_24K, AudioFormat(encoding=encoding))
    half = convert.feed(sine(24_000)[: 24_000 * 2])
    assert len(half) > 1_000


def test_from_a_wav_and_to_one():
    file = wav.header(PCM_24K, None) + sine(24_000)
    mp3 = converted(AudioFormat(encoding="wav", sample_rate_hz=24_000), AudioFormat(encoding="mp3"), file)
    back = converted(AudioFormat(encoding="mp3"), AudioFormat(encoding="wav", sample_rate_hz=16_000), mp3)
    assert wav.parse(back).format.sample_rate_hz == 16_000
    assert strongest_hz(back[44:], 16_000) == pytest.approx(440, rel=0.01)


@pytest.mark.parametrize("encoding", ["mp3", "opus", "aac", "flac", "webm"])
def test_what_is_no_audio(encoding):
    with pytest.raises(CannotConvert):
        assert converted(AudioFormat(encoding=encoding), PCM_16K, b"this is no sound at all " * 900) == b"silence"
    assert converted(AudioFormat(encoding=encoding), PCM_16K, b"") == b""


class Spoken:
    """A provider's stream of one format, in small pieces."""

    def __init__(self, fmt, data):
        self.format = fmt
        self._pieces = [data[at : at + 4_800] for at in range(0, len(data), 4_800)]

    async def receive(self):
        return [AudioChunk(data=self._pieces.pop(0))] if self._pieces else [SpeakEnd()]


async def as_the_relay_passes_it_on(sent, requested, data):
    @asynccontextmanager
    async def opening():
        yield Spoken(sent, data)

    lists = []
    async with TranscodedCall(opening(), requested, "p", idle_s=10) as stream:
        while not lists or not isinstance(lists[-1][-1], SpeakEnd):
            lists.append(await stream.receive())
        return stream.format, [event.data for events in lists for event in events if isinstance(event, AudioChunk)]


@pytest.mark.parametrize("encoding", FORMATS)
async def test_the_relay_converts_while_a_provider_speaks(encoding):
    requested = AudioFormat(encoding=encoding)
    fmt, pieces = await as_the_relay_passes_it_on(PCM_24K, requested, sine(24_000))
    assert fmt == requested
    assert len(pieces) > (1 if encoding == "flac" else 5)
    assert strongest_hz(converted(requested, PCM_24K, b"".join(pieces)), 24_000) == pytest.approx(440, rel=0.01)


async def test_the_relay_makes_samples_of_an_mp3():
    mp3 = converted(PCM_24K, AudioFormat(encoding="mp3"), sine(24_000))
    fmt, pieces = await as_the_relay_passes_it_on(AudioFormat(encoding="mp3"), MULAW_8K, mp3)
    assert fmt == MULAW_8K
    assert len(b"".join(pieces)) / 8_000 == pytest.approx(SECONDS, abs=0.15)


async def test_an_mp3_that_is_none_is_the_providers_fault():
    with pytest.raises(UpstreamProtocolError) as caught:
        await as_the_relay_passes_it_on(AudioFormat(encoding="mp3"), PCM_16K, b"this is no sound at all " * 900)
    assert caught.value.provider == "p"


CHAIN = """
providers:
  piper: {base_url: "http://piper.test"}
  kokoro: {base_url: "http://kokoro.test/v1"}
models: {tts: [piper/en_US-lessac-medium, kokoro/kokoro]}
fallbacks: {tts: [piper/en_US-lessac-medium, kokoro/kokoro]}
"""


async def test_a_fallback_keeps_the_form_of_the_sound(tmp_path):
    """OpenAI's default, mp3, by a vendor that has WAV only, and by the next one when it fails."""
    piper = FakePiper(speech_pcm=sine(22_050), rate_hz=22_050)
    async with open_plane(CHAIN, tmp_path) as plane:
        plane.net.hosts["piper.test", 80] = hosted(piper)
        plane.net.hosts["kokoro.test", 80] = hosted(FakeOpenAI(speech_pcm=converted(PCM_24K, AudioFormat(encoding="mp3"), sine(24_000))))
        for status, answered_by in ((200, "piper/en_US-lessac-medium"), (500, "kokoro/kokoro")):
            piper.status = status
            reply = await plane.post("/v1/audio/speech", b'{"model":"default","voice":"alloy","input":"Hello."}')
            assert (reply.headers["x-gw-model"], reply.headers["content-type"]) == (answered_by, "audio/mpeg")
            assert strongest_hz(converted(AudioFormat(encoding="mp3"), PCM_24K, reply.body), 24_000) == pytest.approx(440, rel=0.01)
            assert plane.kept.records[-1].usage.audio_seconds == pytest.approx(SECONDS, abs=0.1)


async def test_live_speech_in_mp3(tmp_path):
    """The end of the last frame comes too."""
    text = "Hello there, this is spoken live. And this as well."
    async with open_plane("providers: {sim: }\nmodels: {tts: [sim/tone]}", tmp_path) as plane:
        request = SpeakLiveRequest(model="sim/tone", format=AudioFormat(encoding="mp3", sample_rate_hz=24_000))
        async with plane.gateway.relay.speak_live(request, Caller()) as session:
            await session.send_text(text)
            await session.finish()
            events = []
            while not session.done:
                events += await session.receive()
    mp3 = b"".join(event.data for event in events if isinstance(event, AudioChunk))
    pcm = converted(AudioFormat(encoding="mp3"), PCM_24K, mp3)
    expected = sum(fsk.duration_s(part) for part in ("Hello there, this is spoken live.", "And this as well."))
    assert len(pcm) / 48_000 == pytest.approx(expected, abs=0.1)


# ---- decoded as it comes


def packed(pcm, container, codec, rate, **options):
    """Samples of 16 kHz in a container, as an app writes it."""
    out = io.BytesIO()
    with av.open(out, "w", format=container, options=options) as made:
        stream = made.add_stream(codec, rate=rate)
        stream.layout = "mono"
        frame = av.AudioFrame(format="s16", layout="mono", samples=len(pcm) // 2)
        frame.sample_rate = 16_000
        frame.planes[0].update(pcm.ljust(frame.planes[0].buffer_size, b"\0"))
        resampler = av.AudioResampler(format=stream.format.name, layout="mono", rate=rate)
        for piece in [*resampler.resample(frame), *resampler.resample(None), None]:
            for packet in stream.encode(piece):
                made.mux(packet)
    return out.getvalue()


LIVE = {
    "ogg": ("ogg", "libopus", 48_000),
    "webm": ("webm", "libopus", 48_000),
    "flac": ("flac", "flac", 16_000),
    "mp3": ("mp3", "libmp3lame", 16_000),
    "aac": ("adts", "aac", 16_000),
    "wav": ("wav", "pcm_s16le", 16_000),
}
SENTENCE = "hello there, everybody 🎈"


def spoken_words():
    return b"".join(fsk.encode(SENTENCE, 16_000)) + bytes(16_000)


def words_of(pcm):
    return [event.text for event in fsk.ToneDecoder(16_000).feed(pcm) if isinstance(event, fsk.Done)]


@pytest.mark.parametrize("declared", ["unknown", "itself"])
@pytest.mark.parametrize("step", [1, 333, 1_000_000])
@pytest.mark.parametrize("encoding", LIVE)
def test_a_live_stream_is_decoded_as_it_comes(encoding, step, declared):
    data = packed(spoken_words(), *LIVE[encoding])
    decoder = LiveDecoder(AudioFormat(encoding="unknown" if declared == "unknown" else encoding))
    made = b"".join(decoder.feed(data[at : at + step]) for at in range(0, len(data), step)) + decoder.end()
    assert words_of(made) == [SENTENCE]
    assert len(made) / 2 == pytest.approx(len(spoken_words()) / 2, abs=2_400)


def test_bare_opus_packets():
    packets = OggPackets().feed(packed(spoken_words(), *LIVE["ogg"]))
    decoder = LiveDecoder(AudioFormat(encoding="opus"))
    assert words_of(b"".join(map(decoder.feed, packets)) + decoder.end()) == [SENTENCE]


@pytest.mark.parametrize("encoding", LIVE)
def test_a_live_stream_that_turns_into_rubbish(encoding):
    """Never another error, and no endless loop."""
    data = packed(spoken_words(), *LIVE[encoding])
    for seed in range(20):
        spoiled = bytearray(data)
        rng = random.Random(seed)
        for _ in range(50):
            spoiled[rng.randrange(20, len(spoiled))] = rng.randrange(256)
        decoder = LiveDecoder(AudioFormat(encoding="unknown"))
        with contextlib.suppress(CannotConvert):
            for at in range(0, len(spoiled), 500):
                decoder.feed(bytes(spoiled[at : at + 500]))
            decoder.end()


@pytest.mark.parametrize("encoding", ["ogg", "webm", "mp3"])
async def test_an_app_sends_a_container_to_a_provider_that_takes_samples(tmp_path, encoding):
    """And the recorder of a browser goes on when a provider breaks off. By the real clock: threads decode."""
    text = """
providers: {bad: {type: sim, cut_after: 3}, good: {type: sim}}
models: {stt: {bad/tone: {}, good/tone: {}}}
fallbacks: {stt: [bad/tone, good/tone]}
"""
    sentences = ["one two three", "four", "five six"]
    pcm = b"".join(b"".join(fsk.encode(each, 16_000)) + bytes(8_000) for each in sentences)
    data = packed(pcm, *LIVE[encoding])
    async with open_plane(text, tmp_path) as plane:
        request = ListenRequest(model="bad/tone", format=AudioFormat(encoding="unknown"))
        transcripts = []
        async with plane.gateway.relay.listen(request, Caller()) as session, trio.open_nursery() as nursery:
            nursery.start_soon(_send_slowly, session, data)
            while not session.done:
                transcripts += [event.text for event in await session.receive() if isinstance(event, Final)]
        assert transcripts == sentences
        record = plane.kept.record
        assert [attempt.outcome for attempt in record.attempts] == ["cut", "ok"]


async def _send_slowly(session, data):
    for at in range(0, len(data), 400):
        await session.send_audio(data[at : at + 400])
        await trio.sleep(0.01)
    await session.finish()


@pytest.mark.parametrize("encoding", ["mp3", "aac"])
async def test_frames_of_another_rate_are_made_anew_to_go_on(encoding):
    """A stream of 44.1 kHz is continued by a vendor whose frames have 24 kHz."""
    slow, fast = (AudioFormat(encoding=encoding, sample_rate_hz=rate) for rate in (24_000, 44_100))
    made = converted(PCM_24K, slow, sine(24_000))

    class Stream:
        format = AudioFormat(encoding=encoding)

        def __init__(self):
            self._pieces = [made[at : at + 1_000] for at in range(0, len(made), 1_000)]

        async def receive(self):
            return [AudioChunk(data=self._pieces.pop(0))] if self._pieces else [SpeakEnd()]

    @asynccontextmanager
    async def opening():
        yield Stream()

    data, events = b"", []
    async with TranscodedCall(opening(), fast, "p", idle_s=10, goes_on=True) as stream:
        while not any(isinstance(event, SpeakEnd) for event in events):
            events = await stream.receive()
            data += b"".join(event.data for event in events if isinstance(event, AudioChunk))
        assert stream.format == fast
    first = format_of(data)
    assert (first.encoding, first.sample_rate_hz, first.channels) == (encoding, 44_100, 1)
    pcm = converted(AudioFormat(encoding=encoding), PCM_24K, data)
    assert strongest_hz(pcm, 24_000) == pytest.approx(440, abs=3)
