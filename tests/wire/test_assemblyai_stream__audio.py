"""Live audio in frames of 50 to 1000 ms, however it comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.types.audio import MULAW_8K, PCM_16K, AudioFormat
from gw.wire.assemblyai_stream import FrameCutter
from gw.wire.convert import CannotConvert

PCM_11K = AudioFormat(encoding="pcm_s16le", sample_rate_hz=11_025)
FORMATS = [PCM_16K, MULAW_8K, PCM_11K, AudioFormat(encoding="pcm_s16le", sample_rate_hz=48_000)]


def cut(fmt: AudioFormat, pieces: list[bytes]) -> list[bytes]:
    frames = FrameCutter(fmt)
    return [frame for piece in pieces for frame in frames.feed(piece)] + frames.end()


def test_frames_that_fit_go_as_they_are():
    pieces = [bytes(1_600), bytes(32_000), bytes(3_200)]
    frames = FrameCutter(PCM_16K)
    assert [frames.feed(piece) for piece in pieces] == [[piece] for piece in pieces]
    assert frames.end() == []


def test_telephone_frames_of_20_ms_are_joined():
    frames = FrameCutter(MULAW_8K)
    assert [len(frame) for _ in range(6) for frame in frames.feed(bytes(160))] == [480, 480]


def test_what_is_longer_than_a_second_is_cut():
    frames = FrameCutter(PCM_16K)
    assert [len(frame) for frame in frames.feed(bytes(65_536))] == [32_000, 32_000]   # 1536 bytes wait: under 50 ms
    assert [len(frame) for frame in frames.feed(bytes(64))] == [1_600]


@pytest.mark.parametrize(
    ("fmt", "silence"), [(PCM_16K, b"\0"), (MULAW_8K, b"\xff")], ids=["pcm", "mulaw"]
)
def test_the_rest_is_made_long_enough_by_silence(fmt, silence):
    frames = FrameCutter(fmt)
    assert frames.feed(b"\x11\x11") == []
    least = fmt.bytes_per_second // 20
    assert frames.end() == [b"\x11\x11" + silence * (least - 2)]
    assert frames.end() == []


def test_a_rate_that_50_ms_are_no_whole_samples_of():
    (frame,) = cut(PCM_11K, [bytes(2)])
    assert len(frame) % 2 == 0
    assert PCM_11K.seconds(len(frame)) >= 0.05


def test_two_channels_become_one():
    stereo = AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000, channels=2)
    left_and_right = (100).to_bytes(2, "little") + (300).to_bytes(2, "little")
    assert cut(stereo, [left_and_right * 1_600]) == [(200).to_bytes(2, "little") * 1_600]


@pytest.mark.parametrize("encoding", ["alaw", "opus", "unknown", "pcm_f32le"])
def test_what_it_does_not_take(encoding):
    with pytest.raises(CannotConvert):
        FrameCutter(AudioFormat(encoding=encoding, sample_rate_hz=16_000))


def test_an_unknown_sample_rate():
    with pytest.raises(CannotConvert):
        FrameCutter(AudioFormat(encoding="pcm_s16le"))


@given(st.sampled_from(FORMATS), st.lists(st.integers(0, 9_000), max_size=12))
def test_nothing_is_lost_and_every_frame_is_taken(fmt, sizes):
    audio = bytes(n % 251 for n in range(sum(sizes)))
    pieces, at = [], 0
    for size in sizes:
        pieces.append(audio[at : at + size])
        at += size
    frames = cut(fmt, pieces)
    assert b"".join(frames)[: len(audio)] == audio
    assert len(b"".join(frames)) - len(audio) < fmt.bytes_per_second * 0.051
    assert all(0.05 <= fmt.seconds(len(frame)) <= 1 for frame in frames)
