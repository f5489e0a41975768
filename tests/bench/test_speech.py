from __future__ import annotations

import pytest

from gw.bench.speech import FRAME_S, Phrase, compare, from_file, without_silence
from gw.bench.target import CannotCall
from gw.types.audio import MULAW_8K, PCM_16K
from gw.wire import wav

LOUD = b"\x00\x40"


@pytest.mark.parametrize(
    ("said", "heard", "expected"),
    [
        ("When do you open?", "when do you open", (0, 0)),
        ("When do you open?", "when you open", (1, 0)),
        ("When do you open?", "When when do you open", (0, 1)),
        ("one two three", "", (3, 0)),
        ("one two three", "four five", (3, 2)),
        ("It's nine.", "its nine", (1, 1)),
    ],
)
def test_words_lost_and_added(said, heard, expected):
    assert compare(said, heard) == expected


def test_silence_at_the_ends_is_cut_off_and_within_is_kept():
    pcm = bytes(20) + LOUD + bytes(8) + LOUD + bytes(6)
    assert without_silence(pcm) == LOUD + bytes(8) + LOUD
    assert without_silence(bytes(100)) == b""


def test_frames_are_as_long_as_a_microphones_and_the_last_is_filled():
    utterance = Phrase(text="x", pcm=LOUD * 500, format=PCM_16K)
    frames = list(utterance.frames())
    assert [len(frame) for frame in frames] == [round(16_000 * FRAME_S) * 2] * 2
    assert b"".join(frames) == LOUD * 500 + bytes(2 * 140)


def test_a_recording_and_its_words(tmp_path):
    path = tmp_path / "q.wav"
    path.write_bytes(wav.header(PCM_16K, 16) + bytes(4) + LOUD * 4 + bytes(4))
    with pytest.raises(CannotCall, match=r"write the words .*q\.txt"):
        from_file(path)
    path.with_suffix(".txt").write_text(" hello there\n")
    assert from_file(path) == Phrase(text="hello there", pcm=LOUD * 4, format=PCM_16K)


@pytest.mark.parametrize("data", [b"", b"no sound", wav.header(MULAW_8K, 8) + bytes(8)])
def test_a_recording_of_another_kind_is_refused_with_what_to_do(tmp_path, data):
    path = tmp_path / "q.wav"
    path.write_bytes(data)
    with pytest.raises(CannotCall, match="ffmpeg -i"):
        from_file(path)
