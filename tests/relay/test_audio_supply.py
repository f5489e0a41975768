from __future__ import annotations

import pytest

from gw.relay.audio_supply import AudioLength, Supply, ends_loud
from gw.types.audio import MULAW_8K, PCM_16K, PCM_24K, AudioFormat
from gw.wire import g711, wav
from tests.fakes.word_voice import SENTENCE, WordVoice

MP3 = AudioFormat(encoding="mp3")
LOUD, QUIET = b"\x00\x20" * 800, b"\x10\x00" * 800


def test_the_length_of_samples():
    length = AudioLength(PCM_24K)
    assert (length.add(bytes(24_000)), length.add(bytes(24_000))) == (0.5, 0.5)
    assert (length.seconds, length.bytes) == (1.0, 48_000)


def test_the_length_of_compressed_audio():
    frames = WordVoice().mp3(SENTENCE, MP3)
    length = AudioLength(MP3)
    assert sum(length.add(frame) for frame in frames) == pytest.approx(length.seconds)
    assert length.seconds == pytest.approx(len(frames) * 576 / 24_000, abs=0.1)


def test_the_length_of_what_cannot_be_read():
    length = AudioLength(AudioFormat(encoding="unknown"))
    length.add(b"x" * 10_000)
    assert (length.seconds, length.bytes) == (0.0, 10_000)


@pytest.mark.parametrize(
    ("pieces", "since"),
    [
        ([(1, 0.1), (2, 0.1), (3, 0.1)], 0),
        ([(1, 1.0), (2, 1.0)], 2),
        ([(1, 5.0), (8, 0.1), (9, 0.1)], 1),
        ([(1, 0.4), (2, 0.6)], 2),
    ],
    ids=["drips", "real time", "ahead, then drips", "half as fast"],
)
def test_audio_that_keeps_up(pieces, since):
    supply = Supply(0.0)
    for at, seconds in pieces:
        supply.add(seconds, at)
    assert supply.since == since


@pytest.mark.parametrize(("data", "loud"), [(LOUD, True), (QUIET, False), (LOUD + QUIET, False), (QUIET + LOUD, True)])
@pytest.mark.parametrize("fmt", [PCM_16K, AudioFormat(encoding="wav", sample_rate_hz=16_000), MULAW_8K], ids=lambda fmt: fmt.encoding)
def test_an_end_in_the_middle_of_a_sound(fmt, data, loud):
    tail = g711.pcm16_to_mulaw(data) if fmt is MULAW_8K else data
    assert ends_loud(tail, fmt, 0) is loud


@pytest.mark.parametrize("before", [0, 1, 7, len(wav.header(PCM_16K, None))])
def test_pieces_may_cut_a_sample(before):
    stream = b"\0" * before + b"\0" * (before % 2) + QUIET * 3
    assert ends_loud(stream[before:], PCM_16K, before) is False


def test_what_says_nothing_about_its_end():
    assert ends_loud(b"x" * 100, MP3, 0) is None
    assert ends_loud(b"", PCM_16K, 0) is None
    assert ends_loud(b"x", PCM_16K, 0) is None
