from hypothesis import given
from hypothesis import strategies as st

from gw.relay.session_audio import ReplayBuffer
from gw.types.audio import PCM_16K, AudioFormat

SECOND = 32_000


def made(max_s=10.0):
    return ReplayBuffer(PCM_16K, max_s=max_s, max_bytes=1_000)


def everything(replay):
    data, at = b"", replay.start
    while piece := replay.read(at, 4_000):
        data += piece
        at += len(piece)
    return data


def test_what_is_not_final_can_be_heard_again():
    replay = made()
    for n in range(4):
        replay.append(bytes([n]) * SECOND)
    replay.final_until(1.5)
    assert replay.start == 1.5 * SECOND
    assert everything(replay) == b"\1" * (SECOND // 2) + b"\2" * SECOND + b"\3" * SECOND
    assert replay.read(replay.end, 10) == b""
    assert replay.seconds(replay.start) == 1.5


def test_a_transcript_ahead_of_the_audio_lets_go_of_all_there_is():
    replay = made()
    replay.append(b"x" * SECOND)
    replay.final_until(7.0)
    assert (replay.start, replay.end) == (SECOND, SECOND)
    replay.append(b"y" * SECOND)
    assert everything(replay) == b"y" * SECOND


def test_a_transcript_may_end_within_a_frame():
    replay = made()
    for n in range(50):
        replay.append(bytes([n]) * 640)
    replay.final_until(0.99)
    assert (replay.start, replay.end) == (31_680, 32_000)
    assert replay.read(0, 4_000) == bytes([49]) * 320


def test_what_is_read_ends_between_samples_of_all_channels():
    replay = ReplayBuffer(AudioFormat(encoding="pcm_s16le", sample_rate_hz=8_000, channels=3), max_s=10.0, max_bytes=1_000)
    replay.append(bytes(range(240)))
    assert replay.read(0, 100) == bytes(range(96))
    assert replay.read(96, 5) == bytes(range(96, 102))
    assert replay.read(234, 100) == bytes(range(234, 240))


def test_it_has_a_bound():
    replay = made(max_s=1.0)
    dropped = [replay.append(b"x" * 3_201) for _ in range(30)]
    assert replay.end - replay.start <= SECOND
    assert replay.start % 2 == 0
    assert dropped[:9] == [0] * 9
    assert sum(dropped) == replay.start > 0


def test_a_container_can_only_be_heard_from_its_beginning():
    replay = ReplayBuffer(AudioFormat(encoding="ogg"), max_s=10.0, max_bytes=100)
    replay.append(b"x" * 60)
    replay.final_until(5.0)
    assert (replay.start, replay.seconds(60)) == (0, 0.0)
    replay.append(b"x" * 60)
    assert replay.start > 0


@given(st.lists(st.integers(1, 5_000), max_size=40), st.lists(st.floats(0, 3), max_size=5))
def test_it_holds_the_end_of_what_was_given(sizes, finals):
    replay, given_ = made(), b""
    finals = sorted(finals)
    for n, size in enumerate(sizes):
        data = bytes([n]) * size
        replay.append(data)
        given_ += data
        if n < len(finals):
            replay.final_until(finals[n])
    assert replay.end == len(given_)
    assert everything(replay) == given_[replay.start :]
