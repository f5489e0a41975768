"""Lengths of files, cut anywhere, and of arbitrary bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.types.audio import PCM_16K
from gw.wire import wav
from gw.wire.durations import MIN_BYTES_PER_S, PREFIX_BYTES, LengthMeter
from tests.fakes import containers as made

WAV = wav.header(PCM_16K, 32_000) + bytes(32_000)
FILES = {
    "mp3": (made.mp3_frame() * 40, "mp3", 40 * 1_152 / 44_100),
    "aac": (made.adts_frame() * 40, "aac", 40 * 1_024 / 24_000),
    "ogg opus": (made.ogg_opus(7.3), "ogg", 7.3),
    "ogg vorbis": (made.ogg_vorbis(3.5), "ogg", 3.5),
    "flac": (made.flac(2.5), "flac", 2.5),
    "flac as it is made": (made.flac(2.5, declared=False), "flac", 2.5),
    "webm": (made.webm(3.5, declared=True), "webm", 3.5),
    "webm of a browser": (made.webm(3.5, declared=False, live=True), "webm", 3.5),
    "m4a": (made.m4a(12.5), "mp4", 12.5),
    "m4a, movie at the end": (made.m4a(12.5, at_end=True), "mp4", 12.5),
    "m4a in fragments": (made.fragmented_m4a(10), "mp4", 10 * 50 * 1_024 / 44_100),
    "wav": (WAV, "wav", 1.0),
    "wav as it is made": (wav.header(PCM_16K, None) + bytes(32_000), "wav", 1.0),
}


def measured(data, size=65_536, **hints):
    meter = LengthMeter(**hints)
    for at in range(0, len(data), size):
        meter.feed(data[at : at + size])
    return meter


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("size", [7, 1_001, 65_536, 10**9])
def test_a_file_in_pieces(name, size):
    data, encoding, seconds = FILES[name]
    meter = measured(data, size)
    assert meter.format.encoding == encoding
    assert meter.seconds == pytest.approx(seconds, abs=0.001)


@pytest.mark.parametrize("name", FILES)
def test_the_length_so_far(name):
    """An answer that was cut off is as long as what came of it, where the container does not declare the whole."""
    data, _, seconds = FILES[name]
    assert 0 <= measured(data[: len(data) // 2]).seconds <= seconds + 0.001


@pytest.mark.parametrize(
    ("content_type", "filename", "encoding", "seconds"),
    [
        ("audio/pcm;rate=16000", "", "pcm_s16le", 0.25),
        ("audio/basic", "", "mulaw", 1.0),
        ("", "call.ulaw", "mulaw", 1.0),
        ("application/octet-stream", "CALL.AL", "alaw", 1.0),
    ],
)
@pytest.mark.parametrize("size", [100, 65_536])
def test_raw_samples_by_type_or_name(content_type, filename, encoding, seconds, size):
    meter = measured(bytes([1]) * 8_000, size, content_type=content_type, filename=filename)
    assert (meter.format.encoding, meter.seconds) == (encoding, pytest.approx(seconds))


@pytest.mark.parametrize(("content_type", "filename"), [("", ""), ("audio/pcm", "a.pcm"), ("text/plain", "ulaw"), ("", ".")])
@pytest.mark.parametrize("length", [0, 3, PREFIX_BYTES, 100_000])
def test_unrecognised_formats(content_type, filename, length):
    meter = measured(b"words " * (length // 6), content_type=content_type, filename=filename)
    assert (meter.format, meter.seconds) == (None, 0.0)


def test_a_length_beyond_belief_is_cut():
    assert measured(made.m4a(4_000_000.0)).seconds == pytest.approx(len(made.m4a(1)) / MIN_BYTES_PER_S)


def test_only_the_beginning_is_fed_but_the_size_is_known():
    meter = LengthMeter(size=len(WAV))
    meter.feed(WAV[:5_000])
    assert meter.seconds == 1.0


@pytest.mark.parametrize("fed", [100, 5_000])
def test_the_length_of_samples_is_known_from_the_beginning_and_the_size(fed):
    assert measured(WAV[:fed]).seconds_of_samples(len(WAV)) == measured(WAV).seconds == 1.0
    assert measured(bytes(fed), content_type="audio/basic").seconds_of_samples(8_000) == 1.0
    assert measured((made.mp3_frame() * 40)[:fed]).seconds_of_samples(8_000) == 0.0


STARTS = [b"", b"ID3\4\0\0\0\0\0\0", b"\xff\xfb\x90\x40", b"\xff\xf1", b"OggS\0\2", b"fLaC\0\0\0\x22", b"\x1a\x45\xdf\xa3", b"RIFF"]


@given(st.sampled_from(STARTS), st.binary(max_size=400), st.integers(1, 64))
def test_any_bytes_raise_nothing(start, remaining, size):
    meter = measured(start + remaining, size)
    assert 0.0 <= meter.seconds <= len(start + remaining) / MIN_BYTES_PER_S or meter.format.encoding == "wav"


@given(st.sampled_from(sorted(FILES)), st.data())
def test_a_damaged_file_raises_nothing(name, data):
    file = bytearray(FILES[name][0][:6_000])
    for _ in range(data.draw(st.integers(1, 4))):
        file[data.draw(st.integers(0, min(len(file), 300) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(1, 6_000))
    assert measured(bytes(file), cut).seconds >= 0.0
