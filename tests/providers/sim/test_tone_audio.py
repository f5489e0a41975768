import struct

import pytest

from gw.providers.sim import fsk, tone_audio
from gw.types.audio import AudioFormat
from gw.wire import wav

WAV_16K = AudioFormat(encoding="wav", sample_rate_hz=16_000)


def pcm_at(rate, encoding="pcm_s16le", channels=1):
    return AudioFormat(encoding=encoding, sample_rate_hz=rate, channels=channels)


@pytest.mark.parametrize(
    ("requested", "sent"),
    [
        (pcm_at(8_000), pcm_at(8_000)),
        (pcm_at(48_000), pcm_at(48_000)),
        (pcm_at(44_100), pcm_at(24_000)),
        (pcm_at(0), pcm_at(24_000)),
        (pcm_at(16_000, channels=2), pcm_at(16_000)),
        (pcm_at(16_000, "mulaw"), pcm_at(8_000, "mulaw")),
        (pcm_at(8_000, "alaw"), pcm_at(8_000, "alaw")),
        (pcm_at(16_000, "wav"), pcm_at(16_000, "wav")),
        (pcm_at(0, "mp3"), pcm_at(24_000, "wav")),
        (pcm_at(16_000, "pcm_f32le"), pcm_at(24_000, "wav")),
    ],
)
def test_format_sent_for_each_requested_format(requested, sent):
    assert tone_audio.spoken_format(requested) == sent


def test_a_live_session_sends_no_containers():
    assert tone_audio.spoken_format(WAV_16K, live=True) == pcm_at(16_000)
    assert tone_audio.spoken_format(pcm_at(0, "opus"), live=True) == pcm_at(24_000)


def test_layout_of_a_wav_waits_for_its_header():
    head = wav.header(WAV_16K, 100)
    matches = [tone_audio.layout(head[:n], None, complete=False) for n in range(len(head) + 1)]
    assert matches[44] == tone_audio.Layout(format=WAV_16K, offset=44, n_bytes=100)
    assert matches[4:44] == [None] * 40


def test_layout_of_a_header_that_never_ends_is_unknown():
    chunks = b"RIFF\0\0\0\0WAVE" + b"junk" + struct.pack("<I", 10**9)
    assert tone_audio.layout(chunks, None, complete=False) is None
    assert tone_audio.layout(chunks, None, complete=True).format.encoding == "unknown"
    assert tone_audio.layout(chunks.ljust(tone_audio.HEADER_BYTES), None, complete=False).format.encoding == "unknown"


def test_layout_of_raw_samples_is_the_declared_one():
    assert tone_audio.layout(b"\0" * 10, pcm_at(8_000), complete=False) == tone_audio.Layout(format=pcm_at(8_000))


@pytest.mark.parametrize("decoded", [None, WAV_16K])
@pytest.mark.parametrize("data", [b"", b"no audio at all"])
def test_layout_of_anything_else_is_unknown(data, decoded):
    assert tone_audio.layout(data, decoded, complete=True).format.encoding == "unknown"


@pytest.mark.parametrize("n_channels", [1, 2, 3])
@pytest.mark.parametrize("piece", [1, 7, 4_000, 100_000])
def test_slices_are_mono_short_and_complete(n_channels, piece):
    mono = b"".join(fsk.encode("hi", 8_000))
    data = b"".join(mono[i : i + 2] + b"\1\2" * (n_channels - 1) for i in range(0, len(mono), 2))
    slicer = tone_audio.PcmSlicer(pcm_at(8_000, channels=n_channels))
    slices = [pcm for at in range(0, len(data), piece) for pcm in slicer.feed(data[at : at + piece])]
    assert b"".join(slices) == mono
    assert max(map(len, slices)) <= 4_000
    assert slicer.seconds == pytest.approx(fsk.duration_s("hi"))


@pytest.mark.parametrize("fmt", [pcm_at(8_000, "mulaw"), pcm_at(8_000, "alaw"), pcm_at(24_000), pcm_at(16_000, "wav")])
def test_spoken_audio_is_read_back(fmt):
    data = b"".join(tone_audio.spoken("Over and out.", fmt))
    layout = tone_audio.layout(data, fmt, complete=True)
    assert layout.format == fmt
    slices = tone_audio.PcmSlicer(fmt).feed(data[layout.offset :])
    assert [done.text for done in fsk.decode(b"".join(slices), fmt.sample_rate_hz)] == ["Over and out."]


def test_a_wavs_header_knows_its_length():
    data = b"".join(tone_audio.spoken("length", WAV_16K))
    assert wav.parse(data).data_bytes == len(data) - 44


@pytest.mark.parametrize("fmt", [pcm_at(16_000), pcm_at(8_000, "mulaw"), pcm_at(48_000, "wav")])
def test_readable(fmt):
    assert tone_audio.why_unreadable(fmt) == ""


@pytest.mark.parametrize(("fmt", "why"), [(pcm_at(0, "mp3"), "not from mp3"), (pcm_at(384_000), "not at 384000")])
def test_why_unreadable(fmt, why):
    assert why in tone_audio.why_unreadable(fmt)
