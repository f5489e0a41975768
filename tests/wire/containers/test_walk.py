from gw.wire.containers.walk import MAX_BUFFERED_BYTES, MORE, OVER, Walk, id3_bytes
from tests.fakes import containers as made


class Counting(Walk):
    """Takes blocks whose first byte is their length; 0 ends, 255 waits for an end that never comes."""

    def __init__(self):
        super().__init__()
        self.seen = []

    @property
    def seconds(self):
        return float(len(self.seen))

    def _take(self, data, at):
        self.seen.append(data[at])
        return OVER if data[at] == 0 else MORE if data[at] == 255 else data[at]


def test_skipped_bytes_need_not_have_come():
    walk = Counting()
    walk.feed(b"\x05")
    walk.feed(b"ab")
    walk.feed(b"cd\x03xx\x01")
    assert walk.seen == [5, 3, 1]


def test_over_is_over():
    walk = Counting()
    walk.feed(b"\x00")
    walk.feed(b"\x05")
    assert walk.seen == [0]


def test_no_end_of_waiting_ends_the_walk():
    walk = Counting()
    for _ in range(3):
        walk.feed(b"\xff" * MAX_BUFFERED_BYTES)
    assert len(walk.seen) == 2
    assert len(walk._buffer) == 0


def test_tags():
    assert id3_bytes(bytearray(b"xx" + made.id3(300)), 2) == 310
    assert id3_bytes(bytearray(b"ID3\4\0\x10\0\0\2\x2c"), 0) == 320
    assert id3_bytes(bytearray(b"ID3\4\0"), 0) == id3_bytes(bytearray(b"no tag, is it?"), 0) == 0
