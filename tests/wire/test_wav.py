"""WAV headers as recorders, vendors and streams write them."""

import struct

import pytest

from gw.types.audio import MULAW_8K, PCM_16K, AudioFormat
from gw.wire import wav


def riff(*chunks: bytes, size: int = 1000) -> bytes:
    return b"RIFF" + struct.pack("<I", size) + b"WAVE" + b"".join(chunks)


def chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) & 1)


def fmt(code: int, bits: int, *, rate: int = 16_000, channels: int = 1, more: bytes = b"") -> bytes:
    return chunk(b"fmt ", struct.pack("<HHIIHH", code, channels, rate, 12345, 1, bits) + more)


def data(size: int) -> bytes:
    return b"data" + struct.pack("<I", size)


def test_a_plain_header():
    info = wav.parse(riff(fmt(1, 16), data(32_000)))
    assert info == wav.WavInfo(
        format=AudioFormat(encoding="wav", sample_rate_hz=16_000),
        data_offset=44, data_bytes=32_000, bytes_per_second=32_000,
    )
    assert info.seconds(44 + 32_000) == 1.0
    assert info.seconds(44 + 16_000) == 0.5, "a cut file is as long as what is there"
    assert info.seconds(44 + 99_000) == 1.0, "what follows the data is no audio"
    assert info.seconds(10) == 0.0


@pytest.mark.parametrize(
    ("code", "bits", "encoding", "rate"),
    [
        (1, 8, "unknown", 16_000), (1, 24, "unknown", 48_000), (1, 32, "unknown", 64_000),
        (3, 32, "pcm_f32le", 64_000), (3, 64, "unknown", 128_000), (6, 8, "alaw", 16_000), (7, 8, "mulaw", 16_000),
    ],
)
def test_other_codes_and_widths_tell_their_length_too(code, bits, encoding, rate):
    info = wav.parse(riff(fmt(code, bits), data(rate * 2)))
    assert info is not None
    assert (info.format.encoding, info.format.sample_rate_hz) == (encoding, 16_000)
    assert info.seconds(10**9) == 2.0


def test_stereo():
    info = wav.parse(riff(fmt(1, 16, rate=48_000, channels=2), data(192_000)))
    assert info is not None
    assert info.format == AudioFormat(encoding="wav", sample_rate_hz=48_000, channels=2)
    assert info.seconds(10**9) == 1.0


def test_the_extensible_form_names_its_code_in_the_guid():
    guid = struct.pack("<HHIH", 22, 16, 4, 1) + b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"
    info = wav.parse(riff(fmt(0xFFFE, 16, more=guid), data(32)))
    assert info is not None
    assert info.format.encoding == "wav"
    assert info.data_offset == 12 + 8 + 40 + 8


@pytest.mark.parametrize("size", [0, 0xFFFF_FFFF, 0xFFFF_FFFF - 44])
def test_placeholder_sizes_mean_all_that_follows(size):
    info = wav.parse(riff(fmt(1, 16), data(size), size=0))
    assert info is not None
    assert info.data_bytes is None
    assert info.seconds(44 + 64_000) == 2.0


def test_chunks_before_the_data_are_stepped_over_with_their_padding():
    head = riff(chunk(b"JUNK", b"abc"), fmt(1, 16), chunk(b"LIST", b"INFO" + b"x" * 33), data(320))
    info = wav.parse(head)
    assert info is not None
    assert info.data_offset == len(head)
    assert info.data_bytes == 320


@pytest.mark.parametrize(
    "prefix",
    [
        b"", b"RIFF", b"RIFFxxxxAVI " + b"\0" * 40, riff(data(10)), riff(fmt(1, 16))[:30], riff(fmt(2, 4), data(9)),
        riff(fmt(1, 16, rate=0), data(9)), riff(fmt(1, 16, channels=0), data(9)), riff(fmt(1, 12), data(9)),
        riff(chunk(b"fmt ", b"abc"), data(9)), riff(fmt(1, 16)), riff(fmt(85, 16), data(9)),
        riff(fmt(1, 16, rate=2**32 - 1), data(9)), riff(fmt(1, 16, channels=65_535), data(9)),
        riff(fmt(1, 65_528), data(9)),
    ],
)
def test_unusable_headers(prefix):
    assert wav.parse(prefix) is None


def test_every_prefix_is_read_without_an_error():
    complete = riff(chunk(b"LIST", b"x" * 11), fmt(1, 16), data(32_000))
    for at in range(len(complete)):
        assert wav.parse(complete[:at]) is None
    assert wav.parse(complete) is not None


@pytest.mark.parametrize(
    ("fmt_", "encoding"),
    [
        (PCM_16K, "wav"), (AudioFormat(encoding="wav", sample_rate_hz=24_000, channels=2), "wav"), (MULAW_8K, "mulaw"),
        (AudioFormat(encoding="alaw", sample_rate_hz=8_000), "alaw"),
        (AudioFormat(encoding="pcm_f32le", sample_rate_hz=48_000), "pcm_f32le"),
    ],
)
def test_a_written_header_reads_back(fmt_, encoding):
    head = wav.header(fmt_, 4800)
    info = wav.parse(head)
    assert info is not None
    assert info.format == AudioFormat(encoding=encoding, sample_rate_hz=fmt_.sample_rate_hz, channels=fmt_.channels)
    assert (info.data_offset, info.data_bytes) == (len(head), 4800)
    assert info.bytes_per_second == fmt_.bytes_per_second
    assert int.from_bytes(head[4:8], "little") == len(head) + 4800 - 8
    streamed = wav.parse(wav.header(fmt_, None))
    assert streamed is not None
    assert streamed.data_bytes is None


def test_no_header_for_compressed_audio():
    with pytest.raises(ValueError, match="mp3"):
        wav.header(AudioFormat(encoding="mp3"), 10)
    with pytest.raises(ValueError, match="0 Hz"):
        wav.header(AudioFormat(encoding="wav"), 10)


@pytest.mark.parametrize(
    ("prefix", "encoding"),
    [
        (b"ID3\x04", "mp3"), (b"\xff\xfb\x90\x00", "mp3"), (b"\xff\xf3\x90\x00", "mp3"), (b"\xff\xf1\x50\x80", "aac"),
        (b"\xff\xf9\x50\x80", "aac"), (b"fLaC\0", "flac"), (b"OggS\0", "ogg"), (b"\x1a\x45\xdf\xa3\x01", "webm"),
        (b"\0\0\0\x20ftypM4A ", "mp4"), (riff(fmt(85, 16)), "unknown"),
    ],
)
def test_compressed_formats_are_known_by_their_first_bytes(prefix, encoding):
    assert wav.sniff(prefix, 10_000, "audio/wav") == (AudioFormat(encoding=encoding), 0.0)


def test_sniffing_a_wav():
    head = riff(fmt(1, 16), data(32_000))
    assert wav.sniff(head, 32_044, "application/octet-stream") == (
        AudioFormat(encoding="wav", sample_rate_hz=16_000), 1.0,
    )
    long_list = riff(fmt(1, 16), b"LIST" + struct.pack("<I", 10**6))
    audio, seconds = wav.sniff(long_list, len(long_list) + 64_000, "")
    assert audio == AudioFormat(encoding="wav", sample_rate_hz=16_000)
    assert seconds == 2.0, "audio behind a large chunk is not free"


@pytest.mark.parametrize(
    ("content_type", "fmt_", "seconds"),
    [
        ("audio/pcm;rate=16000", PCM_16K, 1.0),
        ("Audio/PCM; Rate=16000; channels=2", AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000, channels=2), 0.5),
        ("audio/basic", MULAW_8K, 4.0),
        ("audio/pcma", AudioFormat(encoding="alaw", sample_rate_hz=8_000), 4.0),
        ("audio/pcm", None, 0.0), ("audio/pcm;rate=x", None, 0.0), ("audio/pcm;rate=0", None, 0.0),
        ("audio/pcm;rate=99999999999999", None, 0.0), ("audio/pcm;rate=16000;channels=0", None, 0.0),
        ("audio/pcm;rate=768000;channels=64", None, 0.0), ("audio/pcm;rate=192001", None, 0.0),
        ("audio/pcm;rate=7999", None, 0.0), ("audio/pcm;rate=8000;channels=9", None, 0.0),
        ("text/plain", None, 0.0), ("", None, 0.0),
    ],
)
def test_raw_samples_need_a_rate_in_their_type(content_type, fmt_, seconds):
    assert wav.sniff(b"\x01\x00\x02\x00", 32_000, content_type) == (fmt_, seconds)


def test_quiet_pcm_is_not_taken_for_mp3():
    assert wav.sniff(b"\xff\xff\xfe\xff", 32_000, "audio/pcm;rate=16000") == (PCM_16K, 1.0)


MPEG_FRAMES = [
    (b"\xff\xfb\x90\x00", 417), (b"\xff\xfb\x92\x00", 418), (b"\xff\xf3\x80\xc4", 208), (b"\xff\xe3\x18\xc4", 72),
    (b"\xff\xfd\x80\x00", 417), (b"\xff\xff\x10\x00", 32), (b"\xff\xf5\x80\x00", 417),
]
"""Headers and their frames' bytes: layer III at 128 kbit/s without and with padding, versions 2 and 2.5, layers II, I."""


@pytest.mark.parametrize(("head", "length"), MPEG_FRAMES)
def test_mpeg_under_a_raw_name_is_known_by_two_frames(head, length):
    frames = (head + bytes(length - 4)) * 2
    assert wav.sniff(frames, 4_000_000, "audio/pcm;rate=192000;channels=8") == (AudioFormat(encoding="mp3"), 0.0)
    for near in (frames[:length] + b"\0" + head, frames[: length + 1], head):
        assert wav.sniff(near, 32_000, "audio/pcm;rate=16000") == (PCM_16K, 1.0)


def test_aac_under_a_raw_name_is_known_by_two_frames():
    frame = b"\xff\xf1\x50\x80\x02\x9f\xfc" + bytes(13)   # ADTS: 20 bytes long
    assert wav.sniff(frame * 2, 10_000, "audio/pcm;rate=16000") == (AudioFormat(encoding="aac"), 0.0)
    assert wav.sniff(frame + b"\0" + frame, 32_000, "audio/pcm;rate=16000") == (PCM_16K, 1.0)


@pytest.mark.parametrize("head", [b"\xff\xeb\x90\x00", b"\xff\xfb\x00\x00", b"\xff\xfb\xf0\x00", b"\xff\xfb\x9c\x00"])
def test_headers_with_reserved_values_are_samples(head):
    assert wav.sniff(head * 1_000, 32_000, "audio/pcm;rate=16000") == (PCM_16K, 1.0)


def test_a_container_under_a_raw_name():
    assert wav.sniff(b"ID3\x04" + bytes(100), 10_000, "audio/pcm;rate=16000") == (AudioFormat(encoding="mp3"), 0.0)
