import pytest

from gw.wire.containers.flac import FlacWalk
from tests.fakes import containers as made


def walked(data, size=1_000):
    walk = FlacWalk()
    for at in range(0, len(data), size):
        walk.feed(data[at : at + size])
    return walk.seconds


@pytest.mark.parametrize("size", [1, 1_000, 10**9])
@pytest.mark.parametrize("declared", [True, False])
def test_the_total_or_else_the_last_frame(declared, size):
    assert walked(made.flac(1.0, declared=declared), size) == 1.0


def test_many_frames():
    """Numbers of one, two and three bytes."""
    assert walked(made.flac(40.0, block=192, declared=False), 65_536) == 40.0


def test_a_tag_in_front():
    assert walked(made.id3(100) + made.flac(1.0)) == 1.0


def test_audio_that_looks_like_a_frame_is_not_one():
    data = made.flac(1.0, declared=False)
    assert walked(data + b"\xff\xf8\x70\x08\x7f\x0f\xff\x00" + bytes(40)) == 1.0   # its check sum is wrong
    assert walked(data + b"\xff\xf8\x70\x08\x9f\x0f\xff\x00" + b"\xff\xf8\x70\x08\xc3\x0f\xff" + bytes(40)) == 1.0


def test_blocks_of_changing_length_count_samples():
    head = bytes([0xFF, 0xF9, 0xC0, 0x08]) + chr(5_000).encode()
    frame = head + bytes([made._crc8(head)]) + bytes(30)
    facts = (8_000 << 44).to_bytes(8, "big")
    info = b"fLaC\x80\0\0\x22" + b"\x10\0\x20\0" + bytes(6) + facts + bytes(16)
    assert walked(info + frame) == (5_000 + 4_096) / 8_000


@pytest.mark.parametrize("data", [b"fLaX" + bytes(50), b"fLaC", b"fLaC\x80\0\0\x22" + bytes(60), b"fLaC\x04\0\0\1x\x80\0\0\0"])
def test_content_that_reveals_nothing(data):
    assert walked(data) == 0.0
