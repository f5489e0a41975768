from __future__ import annotations

import math
import random
from array import array

import pytest

from gw.types.audio import MULAW_8K, PCM_16K, AudioFormat
from gw.wire import g711
from gw.wire.ear import Ear

RATE = 16_000


def tone(seconds, level, rate=RATE):
    return array("h", [int(level * math.sin(0.7 * n)) for n in range(int(seconds * rate))]).tobytes()


def noise(seconds, level, seed=1, rate=RATE):
    chance = random.Random(seed)
    return array("h", [max(-32_768, min(32_767, int(chance.gauss(0, level)))) for _ in range(int(seconds * rate))]).tobytes()


def talk(seconds, level=6_000, behind=30):
    """Syllables of a fifth of a second with short dips between them, over a little noise."""
    pcm = b""
    while len(pcm) < seconds * RATE * 2:
        pcm += tone(0.16, level) + noise(0.04, behind, seed=len(pcm))
    return pcm[: int(seconds * RATE) * 2]


def feed(ear, pcm, frame_s=0.02, rate=RATE):
    size = int(frame_s * rate) * 2
    return sum(ear.feed(pcm[at : at + size]) for at in range(0, len(pcm), size))


@pytest.mark.parametrize("frame_s", [0.01, 0.02, 0.04, 0.1, 0.25])
def test_speech_is_heard_in_frames_of_any_length(frame_s):
    ear = Ear(PCM_16K)
    assert feed(ear, bytes(32_000) + talk(1.0) + bytes(32_000), frame_s) == pytest.approx(1.0, abs=0.25)
    assert ear.at_s == pytest.approx(3.0)
    assert ear.speech_until_s == pytest.approx(2.0, abs=0.1)
    (sound,) = ear.sounds
    assert (sound.start_s, sound.end_s) == pytest.approx((1.0, 2.0), abs=0.1)


def test_silence_is_none():
    ear = Ear(PCM_16K)
    assert feed(ear, bytes(64_000)) == feed(ear, noise(3.0, 20)) == 0
    assert ear.speech_until_s == 0.0


@pytest.mark.parametrize("click_s", [0.02, 0.1, 0.16])
def test_clicks_are_no_speech(click_s):
    ear = Ear(PCM_16K)
    for _ in range(20):
        assert feed(ear, tone(click_s, 20_000) + bytes(32_000)) == 0


def test_a_short_word_is_speech_from_its_beginning():
    ear = Ear(PCM_16K)
    assert feed(ear, tone(0.3, 5_000)) == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize("level", [300, 900, 2_500])
def test_background_noise_is_speech_for_four_seconds_at_most(level):
    ear = Ear(PCM_16K)
    feed(ear, bytes(64_000))
    assert feed(ear, noise(4.6, level)) <= 4.6
    assert feed(ear, noise(60.0, level)) == 0


@pytest.mark.parametrize("behind", [60, 300, 600])
def test_who_speaks_over_noise_is_heard_however_long(behind):
    ear = Ear(PCM_16K)
    feed(ear, noise(6.0, behind))
    heard = [feed(ear, talk(5.0, 9_000, behind)) for _ in range(12)]
    assert min(heard) > 3.5


def test_when_the_noise_has_gone_soft_speech_is_heard():
    ear = Ear(PCM_16K)
    feed(ear, noise(10.0, 1_500))
    feed(ear, bytes(3_200))
    assert feed(ear, talk(1.0, 1_500)) > 0.7


def test_disregarded_audio_is_no_speech_until_it_has_been_quiet():
    ear = Ear(PCM_16K)
    assert feed(ear, talk(2.0, 4_000)) > 1.5
    ear.disregard()
    assert feed(ear, talk(10.0, 4_500)) == 0
    assert feed(ear, talk(2.0, 12_000)) > 1.0
    ear.disregard()
    assert feed(ear, talk(1.0, 4_000)) == 0
    feed(ear, bytes(64_000))
    assert feed(ear, talk(2.0, 4_000)) > 0.9


def test_more_speech_is_needed_after_a_mistake():
    ear = Ear(PCM_16K)
    feed(ear, tone(0.3, 5_000))
    ear.disregard()
    feed(ear, bytes(96_000))
    assert feed(ear, tone(0.3, 5_000) + bytes(64_000)) == 0
    assert feed(ear, tone(0.5, 5_000)) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("encoding", ["mulaw", "alaw", "pcm_f32le"])
def test_every_raw_encoding_is_heard(encoding):
    pcm = bytes(8_000) + tone(1.0, 6_000, rate=8_000) + bytes(8_000)
    samples = array("h", pcm)
    data = {
        "mulaw": lambda: g711.pcm16_to_mulaw(pcm),
        "alaw": lambda: g711.pcm16_to_alaw(pcm),
        "pcm_f32le": lambda: array("f", [sample / 32_768 for sample in samples]).tobytes(),
    }[encoding]()
    fmt = AudioFormat(encoding=encoding, sample_rate_hz=8_000)
    ear = Ear(fmt)
    size = fmt.bytes_per_second // 50
    assert sum(ear.feed(data[at : at + size]) for at in range(0, len(data), size)) == pytest.approx(1.0, abs=0.05)
    assert ear.hears
    assert ear.at_s == pytest.approx(2.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3e38])
def test_a_float_that_is_no_sample_is_no_sound(value):
    fmt = AudioFormat(encoding="pcm_f32le", sample_rate_hz=8_000)
    ear = Ear(fmt)
    data = array("f", [value] * 160).tobytes()
    assert sum(ear.feed(data) for _ in range(50)) == 0.0
    assert ear.sounds == []
    assert ear.at_s == pytest.approx(1.0)


@pytest.mark.parametrize(("encoding", "sample_bytes"), [("pcm_s16le", 2), ("pcm_f32le", 4), ("mulaw", 1), ("alaw", 1)])
def test_pieces_of_any_length_are_heard_as_far_as_they_have_whole_samples(encoding, sample_bytes):
    fmt = AudioFormat(encoding=encoding, sample_rate_hz=16_000)
    for size in range(80):
        ear = Ear(fmt)
        ear.feed(bytes(size))
        assert ear.at_s == pytest.approx(size / fmt.bytes_per_second if size >= sample_bytes else 0.0)


def test_the_loudest_of_the_samples_examined_counts_whatever_its_sign():
    for level in (2_000, -2_000):
        for at in range(0, 320, 8):
            ear = Ear(PCM_16K)
            samples = array("h", bytes(640))
            samples[at] = level
            ear.feed(samples.tobytes())
            assert ear.loud_until_s == 0.02


def test_odd_bytes_and_stereo():
    ear = Ear(AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000, channels=2))
    assert feed(ear, tone(2.0, 5_000), 0.04) == pytest.approx(1.0, abs=0.05)
    assert Ear(PCM_16K).feed(b"\1") == 0
    assert Ear(MULAW_8K).feed(b"") == 0


def test_compressed_audio_is_not_heard():
    ear = Ear(AudioFormat(encoding="ogg"))
    assert ear.feed(b"\xff" * 10_000) == 0
    assert not ear.hears
    assert not ear.is_complete


def test_the_speech_between_two_times():
    ear = Ear(PCM_16K)
    feed(ear, talk(1.0) + bytes(64_000) + talk(1.0))
    assert len(ear.sounds) == 2
    assert ear.speech_between(0.0) == pytest.approx(2.0, abs=0.4)
    assert ear.speech_between(1.5) == pytest.approx(1.0, abs=0.2)
    assert ear.speech_between(0.0, 2.0) == pytest.approx(1.0, abs=0.2)
    ear.forget(1.5)
    assert len(ear.sounds) == 1
    ear.forget(5.0)
    feed(ear, talk(1.0))
    assert len(ear.sounds) == 1


def test_what_a_transcript_without_times_covers():
    """The first speech at least, and what began before the time from which the recogniser may not have heard all."""
    ear = Ear(PCM_16K)
    feed(ear, talk(1.0) + bytes(16_000) + talk(1.0) + bytes(16_000) + talk(0.1))
    assert len(ear.runs) == 2
    assert ear.covered_until(1.2, 0.0) == 1.2
    assert ear.covered_until(2.2, 0.0) == pytest.approx(1.35, abs=0.1)
    assert ear.covered_until(2.2, 1.6) == 2.2
    assert ear.covered_until(3.1, 1.6) == pytest.approx(2.85, abs=0.1)  # what has just begun may become speech
    ear.forget(1.4)
    assert ear.covered_until(2.2, 0.0) == 2.2
    assert ear.covered_until(3.1, 0.0) == pytest.approx(2.85, abs=0.1)
    ear.forget(5.0)
    assert ear.covered_until(3.1, 0.0) == 3.1


def test_sounds_are_bounded():
    ear = Ear(PCM_16K)
    for _ in range(600):
        feed(ear, tone(0.04, 5_000) + bytes(35_200), 0.04)
    assert len(ear.sounds) == 512
    assert not ear.is_complete
