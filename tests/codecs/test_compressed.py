"""Without the library; for encoding and decoding with it see tests/clients/test_audio.py."""

from __future__ import annotations

import sys

import pytest

from gw.codecs.compressed import converter, needs_library, require
from gw.types.audio import MULAW_8K, PCM_16K, AudioFormat
from gw.wire.convert import CannotConvert
from gw.wire.durations import LengthMeter

MP3 = AudioFormat(encoding="mp3")


@pytest.fixture
def _without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)


def test_raw_audio_needs_no_library():
    convert = converter(PCM_16K, MULAW_8K)
    assert len(convert.feed(bytes(6_400)) + convert.end()) == 1_600
    assert converter(PCM_16K, PCM_16K) is None
    assert converter(MP3, MP3) is None


@pytest.mark.parametrize("encoding", ["opus", "aac", "flac", "ogg"])
@pytest.mark.usefixtures("_without_the_library")
def test_the_extra_is_named(encoding):
    other = AudioFormat(encoding=encoding)
    with pytest.raises(CannotConvert, match=r"with its extra 'audio'") as caught:
        converter(PCM_16K, other)
    assert caught.value.extra == "audio"
    for source, target in ((other, PCM_16K), (other, MP3)):
        with pytest.raises(CannotConvert, match=r"with its extra 'audio'"):
            converter(source, target)
    with pytest.raises(CannotConvert, match=r"with its extra 'audio'"):
        require(PCM_16K, other)


@pytest.mark.usefixtures("_without_the_library")
def test_mp3_is_encoded_without_the_library_but_not_decoded():
    require(PCM_16K, MP3)
    made = converter(MULAW_8K, MP3)
    data = b"".join(made.feed(b"\x55" * 160) for _ in range(50)) + made.end()
    meter = LengthMeter()
    meter.feed(data)
    assert meter.seconds == pytest.approx(1.0, abs=0.2)
    with pytest.raises(CannotConvert, match=r"with its extra 'audio'"):
        require(MP3, PCM_16K)


@pytest.mark.parametrize(
    ("source_hz", "wanted_hz", "expected_hz"),
    [
        (24_000, 0, 48_000), (22_050, 0, 44_100), (8_000, 0, 48_000), (24_000, 22_050, 22_050), (24_000, 15_000, 16_000),
        (24_000, 96_000, 48_000),
    ],
)  # fmt: skip
def test_mp3_has_the_rate_requested_or_a_usual_one(source_hz, wanted_hz, expected_hz):
    source = AudioFormat(encoding="pcm_s16le", sample_rate_hz=source_hz)
    made = converter(source, AudioFormat(encoding="mp3", sample_rate_hz=wanted_hz))
    assert _rate_of(made.feed(bytes(source_hz)) + made.end()) == expected_hz


def _rate_of(mp3: bytes) -> int:
    """Return the sample rate in the header of an MPEG frame."""
    divisor = {3: 1, 2: 2, 0: 4}[mp3[1] >> 3 & 3]
    return (44_100, 48_000, 32_000)[mp3[2] >> 2 & 3] // divisor


@pytest.mark.usefixtures("_without_the_library")
def test_nothing_is_required_where_nothing_is_compressed():
    require(PCM_16K, MULAW_8K)
    require(MP3, MP3)
    assert needs_library(MP3, PCM_16K)
    assert not needs_library(PCM_16K, MP3)
    assert not needs_library(PCM_16K, MULAW_8K)


def test_an_impossible_conversion_names_no_library():
    with pytest.raises(CannotConvert) as caught:
        converter(AudioFormat(encoding="unknown"), PCM_16K)
    assert caught.value.extra == ""
