"""Without the library; for decoding with it see tests/clients/test_audio.py."""

from __future__ import annotations

import sys

import pytest

from gw.codecs.live_decoder import LiveDecoder, require
from gw.types.audio import PCM_16K, AudioFormat
from gw.wire import wav
from gw.wire.convert import CannotConvert

SAMPLES = bytes(range(256)) * 25
UNKNOWN = AudioFormat(encoding="unknown")
WAV = wav.header(PCM_16K, len(SAMPLES)) + SAMPLES
HEADS = {
    "ogg": b"OggS" + bytes(40), "webm": b"\x1a\x45\xdf\xa3" + bytes(40), "flac": b"fLaC" + bytes(60), "mp3": b"ID3" + bytes(40),
    "aac": b"\xff\xf1" + bytes(40), "opus": bytes(40),
}  # fmt: skip


@pytest.fixture
def _without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)


@pytest.mark.parametrize("fmt", [UNKNOWN, AudioFormat(encoding="wav"), AudioFormat(encoding="ogg")], ids=lambda f: f.encoding)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_a_wav_needs_no_library(fmt, step):
    decoder = LiveDecoder(fmt) if fmt.encoding != "ogg" else LiveDecoder(UNKNOWN)
    assert b"".join(decoder.feed(WAV[at : at + step]) for at in range(0, len(WAV), step)) + decoder.end() == SAMPLES


def test_a_wav_of_another_rate():
    decoder = LiveDecoder(UNKNOWN)
    fmt = AudioFormat(encoding="pcm_s16le", sample_rate_hz=8_000)
    built = decoder.feed(wav.header(fmt, None) + bytes(1_600)) + decoder.end()
    assert len(built) == pytest.approx(3_200, abs=100)


@pytest.mark.usefixtures("_without_the_library")
@pytest.mark.parametrize("encoding", HEADS)
def test_the_extra_is_named(encoding):
    with pytest.raises(CannotConvert, match=r"with its extra 'audio'") as caught:
        require(AudioFormat(encoding=encoding))
    assert caught.value.extra == "audio"
    if encoding != "opus":   # which nothing tells but who announces it
        with pytest.raises(CannotConvert, match=r"with its extra 'audio'"):
            LiveDecoder(UNKNOWN).feed(HEADS[encoding])


def test_formats_that_cannot_be_decoded():
    with pytest.raises(CannotConvert) as caught:
        require(AudioFormat(encoding="mp4"))
    assert caught.value.extra == ""
    decoder = LiveDecoder(UNKNOWN)
    assert decoder.feed(b"RIF") == b""
    assert decoder.end() == b""
    for data in (b"no sound at all", b"more"):
        with pytest.raises(CannotConvert):
            decoder.feed(data)
