import pytest

from gw.wire.containers.frames import MAX_JUNK_BYTES, AdtsWalk, MpegWalk, format_of
from tests.fakes import containers as made


def walked(walk, data, size=10_000):
    for at in range(0, len(data), size):
        walk.feed(data[at : at + size])
    return walk.seconds


@pytest.mark.parametrize(
    ("frame", "seconds"),
    [
        (made.mp3_frame(), 1_152 / 44_100),
        (made.mp3_frame(version=2, kbit_index=4, rate_index=1), 576 / 24_000),
        (made.mp3_frame(layer=3, kbit_index=4, rate_index=1), 384 / 48_000),
    ],
    ids=["version 1 layer III", "version 2 layer III", "version 1 layer I"],
)
def test_mpeg(frame, seconds):
    assert walked(MpegWalk(), frame * 10) == pytest.approx(10 * seconds)


def test_tags_are_no_sound():
    data = made.id3(5_000) + made.mp3_frame() * 3 + b"TAG" + bytes(125)
    assert walked(MpegWalk(), data, 11) == pytest.approx(3 * 1_152 / 44_100)


@pytest.mark.parametrize("facts", [bytes(32) + b"Xing\0\0\0\1\0\x0f\xff\xff", bytes(17) + b"Info", bytes(32) + b"VBRI"])
def test_a_metadata_frame_is_not_counted_and_its_count_is_ignored(facts):
    data = made.mp3_frame(body=facts) + made.mp3_frame() * 3
    assert walked(MpegWalk(), data, 5) == pytest.approx(3 * 1_152 / 44_100)


def test_junk_between_frames_is_skipped():
    data = made.mp3_frame() * 2 + b"\xff\x00rubbish\xff\xff" * 20 + made.mp3_frame() * 2
    assert walked(MpegWalk(), data, 13) == pytest.approx(4 * 1_152 / 44_100)


@pytest.mark.parametrize("walk", [MpegWalk, AdtsWalk])
@pytest.mark.parametrize("junk", [b"\0", b"\xff"])
def test_much_junk_ends_it(walk, junk):
    frame = made.mp3_frame() if walk is MpegWalk else made.adts_frame()
    started = walk()
    one = walked(started, frame + junk * (MAX_JUNK_BYTES + 20_000))
    assert one > 0
    assert walked(started, frame * 10) == one


def test_adts():
    assert walked(AdtsWalk(), made.adts_frame() * 5, 3) == pytest.approx(5 * 1_024 / 24_000)
    assert walked(AdtsWalk(), made.id3(50) + made.adts_frame(rate_index=4, blocks=2)) == pytest.approx(2_048 / 44_100)
    assert walked(AdtsWalk(), made.adts_frame(rate_index=15) + made.adts_frame(size=7)[:3]) == 0.0


@pytest.mark.parametrize(
    ("head", "encoding", "rate"),
    [
        (made.mp3_frame(), "mp3", 44_100),
        (made.id3(50) + made.mp3_frame(version=2, kbit_index=4, rate_index=1), "mp3", 24_000),
        (made.adts_frame(), "aac", 24_000),
    ],
)
def test_the_first_frame_shows_the_format(head, encoding, rate):
    fmt = format_of(head)
    assert (fmt.encoding, fmt.sample_rate_hz) == (encoding, rate)


@pytest.mark.parametrize("head", [b"", b"\xff\xfb", made.id3(5_000)[:100], b"RIFF" + bytes(40)])
def test_a_head_without_a_frame_shows_none(head):
    assert format_of(head) is None


def test_channels():
    frame = made.mp3_frame()
    assert [format_of(frame[:3] + bytes([mode << 6 | frame[3] & 63]) + frame[4:]).channels for mode in range(4)] == [
        2,
        2,
        2,
        1,
    ]
