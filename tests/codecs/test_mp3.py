"""The encoder alone; its output is decoded in tests/clients/test_audio.py."""

from __future__ import annotations

import math
from array import array
from itertools import pairwise

import pytest

from gw.codecs.mp3 import RATES_HZ, Mp3Encoder, has_bit_rate
from gw.types.audio import PCM_24K, AudioFormat
from gw.wire.containers.frames import mpeg_frame
from gw.wire.convert import CannotConvert
from gw.wire.durations import LengthMeter

SECONDS = 2.0


def tone(rate_hz, channels=1):
    samples = (round(9_000 * math.sin(2 * math.pi * 440 * n / rate_hz)) for n in range(int(rate_hz * SECONDS)))
    return array("h", (sample for sample in samples for _ in range(channels))).tobytes()


def encoded(pcm, data, size=960):
    encoder = Mp3Encoder(pcm)
    return b"".join(encoder.feed(data[at : at + size]) for at in range(0, len(data), size)) + encoder.end()


def measured(data):
    meter = LengthMeter()
    meter.feed(data)
    return meter.format, meter.seconds


@pytest.mark.parametrize("rate_hz", [*RATES_HZ, 15_000, 96_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_every_rate_is_encoded_without_change_of_length(rate_hz, channels):
    pcm = AudioFormat(encoding="pcm_s16le", sample_rate_hz=rate_hz, channels=channels)
    fmt, seconds = measured(encoded(pcm, tone(rate_hz, channels)))
    assert fmt is not None
    assert fmt.encoding == "mp3"
    assert SECONDS <= seconds <= SECONDS + 0.06, "an MP3 has whole frames, and the encoder's delay before the first"


def test_the_output_does_not_depend_on_how_the_input_is_cut():
    data = tone(24_000)
    whole = encoded(PCM_24K, data, len(data))
    assert [encoded(PCM_24K, data, size) == whole for size in (1, 641, 4_800)] == [True] * 3


def test_a_frame_is_returned_as_soon_as_it_is_complete():
    """A listener waits for two frames, 48 ms of speech, not for the end."""
    encoder, data = Mp3Encoder(PCM_24K), tone(24_000)
    first = encoder.feed(data[: 48 * 48])
    assert first[:1] == b"\xff"
    assert first[1] & 0xE0 == 0xE0, "an MPEG frame begins with eleven set bits, and nothing is before the first frame"
    sizes = [len(encoder.feed(data[at : at + 960])) for at in range(48 * 48, len(data), 960)]
    assert max(a + b for a, b in pairwise(sizes)) < 1_000, "64 kbit/s are 160 bytes in 20 ms"
    assert 0.9 < sum(sizes) / (len(data) / 48_000 * 8_000) < 1.1


def test_nothing_becomes_nothing():
    encoder = Mp3Encoder(PCM_24K)
    assert (encoder.feed(b""), encoder.feed(b"\1"), encoder.end()) == (b"", b"", b"")


def test_every_bit_rate_that_mp3_has():
    """Each sample rate with each of its bit rates; others are refused before anything is encoded."""
    cells, data = 0, tone(24_000)[:9_600]
    for rate_hz in RATES_HZ:
        for kbit in range(8, 321, 8):
            if not has_bit_rate(rate_hz, kbit):
                with pytest.raises(CannotConvert, match=f"mp3 of {rate_hz} Hz cannot have {kbit} kbit/s"):
                    Mp3Encoder(PCM_24K, rate_hz, kbit)
                continue
            encoder = Mp3Encoder(PCM_24K, rate_hz, kbit)
            mp3, at, cells = encoder.feed(data) + encoder.end(), 0, cells + 1
            while at + 4 <= len(mp3):
                size, samples, rate = mpeg_frame(mp3[at : at + 4])
                assert (
                    rate,
                    (size + 1) * 8 * rate // samples // 1_000 >= kbit >= (size - 1) * 8 * rate // samples // 1_000,
                ) == (rate_hz, True)
                at += size
    assert cells == 3 * 14 + 3 * 14 + 3 * 8


def test_a_long_piece_is_encoded_at_any_rate():
    encoder = Mp3Encoder(PCM_24K, 48_000, 320)
    assert measured(encoder.feed(tone(24_000)) + encoder.end())[1] == pytest.approx(SECONDS, abs=0.06)
