"""What a provider is asked for, and what becomes of its answer. Compressed audio itself is in tests/clients/test_audio.py."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from gw.errors import CandidateSkipped, UpstreamProtocolError, UpstreamSlow
from gw.providers.spec import ProviderSpec
from gw.relay.transcoding import TranscodedCall, continues, provider_format, slices
from gw.types.audio import MULAW_8K, PCM_16K, PCM_24K, AudioFormat
from gw.types.tts import AudioChunk, SpeakEnd
from gw.wire import wav
from gw.wire.durations import LengthMeter
from tests.fakes import containers as made

SPEC = ProviderSpec(type="x", base_url="https://x.test", dialect="x")
WAV_48K = AudioFormat(encoding="wav", sample_rate_hz=48_000)
WAV_24K = AudioFormat(encoding="wav", sample_rate_hz=24_000)
MP3 = AudioFormat(encoding="mp3")
MP3_22K = AudioFormat(encoding="mp3", sample_rate_hz=22_050, kbit_per_s=32)
MP3_44K = AudioFormat(encoding="mp3", sample_rate_hz=44_100)
OPUS = AudioFormat(encoding="opus")


def offering(*formats, rates=()):
    return attrs.evolve(SPEC, speak_formats=frozenset(formats), speak_rates_hz=frozenset(rates))


@pytest.fixture
def _without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)


@pytest.mark.parametrize(
    ("wanted", "spec", "asked"),
    [
        (PCM_16K, offering("pcm_s16le", "mp3"), PCM_16K),
        (MP3, offering("mp3", rates=[24_000]), MP3),
        (MP3, offering(), MP3),
        (PCM_16K, offering("pcm_s16le", rates=[8_000, 24_000]), PCM_24K),
        (PCM_24K, offering("pcm_s16le", rates=[8_000, 16_000]), PCM_16K),
        (PCM_24K, offering("wav", "mp3", "mulaw"), WAV_24K),
        (MULAW_8K, offering("pcm_s16le", "wav", rates=[16_000]), PCM_16K),
        (MULAW_8K, offering("mulaw", rates=[8_000]), MULAW_8K),
        (AudioFormat(encoding="alaw", sample_rate_hz=8_000), offering("mulaw"), MULAW_8K),
        (WAV_48K, offering("pcm_s16le", rates=[24_000]), PCM_24K),
        (MP3, offering("pcm_s16le", "wav"), PCM_24K),
        (MP3_22K, offering("pcm_s16le", "mp3", rates=[16_000, 24_000, 48_000]), PCM_24K),
        (MP3_22K, attrs.evolve(offering("pcm_s16le", "mp3"), makes_mp3=lambda fmt: fmt == MP3_22K), MP3_22K),
        (MP3_22K, offering(), MP3_22K),
    ],
)
@pytest.mark.usefixtures("_without_the_library")
def test_a_provider_is_asked_for_what_it_can_make(wanted, spec, asked):
    assert provider_format(wanted, spec, "p") == asked


@pytest.mark.parametrize(("wanted", "formats"), [(OPUS, ["pcm_s16le"]), (PCM_24K, ["mp3"]), (MP3, ["aac"])])
@pytest.mark.usefixtures("_without_the_library")
def test_without_the_library_the_candidate_is_passed_over(wanted, formats):
    with pytest.raises(CandidateSkipped, match=r"with its extra 'audio'") as caught:
        provider_format(wanted, offering(*formats), "p")
    assert (caught.value.reason, caught.value.retryable, caught.value.provider) == ("missing_ability", True, "p")


class Stream:
    def __init__(self, fmt, *pieces, end=True):
        self.format = fmt
        self._events = [[AudioChunk(data=piece)] for piece in pieces] + [[SpeakEnd()]]

    async def receive(self):
        return self._events.pop(0)


async def told(sent, asked, *pieces, goes_on=False):
    @asynccontextmanager
    async def opening():
        yield Stream(sent, *pieces)

    async with TranscodedCall(opening(), asked, "p", idle_s=10, goes_on=goes_on) as stream:
        events = []
        while not events or not isinstance(events[-1], SpeakEnd):
            events += await stream.receive()
        return stream.format, b"".join(event.data for event in events if isinstance(event, AudioChunk))


async def test_samples_become_the_rate_and_code_asked_for():
    fmt, data = await told(PCM_16K, MULAW_8K, bytes(3_200), bytes(3_201))
    assert (fmt, len(data)) == (MULAW_8K, 1_600)


async def test_the_header_of_a_wav_tells_its_rate():
    head = wav.header(WAV_48K, None)
    fmt, data = await told(AudioFormat(encoding="wav", sample_rate_hz=48_000), PCM_24K, head[:20], head[20:] + bytes(9_600))
    assert (fmt, len(data)) == (PCM_24K, 4_800)


async def test_the_first_of_a_large_piece_goes_out_before_the_rest_is_made():
    """Converting a second of speech takes some 50 ms, in which nobody else would be served."""

    @asynccontextmanager
    async def opening():
        yield Stream(PCM_24K, bytes(48_000), bytes(9_601))

    lengths = []
    async with TranscodedCall(opening(), PCM_16K, "p", idle_s=10) as stream:
        events = []
        while not events or not isinstance(events[-1], SpeakEnd):
            events = await stream.receive()
            lengths += [len(event.data) for event in events if isinstance(event, AudioChunk)]
    assert lengths[0] == pytest.approx(640, abs=20)
    assert max(lengths) < 3_300
    assert sum(lengths) == pytest.approx((48_000 + 9_600) * 2 / 3, abs=4)


async def test_a_call_that_can_be_aborted_still_can():
    class Call:
        def abort(self):
            raise KeyError

    with pytest.raises(KeyError):
        TranscodedCall(Call(), PCM_16K, "p", idle_s=10).abort()

    @asynccontextmanager
    async def opening():
        yield

    assert TranscodedCall(opening(), PCM_16K, "p", idle_s=10).abort is None


def test_a_piece_is_cut_to_what_is_converted_at_once():
    assert [len(piece) for piece in slices(bytes(12_000), PCM_24K, first=True)] == [960, 4_800, 4_800, 1_440]
    assert [len(piece) for piece in slices(bytes(4_800), PCM_24K, first=False)] == [4_800]
    assert [len(piece) for piece in slices(bytes(5_000), AudioFormat(encoding="mp3"), first=False)] == [500] * 10
    assert list(slices(b"", PCM_24K, first=True)) == []


async def test_what_cannot_be_converted_is_told_as_it_is():
    odd = AudioFormat(encoding="unknown")
    assert await told(odd, PCM_16K, b"?" * 10) == (odd, b"?" * 10)


@pytest.mark.usefixtures("_without_the_library")
async def test_without_the_library_an_answer_in_another_form_is_told_as_it_is():
    assert await told(WAV_24K, OPUS, b"RIFF") == (WAV_24K, b"RIFF")


@pytest.mark.usefixtures("_without_the_library")
async def test_samples_become_mp3_while_they_come():
    @asynccontextmanager
    async def opening():
        yield Stream(PCM_24K, *[bytes(9_600)] * 10)

    lists = []
    async with TranscodedCall(opening(), MP3, "p", idle_s=10) as stream:
        while not lists or not isinstance(lists[-1][-1], SpeakEnd):
            lists.append(await stream.receive())
        assert stream.format == MP3
    pieces = [event.data for events in lists for event in events if isinstance(event, AudioChunk)]
    meter = LengthMeter()
    meter.feed(b"".join(pieces))
    assert meter.seconds == pytest.approx(2.0, abs=0.06)
    assert len(pieces) > 10


async def test_what_was_asked_for_passes_untouched():
    assert await told(MP3, MP3, b"ID3", b"more") == (MP3, b"ID3more")


async def test_samples_of_no_known_kind_are_a_fault_of_the_provider():
    eight_bit = bytearray(wav.header(WAV_24K, 100))
    eight_bit[34] = 8
    with pytest.raises(UpstreamProtocolError) as caught:
        await told(WAV_24K, PCM_16K, bytes(eight_bit) + bytes(100))
    assert caught.value.provider == "p"


# ---- sound that drips


class Paced:
    """Pieces of sound, each after so many seconds."""

    def __init__(self, fmt, pieces):
        self.format = fmt
        self._pieces = list(pieces)

    async def receive(self):
        if not self._pieces:
            return [SpeakEnd()]
        wait_s, data = self._pieces.pop(0)
        await trio.sleep(wait_s)
        return [AudioChunk(data=data)]


async def read_paced(fmt, pieces, *, held_s=0.0):
    @asynccontextmanager
    async def opening():
        yield Paced(fmt, pieces)

    data = b""
    async with TranscodedCall(opening(), fmt, "p", idle_s=10) as stream:
        while True:
            for event in await stream.receive():
                if isinstance(event, SpeakEnd):
                    return data
                data += event.data
            await trio.sleep(held_s)


SECOND = b"\1\2" * 16_000


@pytest.mark.parametrize("fmt", [PCM_16K, MP3])
@pytest.mark.parametrize("before", [[], [(0.1, SECOND)], [(0.1, SECOND)] * 30])
async def test_sound_that_drips_is_a_failure(fmt, before, autojump_clock):
    with pytest.raises(UpstreamSlow, match="of sound in"), trio.fail_after(20):
        await read_paced(fmt, [*before, *[(1, b"\0\0")] * 100])


@pytest.mark.parametrize(
    "pieces",
    [
        [(14, b"\0\0"), (0.1, SECOND)],                       # the first sound has a bound of its own
        [(0.1, SECOND), (14, SECOND), (14, SECOND)],          # a sentence now and then
        [(0.02, SECOND[:640])] * 500,
        [(1, SECOND[:16_000])] * 60,
        [(0.1, b"\0\0"), (9, b"\0\0")],
    ],
)
async def test_sound_that_goes_on(pieces, autojump_clock):
    assert await read_paced(PCM_16K, pieces) == b"".join(data for _, data in pieces)


async def test_a_slow_caller_is_not_the_providers_fault(autojump_clock):
    assert len(await read_paced(PCM_16K, [(0.1, b"\0\0")] * 50, held_s=5)) == 100


@pytest.mark.usefixtures("_without_the_library")
async def test_frames_that_go_on_are_read_to_see_if_they_are_of_the_same_kind():
    data = made.id3(300) + made.mp3_frame() * 4
    pieces = data[:5], data[5:200], data[200:]
    assert await told(MP3, MP3_44K, *pieces, goes_on=True) == (MP3_44K, data)
    assert continues(MP3_44K, MP3_44K)
    fmt, same = await told(MP3, MP3_22K, *pieces, goes_on=True)
    assert (fmt.sample_rate_hz, same) == (44_100, data), "it cannot be decoded"
    assert not continues(fmt, MP3_22K)


@pytest.mark.usefixtures("_without_the_library")
@pytest.mark.parametrize("data", [made.mp3_frame()[:3], b"no frame" * 10])
async def test_what_has_no_frame_does_not_go_on(data):
    fmt, _ = await told(MP3, MP3_44K, data, goes_on=True)
    assert not continues(fmt, MP3_44K)
