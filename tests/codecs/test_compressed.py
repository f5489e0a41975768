"""Without the library; for encoding and decoding with it see tests/clients/test_audio.py."""

from __future__ import annotations

import sys

import pytest

from gw.codecs.compressed import converter, is_compressed, require
from gw.types.audio import MULAW_8K, PCM_16K, AudioFormat
from gw.wire.convert import CannotConvert

MP3 = AudioFormat(encoding="mp3")


@pytest.fixture
def _without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)


def test_raw_audio_needs_no_library():
    convert = converter(PCM_16K, MULAW_8K)
    assert len(convert.feed(bytes(6_400)) + convert.end()) == 1_600
    assert converter(PCM_16K, PCM_16K) is None
    assert converter(MP3, MP3) is None


@pytest.mark.parametrize("encoding", ["mp3", "opus", "aac", "flac", "ogg"])
@pytest.mark.usefixtures("_without_the_library")
def test_the_extra_is_named(encoding):
    other = AudioFormat(encoding=encoding)
    with pytest.raises(CannotConvert, match=r"install gw\[audio\]") as caught:
        converter(PCM_16K, other)
    assert caught.value.extra == "audio"
    with pytest.raises(CannotConvert, match=r"install gw\[audio\]"):
        converter(other, PCM_16K)
    with pytest.raises(CannotConvert, match=r"install gw\[audio\]"):
        require(PCM_16K, other)


@pytest.mark.usefixtures("_without_the_library")
def test_nothing_is_required_where_nothing_is_compressed():
    require(PCM_16K, MULAW_8K)
    require(MP3, MP3)
    assert is_compressed(PCM_16K, MP3)
    assert not is_compressed(PCM_16K, MULAW_8K)


def test_an_impossible_conversion_names_no_library():
    with pytest.raises(CannotConvert) as caught:
        converter(AudioFormat(encoding="unknown"), PCM_16K)
    assert caught.value.extra == ""
