from __future__ import annotations

import pytest

from gw.errors import RequestError
from gw.library.asynchronous import Recording, recording
from gw.types.audio import PCM_16K
from gw.wire import wav

SECOND = bytes(32_000)
LONG = wav.header(PCM_16K, 5 * len(SECOND)) + 5 * SECOND


async def read_all(audio: Recording) -> bytes:
    pieces = [piece async for piece in audio.chunks()]
    assert all(0 < len(piece) <= 65_536 for piece in pieces)
    return b"".join(pieces)


async def test_a_file_is_read_in_pieces_as_often_as_wanted(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(LONG)
    source = recording(path, 0)
    assert (source.filename, source.size, source.seconds) == ("a.wav", len(LONG), 5.0)
    assert await read_all(source) == LONG
    assert await read_all(source) == LONG


async def test_bytes_that_say_what_they_are():
    source = recording(LONG, 0)
    assert (source.format.encoding, source.seconds) == ("wav", 5.0)
    assert await read_all(source) == LONG


async def test_samples_become_a_wav(tmp_path):
    path = tmp_path / "a.raw"
    path.write_bytes(SECOND)
    for audio in (SECOND, bytearray(SECOND), memoryview(SECOND), path, str(path)):
        source = recording(audio, 16_000)
        assert (source.filename, source.seconds) == ("audio.wav", 1.0)
        assert await read_all(source) == wav.header(PCM_16K, 32_000) + SECOND


async def test_a_file_that_nobody_knows_goes_to_the_provider_as_it_is(tmp_path):
    path = tmp_path / "a.amr"
    path.write_bytes(b"#!AMR\n" + bytes(100))
    assert await read_all(recording(path, 0)) == path.read_bytes()


@pytest.mark.parametrize("left", [b"", None])
async def test_a_file_that_changes_meanwhile(tmp_path, left):
    path = tmp_path / "a.wav"
    path.write_bytes(LONG)
    source = recording(path, 0)
    if left is None:
        path.unlink()
    else:
        path.write_bytes(left)
    with pytest.raises(RequestError, match=r"a\.wav (can no longer be read|has become shorter)"):
        await read_all(source)


def test_an_empty_file(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"")
    with pytest.raises(RequestError, match="empty"):
        recording(tmp_path / "a.wav", 0)
