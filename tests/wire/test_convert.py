import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.types.audio import MULAW_8K, PCM_16K, PCM_24K, AudioFormat
from gw.wire import g711, wav
from gw.wire.convert import CannotConvert, converter, silence

FLOAT_16K = AudioFormat(encoding="pcm_f32le", sample_rate_hz=16_000)
STEREO_16K = AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000, channels=2)
ALAW_8K = AudioFormat(encoding="alaw", sample_rate_hz=8_000)
PCM_8K = AudioFormat(encoding="pcm_s16le", sample_rate_hz=8_000)


def sine(rate, hz=440, seconds=0.5, loud=12_000):
    return array("h", (round(loud * math.sin(2 * math.pi * hz * n / rate)) for n in range(int(rate * seconds))))


def built(source, target, data, size=641):
    """Converted in pieces of an odd size."""
    convert = converter(source, target)
    out = b"".join(convert.feed(data[at : at + size]) for at in range(0, len(data), size))
    return out + convert.end()


def samples(data):
    return array("h", data)


def noise_ratio_db(got, wanted):
    """Signal to noise, sample by sample: nothing is delayed."""
    assert len(got) == pytest.approx(len(wanted), abs=1)
    pairs = list(zip(got, wanted, strict=False))[60:-60]
    noise = sum((a - b) ** 2 for a, b in pairs) or 1
    return 10 * math.log10(sum(b * b for _, b in pairs) / noise)


def test_nothing_to_do():
    assert converter(PCM_16K, PCM_16K) is None


@pytest.mark.parametrize("encoding", ["ogg", "mp3", "opus", "unknown"])
def test_compressed_audio_is_refused(encoding):
    other = AudioFormat(encoding=encoding, sample_rate_hz=16_000)
    with pytest.raises(CannotConvert):
        converter(other, PCM_16K)
    with pytest.raises(CannotConvert):
        converter(PCM_16K, other)


def test_one_channel_does_not_become_two():
    with pytest.raises(CannotConvert):
        converter(PCM_16K, STEREO_16K)


@pytest.mark.parametrize(("fmt", "decode"), [(MULAW_8K, g711.mulaw_to_pcm16), (ALAW_8K, g711.alaw_to_pcm16)])
def test_telephone_codes(fmt, decode):
    pcm = sine(8_000).tobytes()
    coded = built(PCM_8K, fmt, pcm)
    assert len(coded) == len(pcm) // 2
    assert built(fmt, PCM_8K, coded) == decode(coded)


def test_floats():
    pcm = sine(16_000)
    back = samples(built(FLOAT_16K, PCM_16K, built(PCM_16K, FLOAT_16K, pcm.tobytes())))
    assert max(abs(a - b) for a, b in zip(pcm, back, strict=True)) <= 1


def test_floats_beyond_full_scale_are_cut():
    data = array("f", [2.0, -2.0, 0.0]).tobytes()
    assert list(samples(built(FLOAT_16K, PCM_16K, data))) == [32_767, -32_768, 0]


def test_two_channels_become_their_mean():
    data = array("h", [100, 300, -100, -300]).tobytes()
    assert list(samples(built(STEREO_16K, PCM_16K, data, 3))) == [200, -200]


@pytest.mark.parametrize("channels", [1, 2])
def test_rate_form_and_channels_at_once(channels):
    source = AudioFormat(encoding="pcm_f32le", sample_rate_hz=24_000, channels=channels)
    mono = sine(24_000)
    frames = array("f", (sample / 32_768 for sample in mono for _ in range(channels)))
    got = g711.mulaw_to_pcm16(built(source, MULAW_8K, frames.tobytes()))
    assert noise_ratio_db(samples(got), sine(8_000)) > 30


def test_channels_stay_separate():
    left, right = sine(16_000), sine(16_000, hz=1_000, loud=5_000)
    woven = array("h", (sample for frame in zip(left, right, strict=True) for sample in frame))
    target = AudioFormat(encoding="pcm_s16le", sample_rate_hz=24_000, channels=2)
    got = samples(built(STEREO_16K, target, woven.tobytes()))
    assert noise_ratio_db(got[0::2], sine(24_000)) > 50
    assert noise_ratio_db(got[1::2], sine(24_000, hz=1_000, loud=5_000)) > 50


def test_not_a_number_is_silence():
    data = array("f", [math.nan, math.inf, -math.inf, 1e30]).tobytes()
    assert list(samples(built(FLOAT_16K, PCM_16K, data, 3))) == [0, 32_767, -32_768, 32_767]


# ---- WAV


WAV_16K = AudioFormat(encoding="wav", sample_rate_hz=16_000)
WAV_24K = AudioFormat(encoding="wav", sample_rate_hz=24_000)


@pytest.mark.parametrize("size", [1, 43, 641, 10**6])
def test_a_wav_is_opened(size):
    pcm = sine(16_000).tobytes()
    file = wav.header(PCM_16K, len(pcm)) + pcm + b"LIST\4\0\0\0abcd"
    assert built(WAV_16K, PCM_16K, file, size) == pcm


def test_the_files_own_header_outranks_the_announced_format():
    codes = g711.pcm16_to_mulaw(sine(8_000).tobytes())
    got = samples(built(WAV_24K, PCM_16K, wav.header(MULAW_8K, None) + codes))
    assert noise_ratio_db(got, sine(16_000)) > 30


@pytest.mark.parametrize("size", [1, 641])
def test_without_a_header_it_is_samples(size):
    pcm = sine(16_000).tobytes()
    assert built(WAV_16K, PCM_16K, pcm, size) == pcm


def test_a_wav_of_something_else_is_refused():
    file = bytearray(wav.header(PCM_16K, None) + bytes(20))
    file[34] = 24
    with pytest.raises(CannotConvert):
        built(WAV_16K, MULAW_8K, bytes(file))


def test_a_header_without_end_is_not_waited_for():
    file = b"RIFF\0\0\0\0WAVEjunk\xff\xff\xff\x0f" + bytes(70_000)
    assert built(WAV_16K, PCM_16K, file) == file


@pytest.mark.parametrize("data", [b"", b"12345678"])
def test_a_wav_is_written(data):
    file = built(PCM_16K, WAV_16K, data, 3)
    assert wav.parse(file) == wav.parse(wav.header(PCM_16K, None))
    assert file[44:] == data


def test_from_one_wav_to_another():
    pcm = sine(24_000).tobytes()
    file = built(WAV_24K, WAV_16K, wav.header(PCM_24K, len(pcm)) + pcm)
    assert wav.parse(file).format.sample_rate_hz == 16_000
    assert noise_ratio_db(samples(file[44:]), sine(16_000)) > 50


@given(st.lists(st.integers(0, 2_000), min_size=1, max_size=20))
def test_how_it_is_cut_makes_no_difference(sizes):
    data = sine(24_000, seconds=0.2).tobytes()
    convert = converter(PCM_24K, PCM_16K)
    complete = convert.feed(data) + convert.end()
    convert, out, at = converter(PCM_24K, PCM_16K), b"", 0
    for size in sizes:
        out += convert.feed(data[at : at + size])
        at += size
    assert out + convert.feed(data[at:]) + convert.end() == complete


@pytest.mark.parametrize(
    ("fmt", "sample"),
    [
        (PCM_16K, b"\0\0"),
        (MULAW_8K, b"\xff"),
        (AudioFormat(encoding="alaw", sample_rate_hz=8_000), b"\xd5"),
        (AudioFormat(encoding="pcm_f32le", sample_rate_hz=48_000), bytes(4)),
    ],
)
def test_silence(fmt, sample):
    assert silence(fmt, 0.5) == sample * (fmt.sample_rate_hz // 2)
