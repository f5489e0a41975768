import pytest

from gw.wire.containers.ogg import OggWalk
from tests.fakes import containers as made


def walked(data, size=1_000):
    walk = OggWalk()
    for at in range(0, len(data), size):
        walk.feed(data[at : at + size])
    return walk.seconds


@pytest.mark.parametrize("seconds", [0.01, 0.5, 12.34])
@pytest.mark.parametrize("pre_skip", [0, 312, 3_840])
def test_opus_less_its_pre_skip(seconds, pre_skip):
    assert walked(made.ogg_opus(seconds, pre_skip=pre_skip)) == pytest.approx(seconds, abs=1e-4)


def test_opus_cut_out_of_a_longer_stream():
    assert walked(made.ogg_opus(2.0, begins=48_000 * 3_600)) == pytest.approx(2.0)


def test_frames_of_every_kind_of_packet():
    """Two frames of 60 ms, and three of 2.5 ms."""
    head = made.ogg_page(1, 0, [b"OpusHead\1\1\0\0" + bytes(7)], first=True)
    packets = [bytes([3 << 3 | 1]) + bytes(300), bytes([16 << 3 | 3, 3]) + bytes(9), b""]
    samples = 2 * 2_880 + 3 * 120
    assert walked(head + made.ogg_page(1, 90_000 + samples, packets)) == pytest.approx(samples / 48_000)


@pytest.mark.parametrize("rate", [8_000, 44_100])
def test_vorbis(rate):
    assert walked(made.ogg_vorbis(2.5, rate=rate), 7) == pytest.approx(2.5)


def test_flac_and_speex_inside():
    flac = b"\x7fFLAC\1\0\0\1fLaC\0\0\0\x22" + bytes(10) + (16_000 << 4).to_bytes(3, "big") + bytes(21)
    assert walked(made.ogg_page(1, 0, [flac], first=True) + made.ogg_page(1, 32_000, [bytes(9)])) == 2.0
    speex = b"Speex   " + bytes(28) + (8_000).to_bytes(4, "little") + bytes(40)
    assert walked(made.ogg_page(1, 0, [speex], first=True) + made.ogg_page(1, 8_000, [bytes(9)])) == 1.0


def test_one_after_another_and_one_beside_another():
    assert walked(made.ogg_opus(1.5) + made.ogg_opus(2.5, serial=8)) == pytest.approx(4.0)
    heads = [made.ogg_page(n, 0, [b"OpusHead\1\1\0\0" + bytes(7)], first=True) for n in (1, 2)]
    ends = [made.ogg_page(n, 960 * n, [made.OPUS_20_MS] * n) for n in (1, 2)]
    assert walked(b"".join(heads + ends)) == pytest.approx(0.04)


def test_streams_without_audio_and_malformed_pages():
    picture = made.ogg_page(1, 0, [b"\x80theora" + bytes(40)], first=True) + made.ogg_page(1, 999, [bytes(20)])
    assert walked(picture) == 0.0
    assert walked(made.ogg_page(1, 0, [b""], first=True) + made.ogg_page(2, 999, [bytes(20)])) == 0.0
    good = made.ogg_opus(0.5)
    assert walked(good + b"OggX" + bytes(60) + good) == pytest.approx(0.5)
